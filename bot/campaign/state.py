"""What a campaign passes from step to step: small, JSON-able, frozen. Files and samples are named by their hashes."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict

from runner.manifest import KnobValue
from runner.spec.models import Accept, AgentSpec, Budget
from runner.verdict import Verdict

Strategy = Literal["tpe", "local", "random"]
Maker = Literal["seed", "search", "model", "person"]
Tier = Literal["screening", "full"]
CHAMPION = "champion"


class State(BaseModel):
    """The base of everything that the workflow's database keeps."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class StopReason(StrEnum):
    """Why a campaign ended."""

    CONFIRMED = "confirmed"
    ROUNDS = "rounds_spent"
    CANDIDATES = "candidates_spent"
    DEVICE_TIME = "device_minutes_spent"
    NO_IMPROVEMENT = "no_improvement"
    EXHAUSTED = "lineages_exhausted"
    NOT_CONFIRMED = "not_confirmed"
    SPEC_CHANGED = "spec_changed"
    JUDGE_CHANGED = "judge_changed"
    KERNEL_CHANGED = "kernel_changed"
    CLOSED = "pull_request_closed"
    REFUSED = "changes_requested"


class Winner(State):
    """The confirmed candidate. `result` is the confirmation's, the one that counts."""

    agent: str
    kernel_tree: str
    speedup: float
    interval: tuple[float, float]
    result: str
    found: str
    over_champion: tuple[float, tuple[float, float]] | None = None


class Pull(State):
    """A pull request that waits for its merge: exactly this head, and the kernel tree that was judged there.

    `author` is the person whose kernel it is, who may not approve it; `origin` the person's own pull request where that came from a fork.
    """

    number: int
    head: str
    kernel_tree: str
    author: str = ""
    origin: int | None = None


class Waiting(State):
    """A winner that waits for people, as the forge tells it when everything else was lost."""

    winner: Winner
    pull: Pull


class Order(State):
    """What was asked for when the campaign began. It never changes afterwards, whatever a later command says.

    `commit` is the commit of the default branch that the campaign began from, empty where it is published in a working tree.
    `submission` is the person's pull request that a campaign without agents of its own is about. `waiting` is the winner that a lost
    database knew of: the campaign goes on from there.
    """

    campaign: str
    number: int
    spec: str
    spec_hash: str
    champion: str
    seed: int
    accept: Accept
    budget: Budget
    agents: tuple[AgentSpec, ...]
    publish: bool
    started: str
    commit: str = ""
    submission: int | None = None
    waiting: Waiting | None = None

    @property
    def hosted(self) -> bool:
        """Whether the campaign is published as pull requests."""
        return bool(self.commit)


class Lineage(State):
    """One agent's line of descent, from the kernel tree `start`."""

    agent: AgentSpec
    start: str


class LeftOut(State):
    """A lineage that can't take part, in the campaign or in a round, and why."""

    agent: str
    why: str


class Plan(State):
    """What the campaign found when it began."""

    lineages: tuple[Lineage, ...]
    left_out: tuple[LeftOut, ...]
    device: str
    harness: str


class Count(State):
    """What the notebook says was spent."""

    candidates: int
    device_seconds: float


class Tuning(State):
    """A search over a proposal's knobs; `prior` is the hash of the warm start in the store."""

    strategy: Strategy
    trials: int
    seed: int
    prior: str


class Entry(State):
    """One candidate on its way to the device.

    Its experiments are `<campaign>/<round>/<agent>/<index>` from index `first` on: one a trial when it is tuned, one otherwise.
    """

    campaign: str
    round: int
    agent: str
    first: int
    tree: str
    kind: Maker
    parent: str | None
    hypothesis: str
    tier: Tier = "screening"
    against: Literal["baseline", "champion"] = "baseline"
    fresh: bool = False
    tuning: Tuning | None = None

    @property
    def size(self) -> int:
        """How many experiments it may record."""
        return self.tuning.trials if self.tuning is not None else 1

    def experiment(self, index: int = 0) -> str:
        """The id of its `index`th experiment."""
        return f"{self.campaign}/{self.round}/{self.agent}/{self.first + index}"


class Entries(State):
    """What a lineage proposed for a round; none when it has nothing new, and then the agent's note says why."""

    entries: tuple[Entry, ...] = ()
    note: str = ""


class Outcome(State):
    """What came of an entry: its best point (`tree` with `knobs`), and `experiments`, the number now in the notebook.

    `verdict` is None only when nothing could be evaluated any more. `result` is the hash of the full result in the store.
    """

    entry: Entry
    experiments: int
    tree: str
    verdict: Verdict | None
    message: str = ""
    speedup: float | None = None
    interval: tuple[float, float] | None = None
    knobs: tuple[dict[str, KnobValue], ...] = ()
    seconds: float = 0.0
    result: str | None = None

    @property
    def strength(self) -> float | None:
        """What it is ranked by: the lower end of its interval, or its speed-up where there is none; None where nothing was timed."""
        if self.verdict not in (Verdict.ACCEPTED, Verdict.SLOWER) or self.speedup is None:
            return None
        return self.interval[0] if self.interval is not None else self.speedup


class Outcomes(State):
    """The outcomes of a batch, in its order."""

    outcomes: tuple[Outcome, ...] = ()


class Gated(State):
    """What the gate let through, and how many it refused (each an experiment) or knew already (none)."""

    passed: tuple[Entry, ...] = ()
    refused: int = 0
    known: int = 0


class Turn(State):
    """One round as it ended: the screening's outcomes, who proposed nothing, and the round's best judged in full, if any was."""

    round: int
    screened: tuple[Outcome, ...]
    idle: tuple[LeftOut, ...]
    judged: Outcome | None


class Objection(State):
    """A person asked for changes to a winner: no longer a candidate, and the reason for another round.

    `turns` and `confirmations` are how many there were by then.
    """

    review: int
    by: str
    text: str
    tree: str
    turns: int
    confirmations: int


class Replacement(State):
    """A person pushed another kernel, `by`, to the pull request `number` of a winner, `tree`, and it was accepted: it takes its place."""

    number: int
    tree: str
    by: str


class Course(State):
    """All that was decided on so far: the champion's own judgement, the rounds, what people entered, and the confirmations.

    `withdrawn` are the kernels that a person took back, by closing or changing the pull request that they were entered by.
    """

    champion: Outcome
    turns: tuple[Turn, ...] = ()
    confirmations: tuple[Outcome, ...] = ()
    entered: tuple[Outcome, ...] = ()
    objections: tuple[Objection, ...] = ()
    replacements: tuple[Replacement, ...] = ()
    withdrawn: tuple[str, ...] = ()


class Publication(State):
    """What publishing did: the files written, or why nothing was. With `pull` it is complete only when that is merged.

    `withdrawn`: the person who entered the kernel took it back, so another one may win.
    """

    published: bool
    message: str
    files: tuple[str, ...] = ()
    pull: Pull | None = None
    withdrawn: bool = False


class Review(State):
    """What people say of a winner's pull request. `review` and `text` are those of the request for changes.

    `pushed`: its head holds something else than what was judged. `moved`: another head, and the very kernel that was judged, so it only
    has to be published again.
    """

    status: Literal["waiting", "approved", "changes", "closed", "pushed", "moved"]
    by: str = ""
    text: str = ""
    review: int = 0


class Merged(State):
    """How an attempt to merge went: `sha` is the merge commit, `head` what was merged. Where it isn't merged, `message` says why."""

    merged: bool
    message: str = ""
    sha: str = ""
    head: str = ""
    number: int = 0
    approved_by: str = ""
    kernel_tree: str = ""


class Ending(State):
    """How the campaign ended. `accepted` has a winner that was published (or was not to be); `not_published` one that could not be."""

    status: Literal["accepted", "no_winner", "not_published"]
    stop: StopReason
    reason: str
    rounds: int
    winner: Winner | None
    files: tuple[str, ...]
    seconds: float
    merged: Merged | None = None
