"""A candidate's search space as the notebook knows it: which experiments are points of it, and which of them is best."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from bot.evidence.experiment import Experiment
from runner.candidate import Candidate
from runner.manifest import KnobValue
from runner.tuning import Trial
from runner.verdict import Verdict

Point = tuple[tuple[str, KnobValue], ...]


def point(knobs: Mapping[str, KnobValue]) -> Point:
    """A choice of knobs as something that can be compared and kept in a set."""
    return tuple(sorted(knobs.items()))


def size(candidate: Candidate) -> int:
    """How many points a candidate's space has; 1 when it has no knobs."""
    return math.prod(len(set(values)) for values in candidate.manifest.knobs.values())


def contains(candidate: Candidate, knobs: Mapping[str, KnobValue]) -> bool:
    """Whether a choice of knobs is a point of the candidate's space."""
    space = candidate.manifest.knobs
    return space.keys() == knobs.keys() and all(knobs[name] in values for name, values in space.items())


def comparable(experiments: Iterable[Experiment], spec_hash: str, device: str, source: str) -> list[Experiment]:
    """The screened points of one space (same sources, same spec) on one device. A lost evaluation says nothing and is left out."""
    return [
        experiment
        for experiment in experiments
        if (experiment.tier, experiment.against) == ("screening", "baseline")
        and (experiment.spec_hash, experiment.device, experiment.source) == (spec_hash, device, source)
        and experiment.verdict is not Verdict.EVALUATION_LOST
    ]


def best(experiments: Sequence[Experiment]) -> Experiment | None:
    """The experiment whose speed-up is surest: the highest lower end of its interval. The first of equals; None when none was timed."""
    timed = [experiment for experiment in experiments if experiment.speedup is not None]
    return max(timed, key=lower_end, default=None)


def lower_end(experiment: Experiment) -> float:
    """The lower end of a speed-up's interval, or the speed-up where no interval was taken; 0 for what was not timed."""
    if experiment.interval is not None:
        return experiment.interval[0]
    return experiment.speedup or 0.0


def trial_of(experiment: Experiment) -> Trial:
    """A screened experiment as the tuner's trial."""
    return Trial(
        knobs=dict(experiment.knobs),
        verdict=experiment.verdict,
        message=experiment.message,
        speedup=experiment.speedup,
        interval=experiment.interval,
        workloads=dict(experiment.workloads),
        seconds=experiment.seconds,
        kernel_tree=experiment.kernel_tree,
    )
