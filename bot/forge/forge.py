"""The forge: its repositories, and what happens to pull requests, whoever asks: API, git or a page."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bot.forge.accounts import Accounts
from bot.forge.bare import ZERO, Bare
from bot.forge.faults import Faults
from bot.forge.hooks import Hooks
from bot.forge.model import LIMIT, Account, Check, Comment, Issue, Pull, Refused, Repository, Review, Write, invalid, now
from bot.forge.runs import execute
from bot.forge.shapes_runs import RunShapes

REVIEWS = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}


class Forge(Accounts):
    """All of it, in memory but for the bare repositories below `folder`. Calls that change something hold `lock`."""

    def __init__(self, folder: Path, url: str, app_id: int = 4711) -> None:
        super().__init__(app_id)
        self.folder = folder
        self.url = url
        self.lock = threading.RLock()
        self.faults = Faults()
        self.hooks = Hooks(self.faults)
        self.shapes = RunShapes(url, app_id)
        self.repositories: dict[str, Repository] = {}
        self.writes: list[Write] = []
        # Each is told every exchange over the API (`bot.forge.web.Exchange`).
        self.listeners: list[Callable[[Any], None]] = []
        self.threads: list[threading.Thread] = []
        # How a dispatched run is executed.
        self.execute = execute

    def end_runs(self) -> None:
        """Cancel every run that is under way, and wait until all have ended."""
        for repository in self.repositories.values():
            for run in repository.runs.values():
                run.cancelled.set()
        for thread in self.threads:
            thread.join()

    def owner(self, repository: Repository) -> Account:
        """The account that a repository belongs to, made when it is first asked for."""
        return self.accounts.get(repository.owner) or self.account(repository.owner, write=False)

    def create_repository(self, full_name: str, branch: str = "main") -> Repository:
        """An empty repository."""
        owner, slash, name = full_name.partition("/")
        if not (owner and slash and name) or "/" in name or ".." in full_name or full_name.startswith("."):
            raise ValueError(f"{full_name!r} is not owner/name")
        folder = self.folder / "repositories" / owner / f"{name}.git"
        Bare.create(folder, branch)
        repository = self.repositories[full_name] = Repository(self.next_id(), full_name, folder, branch)
        return repository

    def repository(self, full_name: str) -> Repository:
        """A repository. Raises `Refused`."""
        found = self.repositories.get(full_name)
        if found is None:
            raise Refused(404, "Not Found")
        return found

    def tell(self, repository: Repository, sender: Account, event: str, **payload: Any) -> None:
        """Send an event about a repository."""
        shared = {
            "repository": self.shapes.repository(repository, self.owner(repository)),
            "sender": self.shapes.user(sender),
            "installation": {"id": self.installation_id, "node_id": "MQ=="},
        }
        self.hooks.send(event, {**payload, **shared})

    def pull_json(self, repository: Repository, pull: Pull, mergeable: bool | None = None, *, full: bool = True) -> dict[str, Any]:
        fork = self.repositories.get(pull.source)
        source = (fork, self.owner(fork)) if fork is not None else None
        return self.shapes.pull(repository, self.owner(repository), pull, mergeable, full=full, source=source)

    def _tell_pull(self, repository: Repository, sender: Account, pull: Pull, action: str, **more: Any) -> None:
        told = {"action": action, "number": pull.number, "pull_request": self.pull_json(repository, pull), **more}
        self.tell(repository, sender, "pull_request", **told)

    def pushed(self, repository: Repository, sender: Account, before: dict[str, str], after: dict[str, str]) -> None:
        """What follows from refs that moved: events, and the heads of pull requests."""
        bare = Bare(repository.folder)
        for ref in sorted(before.keys() | after.keys()):
            old, new = before.get(ref), after.get(ref)
            if old == new or ref.startswith("refs/pull/"):
                continue
            self._push_event(repository, bare, sender, ref, old, new)
            branch = ref.removeprefix("refs/heads/")
            for target, pull in self._open_pulls() if ref.startswith("refs/heads/") else []:
                if target is repository and branch == pull.base and new is not None:
                    self._base_moved(repository, bare, pull, new)
                if branch != pull.branch or pull.state != "open" or (pull.source or target.full_name) != repository.full_name:
                    continue
                if new is None:
                    self._close(target, sender, pull)
                    continue
                pull.head, pull.updated = new, now()
                pull.base_sha = Bare(target.folder).head(pull.base) or pull.base_sha
                self._keep_head(repository, target, pull)
                self._tell_pull(target, sender, pull, "synchronize", before=old, after=new)

    def _open_pulls(self) -> list[tuple[Repository, Pull]]:
        """Every open pull request, and the repository that it is made to."""
        return [(one, pull) for one in list(self.repositories.values()) for pull in one.pulls() if pull.state == "open"]

    def _keep_head(self, source: Repository, target: Repository, pull: Pull) -> None:
        """The head of a pull request has a ref of its own, which brings a fork's commits along."""
        bare, ref = Bare(target.folder), f"refs/pull/{pull.number}/head"
        if source is target:
            bare.update(ref, pull.head)
        else:
            bare.git("fetch", "--quiet", "--no-tags", str(source.folder), f"+{pull.head}:{ref}")

    def _push_event(self, repository: Repository, bare: Bare, sender: Account, ref: str, old: str | None, new: str | None) -> None:
        if not ref.startswith(("refs/heads/", "refs/tags/")):
            return
        commits = bare.log("-20", "--reverse", new, *([f"^{old}"] if old and bare.resolve(old) else [])) if new else []
        told = [
            {
                "id": one.sha,
                "tree_id": one.tree,
                "distinct": True,
                "message": one.message,
                "timestamp": one.committer[2],
                "url": f"{self.url}/{repository.full_name}/commit/{one.sha}",
                "author": {"name": one.author[0], "email": one.author[1]},
                "committer": {"name": one.committer[0], "email": one.committer[1]},
                "added": [],
                "removed": [],
                "modified": [],
            }
            for one in commits
        ]
        self.tell(
            repository,
            sender,
            "push",
            ref=ref,
            before=old or ZERO,
            after=new or ZERO,
            base_ref=None,
            compare=f"{self.url}/{repository.full_name}",
            created=old is None,
            deleted=new is None,
            forced=bool(old and new and not bare.ancestor(old, new)),
            head_commit=told[-1] if told else None,
            commits=told,
            pusher={"name": sender.login, "email": None},
        )

    def _base_moved(self, repository: Repository, bare: Bare, pull: Pull, new: str) -> None:
        """A pull request whose commits all came into its base by a push is merged."""
        if bare.ancestor(pull.head, new) and not bare.ancestor(pull.head, pull.base_sha):
            pull.merged, pull.merge_commit, pull.merged_by = now(), new, self.bot
            self._close(repository, self.bot, pull)
        pull.base_sha = new if pull.state == "open" else pull.base_sha

    def open_pull(
        self, repository: Repository, author: Account, title: str, body: str, branch: str, base: str, draft: bool = False
    ) -> Pull:
        """A pull request. Raises `Refused` (422) for a duplicate, unknown branches, or nothing to merge."""
        bare = Bare(repository.folder)
        whose, _, branch = branch.rpartition(":")
        source = repository if whose in ("", repository.owner) else self.repositories.get(f"{whose}/{repository.name}")
        head, base_sha = Bare(source.folder).head(branch) if source is not None else None, bare.head(base)
        fork = source.full_name if source is not None and source is not repository else ""
        if source is None or head is None:
            raise invalid("PullRequest", "head", "head is invalid")
        if base_sha is None:
            raise invalid("PullRequest", "base", "base is invalid")
        if any(one.state == "open" and (one.branch, one.base, one.source) == (branch, base, fork) for one in repository.pulls()):
            raise invalid("PullRequest", "base", f"A pull request already exists for {whose or repository.owner}:{branch}.")
        if Bare(source.folder).ancestor(head, base_sha):
            raise invalid("PullRequest", "base", f"No commits between {base} and {branch}")
        _text("PullRequest", title, body)
        pull = Pull(
            self.next_id(),
            repository.next_number(),
            author,
            title,
            body,
            branch=branch,
            base=base,
            head=head,
            base_sha=base_sha,
            draft=draft,
            source=fork,
        )
        repository.issues[pull.number] = pull
        self._keep_head(source, repository, pull)
        self._tell_pull(repository, author, pull, "opened")
        return pull

    def open_issue(self, repository: Repository, author: Account, title: str, body: str, labels: list[str]) -> Issue:
        """An issue."""
        _text("Issue", title, body)
        issue = Issue(self.next_id(), repository.next_number(), author, title, body, labels=labels)
        repository.issues[issue.number] = issue
        self.tell(repository, author, "issues", action="opened", issue=self.shapes.issue(repository, issue))
        return issue

    def edit(self, repository: Repository, actor: Account, issue: Issue, given: dict[str, Any]) -> None:
        """Change an issue's or pull request's title, text, labels or state."""
        _text("Issue", given.get("title", issue.title), given.get("body", issue.body))
        changed = [name for name in ("title", "body") if name in given and given[name] != getattr(issue, name)]
        issue.title, issue.body = given.get("title") or issue.title, given["body"] or "" if "body" in given else issue.body
        issue.labels = given.get("labels", issue.labels)
        issue.updated = now()
        if changed and isinstance(issue, Pull):
            self._tell_pull(repository, actor, issue, "edited", changes={})
        elif changed:
            self.tell(repository, actor, "issues", action="edited", issue=self.shapes.issue(repository, issue), changes={})
        wanted = given.get("state", issue.state)
        if wanted == "closed" and issue.state == "open":
            self._close(repository, actor, issue)
        elif wanted == "open" and issue.state == "closed":
            self._reopen(repository, actor, issue)

    def _close(self, repository: Repository, actor: Account, issue: Issue) -> None:
        issue.state, issue.closed, issue.updated = "closed", now(), now()
        if isinstance(issue, Pull):
            self._tell_pull(repository, actor, issue, "closed")
        else:
            self.tell(repository, actor, "issues", action="closed", issue=self.shapes.issue(repository, issue))

    def _reopen(self, repository: Repository, actor: Account, issue: Issue) -> None:
        if isinstance(issue, Pull):
            source = self.repositories.get(issue.source) or repository
            head = Bare(source.folder).head(issue.branch)
            same = [one for one in repository.pulls() if one.state == "open" and (one.branch, one.source) == (issue.branch, issue.source)]
            if issue.merged or head is None or same:
                raise invalid("PullRequest", "state", "state cannot be changed: the pull request can't be reopened")
            issue.head = head
            self._keep_head(source, repository, issue)
        issue.state, issue.closed = "open", None
        if isinstance(issue, Pull):
            self._tell_pull(repository, actor, issue, "reopened")
        else:
            self.tell(repository, actor, "issues", action="reopened", issue=self.shapes.issue(repository, issue))

    def comment(self, repository: Repository, author: Account, issue: Issue, body: str) -> Comment:
        """A comment."""
        _text("IssueComment", "-", body)
        if not body:
            raise invalid("IssueComment", "body", "body can't be blank")
        comment = Comment(self.next_id(), issue.number, author, body)
        issue.comments.append(comment)
        self.tell_comment(repository, author, issue, comment, "created")
        return comment

    def tell_comment(self, repository: Repository, sender: Account, issue: Issue, comment: Comment, action: str) -> None:
        """Send an event about a comment."""
        told = {"issue": self.shapes.issue(repository, issue), "comment": self.shapes.comment(repository, comment)}
        self.tell(repository, sender, "issue_comment", action=action, **told, **({"changes": {}} if action == "edited" else {}))

    def review(self, repository: Repository, author: Account, pull: Pull, event: str, body: str, commit: str | None = None) -> Review:
        """A submitted review. Raises `Refused` (422) for one's own pull request, or for a commit that is not the head."""
        state = REVIEWS.get(event)
        if state is None:
            raise invalid("PullRequestReview", "event", "event is not one of APPROVE, REQUEST_CHANGES, COMMENT")
        if author == pull.author and event != "COMMENT":
            told = "approve" if event == "APPROVE" else "request changes on"
            raise Refused(422, f"Unprocessable Entity: Can not {told} your own pull request")
        if event == "REQUEST_CHANGES" and not body:
            raise Refused(422, "Unprocessable Entity: Body is required when requesting changes")
        if commit is not None and commit not in Bare(repository.folder).git("rev-list", pull.head).split():
            raise Refused(422, "Unprocessable Entity: the commit is not part of the pull request")
        _text("PullRequestReview", "-", body)
        review = Review(self.next_id(), pull.number, author, state, body, commit or pull.head)
        pull.reviews.append(review)
        pull.requested = [one for one in pull.requested if one != author]
        told_review = {**self.shapes.review(repository, review), "state": state.lower()}
        short = self.pull_json(repository, pull, full=False)
        self.tell(repository, author, "pull_request_review", action="submitted", review=told_review, pull_request=short)
        return review

    def mergeable(self, repository: Repository, pull: Pull) -> bool | None:
        """Whether it can be merged; None the first time after a change."""
        bare = Bare(repository.folder)
        base = bare.head(pull.base) or pull.base_sha
        if pull.state != "open":
            return None
        if pull.looked != (base, pull.head) or self.faults.take("mergeable_unknown") is not None:
            pull.looked = (base, pull.head)
            return None
        return bare.merged_tree(base, pull.head) is not None

    def _meanwhile(self, repository: Repository, bare: Bare, branch: str, sha: str) -> None:
        """Somebody pushes a file to a branch."""
        person = self.person() or self.bot
        before, blob = bare.refs(), bare.git("hash-object", "-w", "--stdin", given=b"meanwhile\n")
        rows = bare.git("ls-tree", sha).splitlines()
        tree = bare.git("mktree", given="".join(f"{row}\n" for row in (*rows, f"100644 blob {blob}\tmeanwhile.txt")).encode())
        bare.update(f"refs/heads/{branch}", bare.make_commit(tree, [sha], "Meanwhile", person.login))
        self.pushed(repository, person, before, bare.refs())

    def merge(self, repository: Repository, actor: Account, pull: Pull, sha: str | None, title: str, message: str, method: str) -> str:
        """Merge; returns the merge's commit. Raises `Refused`: 409 for another head, 405 where it is not possible."""
        bare = Bare(repository.folder)
        base = bare.head(pull.base)
        if base is not None and self.faults.take("base_pushed") is not None:
            self._meanwhile(repository, bare, pull.base, base)
        if self.faults.take("head_pushed") is not None:
            self._meanwhile(repository, bare, pull.branch, pull.head)
        if self.faults.take("base_modified") is not None:
            raise Refused(405, "Base branch was modified. Review and try the merge again.")
        if (sha is not None and sha != pull.head) or self.faults.take("head_moved") is not None:
            raise Refused(409, "Head branch was modified. Review and try the merge again.")
        if self.faults.take("blocked") is not None:
            raise Refused(405, "Repository rule violations found: at least 2 approving reviews are required")
        for name, app in repository.required:
            if not any(_passes(check, pull.head, name, app) for check in repository.checks):
                raise Refused(405, f'Required status check "{name}" is expected.')
        tree = bare.merged_tree(base, pull.head) if base and pull.state == "open" and not pull.draft else None
        if base is None or tree is None or method not in ("merge", "squash"):
            raise Refused(405, "Pull Request is not mergeable")
        text = f"{title or f'Merge pull request #{pull.number} from {repository.owner}/{pull.branch}'}\n\n{message or pull.title}"
        commit = bare.make_commit(tree, [base, pull.head] if method == "merge" else [base], text, actor.login)
        before = bare.refs()
        if not bare.update(f"refs/heads/{pull.base}", commit, base):
            raise Refused(405, "Base branch was modified. Review and try the merge again.")
        pull.merged, pull.merged_by, pull.merge_commit = now(), actor, commit
        self._close(repository, actor, pull)
        self.pushed(repository, actor, before, bare.refs())
        return commit


def _passes(check: Check, sha: str, name: str, app: int | None) -> bool:
    """Whether a check satisfies a rule. GitHub takes a skipped one for a success."""
    wanted = (check.sha, check.name) == (sha, name) and app in (None, check.app_id)
    return wanted and check.conclusion in ("success", "neutral", "skipped")


def _text(resource: str, title: Any, body: Any) -> None:
    """Raises `Refused` for a title or text that GitHub would not keep."""
    if not isinstance(title, str) or not title.strip():
        raise invalid(resource, "title", "title can't be blank")
    if len(title) > 256:
        raise invalid(resource, "title", "title is too long (maximum is 256 characters)")
    if body is not None and not isinstance(body, str):
        raise invalid(resource, "body", "body is not a string")
    if len(body or "") > LIMIT:
        raise invalid(resource, "body", "body is too long (maximum is 65536 characters)")
