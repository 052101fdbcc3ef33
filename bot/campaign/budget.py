"""How a campaign's budget is shared out: over rounds and lineages, after what must be kept back. Pure functions of what was spent.

Every experiment of either tier costs one candidate, the champion's own judgement, refusals and the confirmation included.
Device minutes are the sum of the experiments' seconds on the device. A budget is never exceeded by as much as one candidate;
of device minutes no evaluation begins that has no time left, and the one that is running may end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bot.campaign.state import Count
from bot.evidence.experiment import Experiment
from runner.spec.models import Budget

# A full judgement may take this much longer than the champion's did, for another kernel on a busier machine.
JUDGEMENT_MARGIN = 1.25


@dataclass(frozen=True)
class Reserve:
    """What is kept back for the confirmation: so many evaluations, and so many seconds of the device."""

    candidates: int
    device_seconds: float


@dataclass(frozen=True)
class Share:
    """What one round's screening may spend: `trials` by agent, and `device_seconds` of the device. The full judgement comes on top."""

    trials: dict[str, int]
    device_seconds: float


def count(experiments: Iterable[Experiment]) -> Count:
    """What a campaign's experiments have cost."""
    kept = list(experiments)
    return Count(candidates=len(kept), device_seconds=sum(experiment.seconds for experiment in kept))


def reserve(judgements: int, champion_seconds: float) -> Reserve:
    """What a confirmation of so many full judgements needs, by what the champion's judgement took."""
    return Reserve(judgements, judgements * champion_seconds * JUDGEMENT_MARGIN)


def share(budget: Budget, spent: Count, kept: Reserve, champion_seconds: float, turns: int, agents: tuple[str, ...]) -> Share | None:
    """The next round's share after `turns` finished ones, or None where not even one trial and its full judgement fit.

    What is left after the reserve is spread evenly over the rounds that are left, and a round's part over its lineages (the first
    ones get the remainder).
    """
    rounds = budget.rounds - turns
    if rounds < 1 or not agents:
        return None
    free = budget.candidates - spent.candidates - kept.candidates
    trials = free // rounds - 1
    if trials < 1 and free >= 2:
        # Too little for every round: this one takes what it needs, and there are fewer rounds.
        trials = 1
    seconds = budget.device_minutes * 60 - spent.device_seconds - kept.device_seconds - champion_seconds * JUDGEMENT_MARGIN
    if trials < 1 or seconds <= 0:
        return None
    each, rest = divmod(trials, len(agents))
    return Share({agent: each + (position < rest) for position, agent in enumerate(agents)}, seconds)


def affordable(budget: Budget, spent: Count, judgements: int) -> bool:
    """Whether so many full judgements may still begin."""
    return budget.candidates - spent.candidates >= judgements and spent.device_seconds < budget.device_minutes * 60
