"""Searches a candidate's knobs on the machine that judges, in the screening tier."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.candidate import Candidate, with_knobs
from runner.errors import FactoryError
from runner.manifest import KnobValue
from runner.result import Result
from runner.spec.load import LoadedSpec
from runner.verdict import Verdict

# Whoever only reads trials needs neither the judge nor a search: both are imported when a search begins.
if TYPE_CHECKING:
    from runner.strategies import Kind, Point, Space
    from runner.targets.protocol import Target


@dataclass(frozen=True)
class Trial:
    """One point of the space, screened. `speedup` (geomean over the screening workloads) is None where nothing was timed."""

    knobs: Mapping[str, KnobValue]
    verdict: Verdict
    message: str
    speedup: float | None
    interval: tuple[float, float] | None
    workloads: Mapping[str, float]
    seconds: float
    kernel_tree: str


def tune(
    spec: LoadedSpec,
    candidate: Candidate,
    target: Target,
    *,
    strategy: Kind,
    trials: int,
    seed: int,
    prior: Sequence[Trial],
    recorded: Sequence[Trial] = (),
    on_trial: Callable[[int, Trial], None] | None = None,
) -> Candidate | None:
    """Try up to `trials` points that neither `prior` nor this request knows; the best of this request with its knobs frozen.

    `prior` are trials of the same space from elsewhere: learned from, never tried again, never returned. `recorded` are the first
    trials of this same request, done before a crash: replayed, not measured, counted. The first point is the one that the candidate's
    table chooses, if it chooses one for all workloads and `prior` does not know it. `on_trial` hears each newly measured trial; what
    it raises ends the search. None when no trial could be timed. The target's lock is held for a trial, not for the search.
    """
    from runner.strategies import Space, make_strategy

    space = Space(candidate.manifest.knobs)
    search = make_strategy(strategy, space, seed)
    for trial in prior:
        point = space.point(trial.knobs)
        if point is not None:
            search.tell(point, _worth(trial))
    done: list[Trial] = []
    for index in range(trials):
        point = search.ask()
        if index == 0:
            point = _chosen(space, candidate, prior) or point
        if index < len(recorded):
            trial = recorded[index]
            point = space.point(trial.knobs) or point
        if point is None:
            break
        if index >= len(recorded):
            trial = _measure(spec, with_knobs(candidate, space.knobs(point)), target)
            if on_trial is not None:
                on_trial(index, trial)
        done.append(trial)
        search.tell(point, _worth(trial))
    timed = [trial for trial in done if trial.speedup is not None]
    if not timed:
        return None
    return with_knobs(candidate, max(timed, key=lambda trial: trial.speedup or 0.0).knobs)


def trial_of(candidate: Candidate, result: Result) -> Trial:
    """A screening result as a trial. Raises `FactoryError` when the candidate's table has more than one row: it is not a point then."""
    if len(candidate.manifest.table) > 1:
        raise FactoryError("a trial is one point of the space: a table with one row")
    knobs = {name: value for row in candidate.manifest.table for name, value in row.items() if name != "when"}
    return Trial(
        knobs=knobs,
        verdict=result.verdict,
        message=result.message,
        speedup=None if result.geomean is None else result.geomean.speedup,
        interval=None if result.geomean is None else result.geomean.interval,
        workloads={row.workload: row.speedup for row in result.rows},
        seconds=result.seconds,
        kernel_tree=candidate.tree,
    )


def _measure(spec: LoadedSpec, point: Candidate, target: Target) -> Trial:
    from runner.judge import judge

    return trial_of(point, judge(spec, point, target, tier="screening"))


def _worth(trial: Trial) -> float | None:
    """What the search maximises: the log of the speed-up; None for a point that could not be timed."""
    return None if trial.speedup is None else math.log(trial.speedup)


def _chosen(space: Space, candidate: Candidate, prior: Sequence[Trial]) -> Point | None:
    """The point that a table of one row chooses, unless it is known."""
    if len(candidate.manifest.table) != 1:
        return None
    point = space.point({name: value for name, value in candidate.manifest.table[0].items() if name != "when"})
    return None if any(space.point(trial.knobs) == point for trial in prior) else point
