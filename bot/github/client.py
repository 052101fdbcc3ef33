"""One repository on GitHub, as `bot.hosting.Repository` describes it: pull requests, comments, checks, reviews, the merge."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from github import Github, GithubException, UnknownObjectException
from github.Issue import Issue
from github.IssueComment import IssueComment
from github.NamedUser import NamedUser
from github.Organization import Organization
from github.PaginatedList import PaginatedList
from github.PullRequest import PullRequest as GithubPull
from github.Repository import Repository as GithubRepository
from github.Requester import Requester

from bot import hosting
from bot.github.asking import Asking
from bot.github.auth import Access, told
from bot.github.checks import Checks
from bot.github.deliveries import redeliver
from bot.github.runs import Runs
from bot.hosting import Branch, Merge, PullRequest, Review, State
from runner.errors import FactoryError

MAX_BODY = 65_536
CUT = "\n\n… cut: GitHub takes no more."
WRITERS = ("admin", "maintain", "write")
REVIEWERS = 3
MERGE_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0)


class _Listed(Issue):
    """An issue of a list, which holds all of it. PyGithub would ask for each that is no pull request again, to see whether it is one."""

    def __init__(self, requester: Requester, headers: dict[str, str | int], attributes: dict[str, Any]) -> None:
        super().__init__(requester, headers, attributes, completed=True)


class Repository(Runs, Checks):
    """The repository `name` (`owner/name`). What makes a thing looks for it first, so each call may be repeated."""

    def __init__(
        self, access: Access, name: str, pause: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.time
    ) -> None:
        self.access = access
        self.name = name
        self.asking = Asking(access, pause, clock)
        self._url: str | None = None

    def repository(self, github: Github) -> GithubRepository:
        """Its object, not asked for yet. What is read through it is asked for at once, so that no later look can fail outside `Asking`."""
        return GithubRepository(github.requester, completed=False, url=f"/repos/{self.name}")

    def default_branch(self) -> Branch:
        """The default branch as it is now."""

        def read(github: Github) -> Branch:
            repository = github.get_repo(self.name)
            return Branch(repository.default_branch, repository.get_git_ref(f"heads/{repository.default_branch}").object.sha)

        return self.asking.read(f"the default branch of {self.name}", read)

    def head(self, branch: str) -> str | None:
        """A branch's commit, None where there is no such branch."""

        def read(github: Github) -> str | None:
            try:
                return str(self.repository(github).get_git_ref(f"heads/{branch}").object.sha)
            except UnknownObjectException:
                return None

        return self.asking.read(f"the branch {branch}", read)

    def pull_requests(self, state: State = "open") -> Sequence[PullRequest]:
        """The pull requests, oldest first."""

        def read(github: Github) -> list[PullRequest]:
            pulls = self.repository(github).get_pulls(state=state, sort="created", direction="asc")
            return [self._pull(pull) for pull in pulls]

        return self.asking.read("the pull requests", read)

    def pull_request(self, number: int) -> PullRequest:
        """One pull request."""
        return self.asking.read(
            f"pull request #{number}", lambda github: self._pull(self.repository(github).get_pull(number)), announced=True
        )

    def open_pull_request(self, branch: str, title: str, body: str) -> PullRequest:
        """The open pull request of a branch into the default branch, made where there is none."""
        base = self.asking.read(f"the repository {self.name}", lambda github: github.get_repo(self.name).default_branch)
        owner = self.name.partition("/")[0]

        def look(github: Github) -> PullRequest | None:
            # A fork of the same owner may have a branch of the same name.
            pulls = map(self._pull, self.repository(github).get_pulls(state="open", head=f"{owner}:{branch}", base=base))
            return next((pull for pull in pulls if pull.branch == branch and not pull.fork), None)

        def create(github: Github) -> PullRequest:
            return self._pull(self.repository(github).create_pull(base, branch, title=title, body=bounded(body)))

        return self.asking.make(f"a pull request for {branch}", look, create)

    def edit_pull_request(self, number: int, title: str, body: str) -> None:
        """Bring title and text to these."""
        wanted = bounded(body)

        def write(github: Github) -> None:
            pull = self.repository(github).get_pull(number)
            if (pull.title, pull.body or "") != (title, wanted):
                pull.edit(title=title, body=wanted)

        self.asking.write(f"the text of pull request #{number}", write)

    def close(self, number: int) -> None:
        """Close a pull request or an issue; one that is closed stays as it is."""

        def write(github: Github) -> None:
            issue = self.repository(github).get_issue(number)
            if issue.state == "closed":
                return
            if issue.pull_request is not None:
                self.repository(github).get_pull(number).edit(state="closed")
            else:
                issue.edit(state="closed")

        self.asking.write(f"closing #{number}", write)

    def merge(self, number: int, sha: str, title: str, message: str) -> Merge:
        """Merge exactly this head. What may pass is tried again a few times: a base that just moved, mergeability not known yet."""
        said = "GitHub never said whether it can be merged"
        for wait in (*MERGE_SECONDS, None):
            pull = self.asking.read(f"pull request #{number}", lambda github: self.repository(github).get_pull(number))
            if pull.merged:
                return Merge(pull.head.sha == sha, "it was merged already" if pull.head.sha == sha else f"{pull.head.sha} was merged")
            if pull.state != "open":
                return Merge(False, "it is closed")
            if pull.head.sha != sha:
                return Merge(False, f"its head moved to {pull.head.sha}")
            if pull.base.ref != pull.base.repo.default_branch:
                return Merge(False, f"it is to be merged into {pull.base.ref}, and not into the default branch")
            if pull.mergeable is not None:
                final, said = self._try_to_merge(pull, sha, title, message)
                if final is not None:
                    return final
            if wait is None:
                break
            self.asking.pause(wait)
        return Merge(False, said)

    def _try_to_merge(self, pull: GithubPull, sha: str, title: str, message: str) -> tuple[Merge | None, str]:
        """What became of one attempt, or None and the reason where it is worth another."""

        def put(_: Github) -> bool:
            return bool(pull.merge(commit_title=title, commit_message=message, sha=sha, merge_method="merge").merged)

        try:
            return Merge(self.asking.attempt(f"merging #{pull.number}", put)), ""
        except GithubException as error:
            why = told(error)
            if error.status == 405 and "base branch was modified" in why.lower():
                return None, why
            if error.status >= 500:
                # It may be merged: the next look tells.
                return None, why
            return Merge(False, why), why

    def reviews(self, number: int) -> Sequence[Review]:
        """The submitted reviews, oldest first. `counts`: by a person who may write to the repository."""

        def read(github: Github) -> list[Review]:
            repository = self.repository(github)
            writers: dict[str, bool] = {}
            found = []
            for review in repository.get_pull(number).get_reviews():
                if review.user is None or review.state == "PENDING":
                    continue
                login = review.user.login
                if login not in writers:
                    writers[login] = review.user.type == "User" and _may_write(repository, login)
                found.append(Review(review.id, login, review.state, review.commit_id or "", review.body or "", writers[login]))
            return found

        return self.asking.read(f"the reviews of #{number}", read, announced=True)

    def request_review(self, number: int) -> None:
        """Ask people with write access, but for the author, unless somebody is asked already."""

        def write(github: Github) -> None:
            repository = self.repository(github)
            pull = repository.get_pull(number)
            if pull.requested_reviewers or pull.requested_teams:
                return
            chosen = [person.login for person in self._people(repository) if person.login != pull.user.login]
            if chosen:
                pull.create_review_request(reviewers=chosen[:REVIEWERS])

        self.asking.write(f"asking for a review of #{number}", write)

    def kept_comment(self, number: int, marker: str, body: str) -> None:
        """The one comment of this marker, with this text: the oldest is kept, extras are deleted. Only the bot's own comments count."""
        text, what = marked(body, marker), f"the comment {marker} on #{number}"

        def mine(github: Github) -> list[IssueComment]:
            comments = self._issue(github, number).get_comments()
            return [comment for comment in comments if _hidden(marker) in (comment.body or "") and self._own(comment.user)]

        def look(github: Github) -> list[IssueComment] | None:
            return mine(github) or None

        def create(github: Github) -> list[IssueComment]:
            return [self._issue(github, number).create_comment(text)]

        # Nobody else's text comes between the look and the edit.
        with self.asking.writing:
            kept, *extras = self.asking.make(what, look, create)
            if kept.body != text:
                self.asking.write(what, lambda _: kept.edit(text))
            for extra in extras:
                self.asking.write(what, partial(_delete, extra))

    def kept_issue(self, marker: str, title: str, body: str) -> int:
        """The one issue of this marker, with this title and text; returns its number. Only the bot's own issues count."""
        text, what = marked(body, marker), f"the issue {marker}"

        def look(github: Github) -> Issue | None:
            mine = {"state": "all", "creator": self.access.login(), "sort": "created", "direction": "asc"}
            issues = PaginatedList(_Listed, github.requester, f"/repos/{self.name}/issues", mine)
            own = (issue for issue in issues if issue.pull_request is None and self._own(issue.user))
            return next((issue for issue in own if _hidden(marker) in (issue.body or "")), None)

        def create(github: Github) -> Issue:
            return self.repository(github).create_issue(title, text)

        with self.asking.writing:
            issue = self.asking.make(what, look, create)
            if (issue.title, issue.body) != (title, text):
                self.asking.write(what, lambda _: issue.edit(title=title, body=text))
        return issue.number

    def kept_issues(self) -> Sequence[hosting.Issue]:
        """All issues that the bot made, oldest first."""

        def read(github: Github) -> list[hosting.Issue]:
            mine = {"state": "all", "creator": self.access.login(), "sort": "created", "direction": "asc"}
            issues = PaginatedList(_Listed, github.requester, f"/repos/{self.name}/issues", mine)
            own = [issue for issue in issues if issue.pull_request is None and self._own(issue.user)]
            return [hosting.Issue(one.number, "open" if one.state == "open" else "closed", one.body or "") for one in own]

        return self.asking.read("the bot's issues", read)

    def file_url(self, commit: str, path: str) -> str:
        """Where a file of a commit is shown, as a picture may be linked."""
        return f"{self._page()}/blob/{commit}/{path}?raw=true"

    def run_url(self, run: int) -> str:
        """Where a workflow run is shown."""
        return f"{self._page()}/actions/runs/{run}"

    def redeliver_failed(self) -> None:
        """Have deliveries sent again that failed. A personal token knows of none."""
        app = self.access.as_app()
        if app is not None:
            self.asking.read("the App's deliveries", lambda _: redeliver(app))

    def _page(self) -> str:
        """The address of the repository's own page."""
        if self._url is None:
            self._url = self.asking.read(f"the repository {self.name}", lambda github: github.get_repo(self.name).html_url)
        return self._url

    def _people(self, repository: GithubRepository) -> Iterator[Any]:
        """People who may write."""
        try:
            for person in repository.get_collaborators():
                if person.type == "User" and (person.permissions.push or person.permissions.admin):
                    yield person
        except GithubException as error:
            if error.status not in (403, 404):
                raise

    def _issue(self, github: Github, number: int) -> Issue:
        """What a pull request has of an issue, not asked for yet."""
        return Issue(github.requester, completed=False, url=f"/repos/{self.name}/issues/{number}")

    def _own(self, author: NamedUser | Organization | None) -> bool:
        """Whether the bot wrote it. A deleted account leaves no author."""
        return author is not None and author.login == self.access.login()

    def _pull(self, pull: GithubPull) -> PullRequest:
        merged = pull.merged_at is not None
        source = pull.head.repo
        return PullRequest(
            number=pull.number,
            state="open" if pull.state == "open" else "closed",
            branch=pull.head.ref,
            head=pull.head.sha,
            author=pull.user.login,
            title=pull.title,
            body=pull.body or "",
            merged=merged,
            merge_commit=pull.merge_commit_sha if merged else None,
            merged_by=pull.merged_by.login if merged and pull.merged_by is not None else None,
            fork=source is None or source.full_name != self.name,
            aside=pull.base.ref != pull.base.repo.default_branch,
        )


def bounded(text: str, room: int = MAX_BODY) -> str:
    """The text as GitHub takes it: not longer than `room` characters, and told where it was cut."""
    return text if len(text) <= room else text[: room - len(CUT)] + CUT


def marked(body: str, marker: str) -> str:
    """A body that carries a marker no reader sees. Raises `FactoryError` for a marker that could end the hidden comment."""
    if "--" in marker or ">" in marker:
        raise FactoryError(f"{marker!r} can't be a marker")
    hidden = f"\n\n{_hidden(marker)}"
    return bounded(body, MAX_BODY - len(hidden)) + hidden


def _delete(comment: IssueComment, _: Github) -> None:
    with suppress(UnknownObjectException):
        comment.delete()


def _hidden(marker: str) -> str:
    return f"<!-- kernel-factory: {marker} -->"


def _may_write(repository: GithubRepository, login: str) -> bool:
    try:
        return repository.get_collaborator_permission(login) in WRITERS
    except UnknownObjectException:
        return False
