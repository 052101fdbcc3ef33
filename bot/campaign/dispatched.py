"""One batch as a run on the forge: its request is pushed as data, a run is dispatched, waited for, and its artifact fetched.

Only a run that is exactly the one that was started counts. Everything else is `Lost`, with the reason; what the forge itself can't
do now is the client's `FactoryError`, and then the campaign goes on later from the ticket that is recorded. A run is known by its name,
which holds the ticket's ref: so the one that was started just before a crash is found, and not started again.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from pydantic import Field

from bot.campaign.ports import Changed
from bot.campaign.received import MAX_ARTIFACT_BYTES, Lost
from bot.campaign.state import State
from bot.hosting import Missing
from runner.batch_form import CANDIDATES, REQUEST_NAME
from runner.candidate import Candidate
from runner.errors import FactoryError

WORKFLOW = "evaluate.yml"
WORKFLOW_PATH = f".github/workflows/{WORKFLOW}"
# As the workflow's `run-name` has it.
RUN_NAME = "evaluate {ref}"
ARTIFACT = "evaluation"
# Requests lie under it, each under its campaign.
ROOT = "refs/factory"
FIRST_LOOK = 0.2
# How far the clocks of the forge and of this machine may differ.
SKEW = timedelta(hours=1)


class Branch(Protocol):
    """A branch of the repository, and its commit."""

    @property
    def name(self) -> str: ...
    @property
    def sha(self) -> str: ...


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

    def started(self, workflow: str, ref: str, name: str, since: datetime) -> int | None:
        """The run that was started on a branch since then under this name, looked for for a while."""

    def dispatch(self, workflow: str, ref: str, inputs: Mapping[str, str], name: str, since: datetime) -> int:
        """Start a run, which then has this name; returns its id."""

    def run(self, run_id: int) -> Run:
        """A run as it is now. `Missing` where it was deleted."""

    def cancel(self, run_id: int) -> None:
        """End a run."""

    def artifact(self, run_id: int, name: str, max_bytes: int) -> bytes:
        """A run's artifact, a zip file whose digest was checked. `Missing` where there is none to be had, now or later."""


class Attempts(Protocol):
    """Where requests and candidates are pushed, as `bot.github.git.Clone` does it."""

    def commit(self, parent: str | None, changes: Mapping[str, bytes | None], message: str) -> str:
        """A commit of these files; without a parent it holds nothing else."""

    def push(self, refspec: str) -> None:
        """Push."""


class Ticket(State):
    """A run that was started, or is about to be: enough to find it again after a crash.

    `ref` is its own, never another ticket's; `made` when it was made (ISO 8601). `heads` are the commits that the default branch had
    when it was made and around the dispatch; `offsets` how many experiments of each entry were recorded before. `lost` is why nothing
    came of it, after `seconds` of the device's time.
    """

    ref: str
    made: str
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

    def ticket(
        self,
        ref: str,
        request: bytes,
        candidates: Mapping[str, Candidate],
        labels: tuple[str, ...],
        seconds: float,
        offsets: dict[str, int],
    ) -> Ticket:
        """Push a request and its candidates as one commit under `ref`; returns the ticket for its run, which is not started yet."""
        files: dict[str, bytes | None] = {REQUEST_NAME: request}
        for tree, candidate in candidates.items():
            files.update({f"{CANDIDATES}/{tree}/{name}": data for name, data in candidate.files.items()})
        commit = self.attempts.commit(None, files, f"A batch: {ref.removeprefix(f'{ROOT}/')}")
        self.attempts.push(f"+{commit}:{ref}")
        branch = self.runs.default_branch()
        return Ticket(
            ref=ref,
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            commit=commit,
            request=hashlib.sha256(request).hexdigest(),
            branch=branch.name,
            labels=labels,
            seconds_allowed=seconds,
            heads=(branch.sha,),
            offsets=offsets,
        )

    def start(self, ticket: Ticket, *, again: bool) -> Ticket:
        """Dispatch the run of a ticket; returns the ticket with it. `again` says that this may have been done before, unknown to us."""
        name, since = RUN_NAME.format(ref=ticket.ref), datetime.fromisoformat(ticket.made) - SKEW
        heads, run = ticket.heads, self.runs.started(WORKFLOW, ticket.branch, name, since) if again else None
        if run is None:
            heads = (*heads, self._head(ticket.branch)) if again else heads
            minutes = math.ceil((ticket.seconds_allowed + self.patience.overrun) / 60)
            inputs = {"request": ticket.ref, "commit": ticket.commit, "labels": json.dumps(ticket.labels), "minutes": str(minutes)}
            run = self.runs.dispatch(WORKFLOW, ticket.branch, inputs, name, since)
        return ticket.model_copy(update={"run": run, "heads": tuple(dict.fromkeys((*heads, self._head(ticket.branch))))})

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
        except Missing as error:
            raise Lost(f"run {ticket.run}: {error}", seconds) from error

    def _now(self, ticket: Ticket, number: int) -> Run:
        """A ticket's run as it is now. Raises `Lost` where it is gone."""
        try:
            return self.runs.run(number)
        except Missing as error:
            # Where the whole repository can't be seen, which raises here, nothing is known of the run.
            self._head(ticket.branch)
            raise Lost(f"run {number} is gone, somebody deleted it: {error}") from error

    def _ended(self, ticket: Ticket, number: int, told: Callable[[str], None]) -> tuple[Run, float]:
        queued = time.monotonic()
        running: float | None = None
        while (run := self._now(ticket, number)).status != "completed":
            now = time.monotonic()
            if run.status == "in_progress" and running is None:
                running = now
            try:
                told(f"run {number} {run.status.replace('_', ' ')}")
            except Changed:
                # Nobody wants what it would give.
                self.runs.cancel(number)
                raise
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
