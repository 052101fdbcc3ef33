"""What the forge knows: people, repositories and all that lies in them. Plain records; who changes them holds the forge's lock."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

LIMIT = 65_536
"""How many characters a text may have."""


class Refused(Exception):
    """A request that is answered with an error: its status, its message and, for 422, what is wrong in GitHub's form."""

    def __init__(
        self, status: int, message: str, errors: list[dict[str, str]] | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = errors
        self.headers = headers or {}


def invalid(resource: str, field_name: str, message: str) -> Refused:
    """The answer to a request whose fields make no sense."""
    told = {"resource": resource, "field": field_name, "code": "custom", "message": message}
    return Refused(422, "Validation Failed", [told])


def now() -> str:
    """The time as GitHub writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Account:
    """A person, or the App's bot. `write` says whether it may write to repositories."""

    id: int
    login: str
    write: bool
    bot: bool = False


@dataclass(frozen=True)
class Write:
    """One request that asked for a change, in the order of their ends; `status` is how it was answered."""

    method: str
    path: str
    body: Any
    actor: str
    status: int


@dataclass
class Comment:
    """A comment on an issue or a pull request."""

    id: int
    number: int
    author: Account
    body: str
    created: str = field(default_factory=now)
    updated: str = field(default_factory=now)


@dataclass
class Review:
    """A submitted review of the pull request's head as it was."""

    id: int
    number: int
    author: Account
    state: str
    body: str
    commit: str
    submitted: str = field(default_factory=now)


@dataclass
class Issue:
    """An issue, or what a pull request has of one."""

    id: int
    number: int
    author: Account
    title: str
    body: str
    state: Literal["open", "closed"] = "open"
    created: str = field(default_factory=now)
    updated: str = field(default_factory=now)
    closed: str | None = None
    labels: list[str] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)


@dataclass
class Pull(Issue):
    """A pull request between branches of one repository, or from a branch of the fork `source`. `head` follows its branch while it is
    open; `looked` is the pair of commits for which mergeability was asked before: the first answer to that question is always that it is
    not known yet."""

    branch: str = ""
    base: str = ""
    head: str = ""
    base_sha: str = ""
    draft: bool = False
    merged: str | None = None
    merged_by: Account | None = None
    merge_commit: str | None = None
    reviews: list[Review] = field(default_factory=list)
    requested: list[Account] = field(default_factory=list)
    looked: tuple[str, str] | None = None
    source: str = ""


@dataclass
class Check:
    """A check run."""

    id: int
    sha: str
    name: str
    external_id: str
    app_id: int
    status: str = "queued"
    conclusion: str | None = None
    started: str | None = field(default_factory=now)
    completed: str | None = None
    details: str = ""
    title: str | None = None
    summary: str | None = None
    text: str | None = None
    annotations: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Status:
    """A commit status."""

    id: int
    sha: str
    state: str
    context: str
    description: str
    target: str
    author: Account
    created: str = field(default_factory=now)


@dataclass
class Artifact:
    """A file that a run kept. `digest` is empty where it has none."""

    id: int
    name: str
    path: Path
    digest: str
    expired: bool = False
    created: str = field(default_factory=now)


@dataclass
class Run:
    """A workflow run. `title` is the name that its workflow gives it."""

    id: int
    number: int
    workflow: str
    branch: str
    sha: str
    actor: Account
    inputs: dict[str, str]
    title: str = ""
    status: str = "queued"
    conclusion: str | None = None
    attempt: int = 1
    created: str = field(default_factory=now)
    updated: str = field(default_factory=now)
    artifacts: list[Artifact] = field(default_factory=list)
    log: str = ""
    summary: str = ""
    cancelled: threading.Event = field(default_factory=threading.Event)


@dataclass
class Repository:
    """A repository: a bare one on this disk, and what belongs to it.

    `required` are the checks without whose success nothing is merged: names, and the id of the App that must have made them, if any.
    """

    id: int
    full_name: str
    folder: Path
    default_branch: str = "main"
    created: str = field(default_factory=now)
    issues: dict[int, Issue] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    statuses: list[Status] = field(default_factory=list)
    runs: dict[int, Run] = field(default_factory=dict)
    required: list[tuple[str, int | None]] = field(default_factory=list)

    @property
    def owner(self) -> str:
        return self.full_name.partition("/")[0]

    @property
    def name(self) -> str:
        return self.full_name.partition("/")[2]

    def pulls(self) -> list[Pull]:
        """The pull requests, oldest first."""
        return [issue for issue in self.issues.values() if isinstance(issue, Pull)]

    def pull(self, number: int) -> Pull:
        """One pull request. Raises `Refused`."""
        found = self.issues.get(number)
        if not isinstance(found, Pull):
            raise Refused(404, "Not Found")
        return found

    def issue(self, number: int) -> Issue:
        """One issue or pull request. Raises `Refused`."""
        found = self.issues.get(number)
        if found is None:
            raise Refused(404, "Not Found")
        return found

    def next_number(self) -> int:
        """Issues and pull requests are counted together."""
        return len(self.issues) + 1
