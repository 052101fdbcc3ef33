"""What the forge's answers look like: each record in the JSON that GitHub's description of its API asks for."""

from __future__ import annotations

import base64
from typing import Any

from bot.forge.bare import Bare, Changed, Commit
from bot.forge.model import Account, Comment, Issue, Pull, Repository, Review

APP_SLUG = "kernel-factory"
# fmt: off
_REPOSITORY_URLS = (
    "archive_url", "assignees_url", "blobs_url", "branches_url", "collaborators_url", "comments_url", "commits_url", "compare_url",
    "contents_url", "contributors_url", "deployments_url", "downloads_url", "events_url", "forks_url", "git_commits_url",
    "git_refs_url", "git_tags_url", "hooks_url", "issue_comment_url", "issue_events_url", "issues_url", "keys_url", "labels_url",
    "languages_url", "merges_url", "milestones_url", "notifications_url", "pulls_url", "releases_url", "stargazers_url",
    "statuses_url", "subscribers_url", "subscription_url", "tags_url", "teams_url", "trees_url",
)
# fmt: on
# fmt: off
_USER_URLS = (
    "followers_url", "following_url", "gists_url", "starred_url", "subscriptions_url", "organizations_url", "repos_url", "events_url",
    "received_events_url",
)
# fmt: on


def node(kind: str, number: int) -> str:
    """An opaque identifier."""
    return base64.b64encode(f"{kind}:{number}".encode()).decode()


class Shapes:
    """The JSON of everything, with addresses on the forge at `url`."""

    def __init__(self, url: str, app_id: int) -> None:
        self.url = url
        self.api = f"{url}/api/v3"
        self.app_id = app_id

    def user(self, account: Account) -> dict[str, Any]:
        base = f"{self.api}/users/{account.login}"
        return {
            "login": account.login,
            "id": account.id,
            "node_id": node("U", account.id),
            "avatar_url": f"{self.url}/avatars/{account.login}.svg",
            "gravatar_id": "",
            "url": base,
            "html_url": f"{self.url}/{account.login}",
            **{name: f"{base}/{name.removesuffix('_url')}" for name in _USER_URLS},
            "type": "Bot" if account.bot else "User",
            "site_admin": False,
        }

    def repository(self, repository: Repository, owner: Account) -> dict[str, Any]:
        base = f"{self.api}/repos/{repository.full_name}"
        web = f"{self.url}/{repository.full_name}"
        return {
            "id": repository.id,
            "node_id": node("R", repository.id),
            "name": repository.name,
            "full_name": repository.full_name,
            "owner": self.user(owner),
            "private": False,
            "html_url": web,
            "description": None,
            "fork": False,
            "url": base,
            **{name: f"{base}/{name.removesuffix('_url')}" for name in _REPOSITORY_URLS},
            "git_url": f"{web}.git",
            "ssh_url": f"{web}.git",
            "clone_url": f"{web}.git",
            "svn_url": web,
            "mirror_url": None,
            "homepage": None,
            "language": None,
            "forks_count": 0,
            "forks": 0,
            "stargazers_count": 0,
            "watchers_count": 0,
            "watchers": 0,
            "size": 0,
            "default_branch": repository.default_branch,
            "open_issues_count": sum(issue.state == "open" for issue in repository.issues.values()),
            "open_issues": sum(issue.state == "open" for issue in repository.issues.values()),
            "topics": [],
            "has_issues": True,
            "has_projects": False,
            "has_wiki": False,
            "has_pages": False,
            "has_downloads": False,
            "has_discussions": False,
            "archived": False,
            "disabled": False,
            "visibility": "public",
            "license": None,
            "pushed_at": repository.created,
            "created_at": repository.created,
            "updated_at": repository.created,
            "permissions": {"admin": False, "push": True, "pull": True},
            "allow_merge_commit": True,
            "allow_squash_merge": True,
            "allow_rebase_merge": False,
            "network_count": 0,
            "subscribers_count": 0,
        }

    def issue(self, repository: Repository, issue: Issue) -> dict[str, Any]:
        base = f"{self.api}/repos/{repository.full_name}"
        kind = "pull" if isinstance(issue, Pull) else "issues"
        told: dict[str, Any] = {
            "id": issue.id,
            "node_id": node("I", issue.id),
            "url": f"{base}/issues/{issue.number}",
            "repository_url": base,
            "labels_url": f"{base}/issues/{issue.number}/labels{{/name}}",
            "comments_url": f"{base}/issues/{issue.number}/comments",
            "events_url": f"{base}/issues/{issue.number}/events",
            "html_url": f"{self.url}/{repository.full_name}/{kind}/{issue.number}",
            "number": issue.number,
            "title": issue.title,
            "body": issue.body,
            "user": self.user(issue.author),
            "state": issue.state,
            "locked": False,
            "active_lock_reason": None,
            "labels": [self.label(repository, name) for name in issue.labels],
            "assignee": None,
            "assignees": [],
            "milestone": None,
            "comments": len(issue.comments),
            "created_at": issue.created,
            "updated_at": issue.updated,
            "closed_at": issue.closed,
            "author_association": "CONTRIBUTOR",
            "reactions": self._reactions(f"{base}/issues/{issue.number}/reactions"),
        }
        if isinstance(issue, Pull):
            url = f"{base}/pulls/{issue.number}"
            web = told["html_url"]
            told["pull_request"] = {
                "url": url,
                "html_url": web,
                "diff_url": f"{web}.diff",
                "patch_url": f"{web}.patch",
                "merged_at": issue.merged,
            }
        return told

    def label(self, repository: Repository, name: str) -> dict[str, Any]:
        return {
            "id": abs(hash(name)) % 10**9,
            "node_id": node("L", 1),
            "url": f"{self.api}/repos/{repository.full_name}/labels/{name}",
            "name": name,
            "color": "ededed",
            "default": False,
            "description": None,
        }

    def _reactions(self, url: str) -> dict[str, Any]:
        names = ("total_count", "+1", "-1", "laugh", "confused", "heart", "hooray", "eyes", "rocket")
        return {"url": url, **dict.fromkeys(names, 0)}

    def comment(self, repository: Repository, comment: Comment) -> dict[str, Any]:
        base = f"{self.api}/repos/{repository.full_name}/issues"
        kind = "pull" if isinstance(repository.issues[comment.number], Pull) else "issues"
        return {
            "id": comment.id,
            "node_id": node("IC", comment.id),
            "url": f"{base}/comments/{comment.id}",
            "html_url": f"{self.url}/{repository.full_name}/{kind}/{comment.number}#comment-{comment.id}",
            "issue_url": f"{base}/{comment.number}",
            "performed_via_github_app": None,
            "body": comment.body,
            "user": self.user(comment.author),
            "created_at": comment.created,
            "updated_at": comment.updated,
            "author_association": "CONTRIBUTOR",
            "reactions": self._reactions(f"{base}/comments/{comment.id}/reactions"),
        }

    def pull(
        self,
        repository: Repository,
        owner: Account,
        pull: Pull,
        mergeable: bool | None = None,
        *,
        full: bool = True,
        source: tuple[Repository, Account] | None = None,
    ) -> dict[str, Any]:
        """A pull request; `full` with what only the answer about a single one holds. `source` is the fork that it comes from, and whose."""
        base = f"{self.api}/repos/{repository.full_name}"
        url = f"{base}/pulls/{pull.number}"
        issue = f"{base}/issues/{pull.number}"
        web = f"{self.url}/{repository.full_name}/pull/{pull.number}"
        links = {
            "self": url,
            "html": web,
            "issue": issue,
            "comments": f"{issue}/comments",
            "review_comments": f"{url}/comments",
            "review_comment": f"{base}/pulls/comments{{/number}}",
            "commits": f"{url}/commits",
            "statuses": f"{base}/statuses/{pull.head}",
        }
        told: dict[str, Any] = {
            "id": pull.id,
            "node_id": node("PR", pull.id),
            "url": url,
            "html_url": web,
            "diff_url": f"{web}.diff",
            "patch_url": f"{web}.patch",
            "issue_url": issue,
            "commits_url": links["commits"],
            "review_comments_url": links["review_comments"],
            "review_comment_url": links["review_comment"],
            "comments_url": links["comments"],
            "statuses_url": links["statuses"],
            "number": pull.number,
            "state": pull.state,
            "locked": False,
            "active_lock_reason": None,
            "title": pull.title,
            "user": self.user(pull.author),
            "body": pull.body,
            "labels": [self.label(repository, name) for name in pull.labels],
            "milestone": None,
            "created_at": pull.created,
            "updated_at": pull.updated,
            "closed_at": pull.closed,
            "merged_at": pull.merged,
            "merge_commit_sha": pull.merge_commit,
            "assignee": None,
            "assignees": [],
            "requested_reviewers": [self.user(one) for one in pull.requested],
            "requested_teams": [],
            "head": self._end(*(source or (repository, owner)), pull.branch, pull.head),
            "base": self._end(repository, owner, pull.base, pull.base_sha),
            "_links": {name: {"href": value} for name, value in links.items()},
            "author_association": "CONTRIBUTOR",
            "auto_merge": None,
            "draft": pull.draft,
        }
        if full:
            bare = Bare(repository.folder)
            files = bare.changed(pull.base_sha, pull.head)
            told |= {
                "merged": pull.merged is not None,
                "mergeable": mergeable,
                "rebaseable": mergeable,
                "mergeable_state": "unknown" if mergeable is None else "clean" if mergeable else "dirty",
                "merged_by": self.user(pull.merged_by) if pull.merged_by else None,
                "comments": len(pull.comments),
                "review_comments": 0,
                "maintainer_can_modify": False,
                "commits": len(bare.log(f"{pull.base_sha}..{pull.head}")),
                "additions": sum(file.added for file in files),
                "deletions": sum(file.removed for file in files),
                "changed_files": len(files),
            }
        return told

    def _end(self, repository: Repository, owner: Account, branch: str, sha: str) -> dict[str, Any]:
        return {
            "label": f"{repository.owner}:{branch}",
            "ref": branch,
            "sha": sha,
            "user": self.user(owner),
            "repo": self.repository(repository, owner),
        }

    def review(self, repository: Repository, review: Review) -> dict[str, Any]:
        pull = f"{self.api}/repos/{repository.full_name}/pulls/{review.number}"
        web = f"{self.url}/{repository.full_name}/pull/{review.number}#review-{review.id}"
        return {
            "id": review.id,
            "node_id": node("PRR", review.id),
            "user": self.user(review.author),
            "body": review.body,
            "state": review.state,
            "html_url": web,
            "pull_request_url": pull,
            "_links": {"html": {"href": web}, "pull_request": {"href": pull}},
            "submitted_at": review.submitted,
            "commit_id": review.commit,
            "author_association": "COLLABORATOR" if review.author.write else "NONE",
        }

    def file(self, repository: Repository, sha: str, file: Changed) -> dict[str, Any]:
        base = f"{self.api}/repos/{repository.full_name}"
        web = f"{self.url}/{repository.full_name}"
        told = {
            "sha": file.blob,
            "filename": file.path,
            "status": file.status,
            "additions": file.added,
            "deletions": file.removed,
            "changes": file.added + file.removed,
            "blob_url": f"{web}/blob/{sha}/{file.path}",
            "raw_url": f"{web}/raw/{sha}/{file.path}",
            "contents_url": f"{base}/contents/{file.path}?ref={sha}",
            "patch": file.patch,
        }
        return told | ({"previous_filename": file.before} if file.status == "renamed" else {})

    def commit(self, repository: Repository, commit: Commit) -> dict[str, Any]:
        base = f"{self.api}/repos/{repository.full_name}"
        web = f"{self.url}/{repository.full_name}/commit"
        people = {
            name: {"name": who[0], "email": who[1], "date": who[2]}
            for name, who in (("author", commit.author), ("committer", commit.committer))
        }
        verification = {"verified": False, "reason": "unsigned", "signature": None, "payload": None, "verified_at": None}
        return {
            "sha": commit.sha,
            "node_id": node("C", 1),
            "url": f"{base}/commits/{commit.sha}",
            "html_url": f"{web}/{commit.sha}",
            "comments_url": f"{base}/commits/{commit.sha}/comments",
            "commit": {
                **people,
                "message": commit.message,
                "tree": {"sha": commit.tree, "url": f"{base}/git/trees/{commit.tree}"},
                "url": f"{base}/git/commits/{commit.sha}",
                "comment_count": 0,
                "verification": verification,
            },
            "author": None,
            "committer": None,
            "parents": [{"sha": one, "url": f"{base}/commits/{one}", "html_url": f"{web}/{one}"} for one in commit.parents],
        }
