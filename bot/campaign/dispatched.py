"""One batch as a run on the forge: its request is pushed as data, a run is dispatched, waited for, and its artifact fetched.

Only a run that is exactly the one that was started counts. Everything else is `Lost`, with the reason; what the forge itself can't
do now is the client's `FactoryError`, and then the campaign goes on later from the run that is recorded.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from pydantic import Field

from bot.campaign.received import MAX_ARTIFACT_BYTES, Lost
from bot.campaign.state import State
from runner.batch_form import CANDIDATES, REQUEST_NAME
from runner.candidate import Candidate
from runner.errors import FactoryError

WORKFLOW = "evaluate.yml"
WORKFLOW_PATH = f".github/workflows/{WORKFLOW}"
ARTIFACT = "evaluation"
FIRST_LOOK = 0.2


class Branch(Protocol):
    """A branch of the repository."""

    @property
    def name(self) -> str: ...


class Run(Protocol):
    """A workflow run as the forge tells it: names and values are GitHub's."""

    @property
    def id(self) -> int: ...
    @property
    def path(self) -> str: ...
    @property
    def event(self) -> str: ...
    @property
    def head_branch(self) -> str: ...
    @property
    def head_sha(self) -> str: ...
    @property
    def actor(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def status(self) -> str: ...
    @property
    def conclusion(self) -> str | None: ...


class Runs(Protocol):
    """The workflow runs of one repository, as `bot.github.client.Repository` has them."""

    def default_branch(self) -> Branch:
        """The branch that runs are dispatched on."""

    def head(self, branch: str) -> str | None:
        """The commit of a branch."""

    def dispatch(self, workflow: str, ref: str, inputs: Mapping[str, str]) -> int:
        """Start a run; returns its id."""

    def run(self, run_id: int) -> Run:
        """A run as it is now."""

    def cancel(self, run_id: int) -> None:
        """End a run."""

    def artifact(self, run_id: int, name: str, max_bytes: int) -> bytes:
        """A run's artifact, a zip file whose digest was checked. `FactoryError` where there is none to be had."""


class Attempts(Protocol):
    """Where requests and candidates are pushed, as `bot.github.git.Clone` does it."""

    def commit(self, parent: str | None, changes: Mapping[str, bytes | None], message: str) -> str:
        """A commit of these files; without a parent it holds nothing else."""

    def push(self, refspec: str) -> None:
        """Push."""


class Ticket(State):
    """A run that was started, or is about to be: enough to find it again after a crash.

    `heads` are the commits that the default branch had around the dispatch; `offsets` how many experiments of each entry were recorded
    before. `lost` is why nothing came of it, after `seconds` of the device's time.
    """

    ref: str
    commit: str
    request: str
    branch: str
    labels: tuple[str, ...]
    seconds_allowed: float
    heads: tuple[str, ...] = ()
    offsets: dict[str, int] = Field(default_factory=dict)
    run: int | None = None
    lost: str = ""
    seconds: float = 0.0

    @property
    def identity(self) -> str:
        """How the run names itself in its answer. A run that a person started again is another attempt."""
        return f"{self.run}/1"


@dataclass(frozen=True)
class Patience:
    """How long is waited: between two looks at most, for a machine to take the run, and for the run beyond its time. In seconds."""

    poll: float = 5.0
    queue: float = 1800.0
    overrun: float = 1800.0


class Dispatcher:
    """Starts runs and waits for them. `login` is who dispatches, empty where that is not known."""

    def __init__(self, runs: Runs, attempts: Attempts, login: str = "", patience: Patience | None = None) -> None:
        self.runs = runs
        self.attempts = attempts
        self.login = login
        self.patience = patience or Patience()

    def push(self, ref: str, request: bytes, candidates: Mapping[str, Candidate]) -> str:
        """Push a request and its candidates as one commit under `ref`; returns the commit."""
        files: dict[str, bytes | None] = {REQUEST_NAME: request}
        for tree, candidate in candidates.items():
            files.update({f"{CANDIDATES}/{tree}/{name}": data for name, data in candidate.files.items()})
        commit = self.attempts.commit(None, files, f"A batch: {ref.removeprefix('refs/factory/')}")
        self.attempts.push(f"+{commit}:{ref}")
        return commit

    def start(self, ticket: Ticket) -> Ticket:
        """Dispatch the run of a ticket; returns the ticket with it."""
        before = self._head(ticket.branch)
        minutes = math.ceil((ticket.seconds_allowed + self.patience.overrun) / 60)
        inputs = {"request": ticket.ref, "commit": ticket.commit, "labels": json.dumps(ticket.labels), "minutes": str(minutes)}
        run = self.runs.dispatch(WORKFLOW, ticket.branch, inputs)
        return ticket.model_copy(update={"run": run, "heads": tuple(dict.fromkeys((before, self._head(ticket.branch))))})

    def fetched(self, ticket: Ticket, told: Callable[[str], None]) -> tuple[bytes, float]:
        """Wait for a ticket's run to end; its artifact, and how many seconds it was seen to run. `told` hears what it does, between two
        looks, and may raise to end the waiting. Raises `Lost`."""
        assert ticket.run is not None
        run, seconds = self._ended(ticket, ticket.run, told)
        wrong = self._foreign(ticket, run)
        if wrong:
            raise Lost(f"run {ticket.run} is not the one that was started: {wrong}", seconds)
        if run.conclusion != "success":
            raise Lost(f"run {ticket.run} ended as {run.conclusion or 'nothing'}", seconds)
        try:
            return self.runs.artifact(ticket.run, ARTIFACT, MAX_ARTIFACT_BYTES), seconds
        except FactoryError as error:
            raise Lost(f"run {ticket.run}: {error}", seconds) from error

    def _ended(self, ticket: Ticket, number: int, told: Callable[[str], None]) -> tuple[Run, float]:
        queued = time.monotonic()
        running: float | None = None
        while (run := self.runs.run(number)).status != "completed":
            now = time.monotonic()
            if run.status == "in_progress" and running is None:
                running = now
            told(f"run {number} {run.status.replace('_', ' ')}")
            if running is None and now - queued > self.patience.queue:
                self.runs.cancel(number)
                raise Lost(f"no machine with the labels {', '.join(ticket.labels)} took run {number} within {self.patience.queue:g} s")
            if running is not None and now - running > ticket.seconds_allowed + self.patience.overrun:
                self.runs.cancel(number)
                raise Lost(f"run {number} did not end within {now - running:.0f} s, and was cancelled", now - running)
            # A short run is looked at often, a long one seldom.
            time.sleep(min(self.patience.poll, FIRST_LOOK + (now - queued) / 10))
        return run, 0.0 if running is None else time.monotonic() - running

    def _foreign(self, ticket: Ticket, run: Run) -> str:
        """How a run differs from the one that was started; empty where it doesn't."""
        facts = [
            ("id", run.id, ticket.run),
            ("workflow", run.path.partition("@")[0], WORKFLOW_PATH),
            ("event", run.event, "workflow_dispatch"),
            ("branch", run.head_branch, ticket.branch),
            ("attempt", run.attempt, 1),
        ]
        if self.login:
            facts.append(("actor", run.actor, self.login))
        wrong = [f"its {what} is {there!r}, not {wanted!r}" for what, there, wanted in facts if there != wanted]
        if run.head_sha not in ticket.heads:
            wrong.append(f"its commit is {run.head_sha}, not {' or '.join(ticket.heads)}")
        return "; ".join(wrong)

    def _head(self, branch: str) -> str:
        head = self.runs.head(branch)
        if head is None:
            raise FactoryError(f"the default branch {branch} has no commit")
        return head
