"""The Agent protocol: what a lineage's agent is given, and what it proposes. An agent measures nothing and publishes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from bot.evidence.experiment import Experiment
from bot.evidence.remark import Remark
from runner.candidate import Candidate, Provenance
from runner.spec.load import LoadedSpec
from runner.tuning import Trial

if TYPE_CHECKING:
    from bot.evidence.lessons import Lesson


@dataclass(frozen=True)
class Brief:
    """What an agent knows when it proposes.

    `experiments` are all of the notebook for this spec, this campaign's first; `trials` is how many evaluations this proposal
    may spend; `seed` makes the proposal repeatable: the same brief gives the same proposals. `remarks` are the changes that people
    asked for, oldest first; `refused` are the kernels that they said it of, by their trees, as far as they are still kept.
    """

    spec: LoadedSpec
    campaign: str
    round: int
    agent: str
    champion: Candidate
    start: Candidate
    best: Candidate | None
    experiments: Sequence[Experiment]
    lessons: Sequence[Lesson]
    trials: int
    seed: int
    device: str
    remarks: Sequence[Remark] = ()
    refused: Mapping[str, Candidate] = field(default_factory=dict)


@dataclass(frozen=True)
class TuningRequest:
    """A search that the judging machine runs in the screening tier: at most `trials` new points, warm-started from `prior`."""

    strategy: Literal["tpe", "local", "random"]
    trials: int
    seed: int
    prior: tuple[Trial, ...] = ()


@dataclass(frozen=True)
class Proposal:
    """A candidate to judge. With `tuning`, its knobs are searched first and the best point is what is judged in full."""

    candidate: Candidate
    provenance: Provenance
    tuning: TuningRequest | None = None


class Agent(Protocol):
    """One lineage's author. After `propose`, `note` says why there was nothing to propose; else it is empty."""

    name: str
    note: str

    def propose(self, brief: Brief) -> Sequence[Proposal]:
        """At most a few proposals for this round; none when the agent has nothing new to try."""
