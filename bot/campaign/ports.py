"""The campaign's two ports, and who watches it: where candidates are evaluated, where they are published, and what a person sees.

The workflow knows these protocols only. On one machine they are `bot.campaign.local` and `bot.campaign.worktree`; on a forge
`bot.campaign.actions` and `bot.campaign.pulls`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bot.campaign.state import (
    Course,
    Ending,
    Entry,
    Merged,
    Order,
    Outcome,
    Plan,
    Publication,
    Pull,
    Review,
    StopReason,
    Winner,
)
from bot.evidence.experiment import Experiment
from runner.candidate import Candidate
from runner.result import Result
from runner.spec.load import LoadedSpec
from runner.spec.models import Policy
from runner.verdict import Verdict

if TYPE_CHECKING:
    from bot.evidence.lessons import Lesson


class Changed(Exception):
    """What the campaign began with is no longer there, so its evidence no longer counts: an expected end, with its reason."""

    def __init__(self, stop: StopReason, message: str) -> None:
        self.stop = stop
        super().__init__(message)


@dataclass(frozen=True)
class Place:
    """Where candidates are evaluated: the device's name, and the hash of the harness that judges there."""

    device: str
    harness: str


@dataclass(frozen=True)
class Refusal:
    """What the gate has against a candidate: `policy_violation` or `build_error`, and a message that an agent can act on."""

    verdict: Verdict
    message: str


class EvaluatePort(Protocol):
    """Where candidates are evaluated."""

    def place(self, spec: LoadedSpec) -> Place:
        """The device and harness. `FactoryError` where this place can't judge the spec, with the remedy."""

    def gate(self, spec: LoadedSpec, candidate: Candidate) -> Refusal | None:
        """Policy, and a build of every point that the candidate's table can reach. Takes no time of the device, records nothing."""

    def evaluate(self, spec: LoadedSpec, entries: Sequence[Entry], seconds: float) -> Sequence[Outcome]:
        """Evaluate a batch, in its order; no evaluation begins once the batch has used `seconds` of the device.

        May be repeated after a crash with the same entries: what is in the notebook already is not done again, and every
        evaluation is in the notebook before the call returns.
        """


@dataclass(frozen=True)
class Release:
    """Everything a publisher needs of a confirmed winner."""

    order: Order
    spec: LoadedSpec
    winner: Winner
    candidate: Candidate
    kept: Path
    result: Result
    experiments: Sequence[Experiment]
    lessons: Sequence[Lesson]


@dataclass(frozen=True)
class Closing:
    """Everything a publisher needs when a campaign ends."""

    order: Order
    spec: LoadedSpec | None
    ending: Ending
    lessons: Sequence[Lesson]


class PublishPort(Protocol):
    """Where a campaign is published. Every call may be repeated after a crash, and then changes nothing more."""

    def started(self, order: Order, plan: Plan) -> None:
        """A campaign began."""

    def progressed(self, order: Order, course: Course) -> None:
        """A round ended."""

    def published(self, release: Release) -> Publication:
        """Publish the winner: exactly the judged kernel, or nothing, with the reason."""

    def ended(self, closing: Closing) -> tuple[str, ...]:
        """The campaign ended. Returns the files written."""


@dataclass(frozen=True)
class Arrival:
    """A person's pull request that asks to be judged: its head, and the kernel that lies there."""

    number: int
    head: str
    author: str
    candidate: Candidate


class ReviewPort(PublishPort, Protocol):
    """A place where people take part: they enter kernels, review the winner, and it is merged. `Changed` where the ground moved."""

    def proceeding(self, order: Order, what: str) -> None:
        """Tell people what is being done now, and what is known by now."""

    def arrivals(self, order: Order, policy: Policy, waiting: Pull | None) -> Sequence[Arrival]:
        """The people's pull requests that are open now, belong to this campaign and keep the spec's policy.

        So is the pull request of the winner that is `waiting` for them, where somebody pushed another kernel over it.
        """

    def enough(self, number: int, count: int) -> None:
        """Tell a person that the campaign judges no more kernels of a pull request, of which it has judged so many."""

    def answered(self, order: Order, outcomes: Sequence[Outcome], waiting: Pull | None) -> None:
        """Tell people what came of the kernels that they entered."""

    def reviewed(self, order: Order, pull: Pull) -> Review:
        """What people say of the winner's pull request now: only what was said of exactly its head counts."""

    def merged(self, order: Order, pull: Pull, approved_by: str) -> Merged:
        """Merge exactly that head, or nothing."""


class Watch(Protocol):
    """Who looks on. Nothing that a watch does changes a campaign, but that `interrupted` may end the process's part in it."""

    def opened(self, order: Order, plan: Plan, experiments: Sequence[Experiment]) -> None:
        """A campaign is run (again) by this process; `experiments` are those it has already."""

    def doing(self, round_number: int, what: str) -> None:
        """What is being done now."""

    def detail(self, what: str) -> None:
        """How far that is, within one evaluation."""

    def lost(self, why: str) -> None:
        """Nothing came of a run that was waited for; what it was to judge is asked for again while there is time."""

    def recorded(self, experiment: Experiment) -> None:
        """An experiment was added to the notebook."""

    def interrupted(self) -> None:
        """Raises `Suspended` when the person wants the process to end; called between evaluations and within them."""


class Suspended(BaseException):
    """This process can't go on with the campaign now; the campaign is as it was, and continues when run again.

    Not an `Exception`: the workflow engine would keep an exception as the step's outcome for good.
    """

    def __init__(self, cause: BaseException | None) -> None:
        self.cause = cause
        super().__init__(str(cause) if cause is not None else "interrupted")
