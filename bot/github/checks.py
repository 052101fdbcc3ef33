"""The bot's verdict on a commit: a check run of its own App, or a commit status where it has a person's token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, get_args

from github import Github
from github.CheckRun import CheckRun
from github.Commit import Commit as GithubCommit
from github.CommitStatus import CommitStatus
from github.PaginatedList import PaginatedList
from github.Repository import Repository as GithubRepository

from bot.github.asking import Asking
from bot.github.auth import Access
from bot.hosting import Annotation, Conclusion

CHECK = "kernel-factory/verdict"
MAX_ANNOTATIONS = 50  # in one request
CONCLUSIONS: tuple[Conclusion, ...] = get_args(Conclusion)
MAX_SUMMARY = 65_000
MAX_DESCRIPTION = 140


class _Host(Protocol):
    name: str
    access: Access
    asking: Asking

    def repository(self, github: Github) -> GithubRepository: ...


class Checks:
    """The part of a repository that tells verdicts."""

    def check(
        self: _Host,
        sha: str,
        external_id: str,
        status: str,
        conclusion: Conclusion | None,
        title: str,
        summary: str,
        annotations: Sequence[Annotation] = (),
    ) -> None:
        """The check of this `external_id` on a commit, as given. Another App's check of the same name is not touched.

        GitHub only ever adds to a check's annotations, so those that are there stand for the first of the given ones.
        """
        if self.access.app_id is None:
            _status(self, sha, conclusion, title)
            return
        output: dict[str, Any] = {"title": title[:255], "summary": summary[:MAX_SUMMARY]}
        notes = [
            {
                "path": one.path,
                "start_line": one.line,
                "end_line": one.line,
                "start_column": one.column,
                "end_column": one.column,
                "annotation_level": "failure",
                "message": one.message[:4000],
            }
            for one in annotations
        ]
        state: dict[str, Any] = {"status": status} if conclusion is None else {"status": "completed", "conclusion": conclusion}
        what = f"the check on {sha[:12]}"

        def look(github: Github) -> CheckRun | None:
            commit = GithubCommit(github.requester, completed=False, url=f"/repos/{self.name}/commits/{sha}")
            runs = commit.get_check_runs(check_name=CHECK, filter="all")
            return next((run for run in runs if run.external_id == external_id and run.app.id == self.access.app_id), None)

        def create(github: Github) -> CheckRun:
            first = {**output, "annotations": notes[:MAX_ANNOTATIONS]}
            return self.repository(github).create_check_run(CHECK, sha, external_id=external_id, output=first, **state)

        def bring(github: Github) -> int:
            """Bring the check one request nearer to what is wanted; how many annotations are still to come then."""
            run = self.repository(github).get_check_run(made.id)
            there = run.output.annotations_count
            if there < len(notes) or not _as_wanted(run, status, conclusion, output):
                run.edit(output={**output, "annotations": notes[there : there + MAX_ANNOTATIONS]}, **state)
            return len(notes) - there - MAX_ANNOTATIONS

        with self.asking.writing:
            made = self.asking.make(what, look, create)
            if made.output.annotations_count < len(notes) or not _as_wanted(made, status, conclusion, output):
                while self.asking.write(what, bring) > 0:
                    pass

    def verdicts(self: _Host, sha: str) -> Mapping[str, Conclusion]:
        """The conclusions of the App's own finished checks on a commit, by their `external_id`; none with a personal token."""
        if self.access.app_id is None:
            return {}

        def read(github: Github) -> dict[str, Conclusion]:
            commit = GithubCommit(github.requester, completed=False, url=f"/repos/{self.name}/commits/{sha}")
            runs = [run for run in commit.get_check_runs(check_name=CHECK, filter="all") if run.app.id == self.access.app_id]
            return {run.external_id: run.conclusion for run in runs if run.conclusion in CONCLUSIONS}

        return self.asking.read(f"the checks on {sha[:12]}", read)


def _as_wanted(run: CheckRun, status: str, conclusion: Conclusion | None, output: dict[str, Any]) -> bool:
    wanted = "completed" if conclusion is not None else status
    return (run.status, run.conclusion, run.output.title, run.output.summary) == (wanted, conclusion, output["title"], output["summary"])


def _status(host: _Host, sha: str, conclusion: Conclusion | None, title: str) -> None:
    """A commit status in the check's place: `neutral` is a success there, since it blocks nothing."""
    state = "pending" if conclusion is None else "failure" if conclusion == "failure" else "success"
    description = title[:MAX_DESCRIPTION]

    def look(github: Github) -> CommitStatus | None:
        # PyGithub's own list asks an address that GitHub no longer describes.
        statuses = PaginatedList(CommitStatus, github.requester, f"/repos/{host.name}/commits/{sha}/statuses", None)
        latest = next((one for one in statuses if one.context == CHECK), None)
        return latest if latest is not None and (latest.state, latest.description) == (state, description) else None

    def create(github: Github) -> CommitStatus:
        return host.repository(github).get_commit(sha).create_status(state, description=description, context=CHECK)

    host.asking.make(f"the status of {sha[:12]}", look, create)
