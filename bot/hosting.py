"""What the bot needs of a forge: one repository there, and a clone of it. `bot.github` has them for GitHub and whatever speaks its API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from runner.errors import FactoryError

State = Literal["open", "closed", "all"]
Conclusion = Literal["success", "failure", "neutral"]


class Missing(FactoryError):
    """What was asked for is not there, or not what it has to be, and asking again changes nothing."""


class Unfit(FactoryError):
    """What a commit holds is not taken: too much of it, or names that no file system takes."""


class TryLater(FactoryError):
    """The forge wants to be asked nothing for so many `seconds`, which is longer than a step should wait."""

    def __init__(self, message: str, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(message)


@dataclass(frozen=True)
class Branch:
    """A branch and its commit."""

    name: str
    sha: str


@dataclass(frozen=True)
class PullRequest:
    """A pull request as it is now. `branch` and `head` are its head's; `fork` says that they lie in another repository, `aside` that it is
    to be merged into another branch than the default one."""

    number: int
    state: Literal["open", "closed"]
    branch: str
    head: str
    author: str
    title: str = ""
    body: str = ""
    merged: bool = False
    merge_commit: str | None = None
    merged_by: str | None = None
    fork: bool = False
    aside: bool = False


@dataclass(frozen=True)
class Review:
    """A review of one `commit`. `counts` says that its author may write to the repository and is no bot."""

    id: int
    author: str
    state: str
    commit: str
    body: str
    counts: bool


@dataclass(frozen=True)
class Issue:
    """An issue that the bot made."""

    number: int
    state: Literal["open", "closed"]
    body: str


@dataclass(frozen=True)
class Merge:
    """What became of an attempt to merge: merged, or why not."""

    merged: bool
    message: str = ""


@dataclass(frozen=True)
class Annotation:
    """A check's remark on a line, counted from 1."""

    path: str
    line: int
    column: int
    message: str


class Repository(Protocol):
    """One repository on a forge. What makes a thing looks for it first, so each call may be repeated. `FactoryError` where it fails."""

    def default_branch(self) -> Branch:
        """The default branch as it is now."""

    def head(self, branch: str) -> str | None:
        """A branch's commit, None where there is no such branch."""

    def pull_requests(self, state: State = "open") -> Sequence[PullRequest]:
        """The pull requests, oldest first."""

    def pull_request(self, number: int) -> PullRequest:
        """One pull request."""

    def open_pull_request(self, branch: str, title: str, body: str) -> PullRequest:
        """The open pull request of a branch into the default branch, made where there is none."""

    def edit_pull_request(self, number: int, title: str, body: str) -> None:
        """Bring title and text to these."""

    def close(self, number: int) -> None:
        """Close a pull request or an issue; one that is closed stays as it is."""

    def merge(self, number: int, sha: str, title: str, message: str) -> Merge:
        """Merge exactly this head. What the forge says may pass is tried again, a few times."""

    def reviews(self, number: int) -> Sequence[Review]:
        """The submitted reviews, oldest first."""

    def request_review(self, number: int) -> None:
        """Ask the repository's people for a review, where the forge knows whom to ask."""

    def kept_comment(self, number: int, marker: str, body: str) -> None:
        """The one comment of this marker, with this text."""

    def kept_issue(self, marker: str, title: str, body: str) -> int:
        """The one issue of this marker, with this title and text; returns its number."""

    def kept_issues(self) -> Sequence[Issue]:
        """All issues that the bot made, oldest first."""

    def verdicts(self, sha: str) -> Mapping[str, Conclusion]:
        """The conclusions of the bot's own finished checks on a commit, by their `external_id`; none where it can make no checks."""

    def check(
        self,
        sha: str,
        external_id: str,
        status: str,
        conclusion: Conclusion | None,
        title: str,
        summary: str,
        annotations: Sequence[Annotation] = (),
    ) -> None:
        """The bot's check on a commit."""

    def file_url(self, commit: str, path: str) -> str:
        """Where a file of a commit is shown, as a picture may be linked."""

    def run_url(self, run: int) -> str:
        """Where a workflow run is shown."""

    def redeliver_failed(self) -> None:
        """Have deliveries sent again that failed."""


class Clone(Protocol):
    """A clone without a working tree. Commits follow from what they are made of: made again, each is the same commit.

    A commit that is newer than the last fetch is fetched when it is asked for; `Missing` where the remote has it no more.
    """

    def fetch(self) -> None:
        """Everything that is new: branches and the heads of pull requests."""

    def tree(self, commit: str, path: str) -> Mapping[str, bytes]:
        """The files below a folder of a commit, by their path within it; none where there is none. `Unfit` where it is too large."""

    def tree_id(self, commit: str, path: str) -> str | None:
        """The git tree of a folder of a commit, whatever lies in it; None where there is no such folder."""

    def changed(self, before: str, after: str) -> Sequence[str]:
        """The paths in which two commits differ."""

    def merge_base(self, one: str, other: str) -> str:
        """The best common ancestor; `Missing` where there is none."""

    def commit(self, parent: str | None, changes: Mapping[str, bytes | None], message: str, *, when: str = "") -> str:
        """A commit on `parent` with these files written, or removed where they are None. `when` (ISO 8601) is its time."""

    def push(self, refspec: str, lease: str | None = None) -> None:
        """Push; with a `lease` only where the remote branch is still at that commit (empty: not there)."""

    def export(self, commit: str, path: str, folder: Path) -> None:
        """Write a folder of a commit to `folder`, plain files only; nothing where there is none. `Unfit` where it can't be."""
