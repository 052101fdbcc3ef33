"""The `search` agent: proposes its kernel with a search over the kernel's knobs, warm-started from the notebook. It needs no model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from bot.agents.protocol import Brief, Proposal, TuningRequest
from bot.evidence import space
from bot.evidence.experiment import Experiment
from bot.evidence.novelty import is_known
from runner.candidate import Candidate, Provenance, with_knobs
from runner.identity import source_hash


class SearchAgent:
    """Searches one kernel's knobs. `strategy` says how the tuner draws the next point."""

    def __init__(self, name: str, strategy: Literal["tpe", "local", "random"]) -> None:
        self.name = name
        self.strategy = strategy
        self.note = ""

    def propose(self, brief: Brief) -> Sequence[Proposal]:
        """One proposal: the lineage's kernel with a search over its knobs. None when every point was tried, or nothing may be spent.

        What earlier campaigns found is evidence, not a measurement of this one: their best point is chosen in the proposal's table
        and left out of the prior, so that the tuner measures it first. A kernel without knobs is proposed once, as it is.
        """
        self.note = ""
        start = brief.start
        if not start.manifest.knobs:
            return self._as_it_is(brief, start)
        if brief.trials < 1:
            self.note = "no evaluations are left for this round"
            return ()
        known = space.comparable(brief.experiments, brief.spec.spec_hash, brief.device, source_hash(start))
        known = [experiment for experiment in known if space.contains(start, experiment.knobs)]
        again = _to_measure_again(brief, known)
        prior = [experiment for experiment in known if space.point(experiment.knobs) != again]
        left = space.size(start) - len({space.point(experiment.knobs) for experiment in prior})
        if left < 1:
            self.note = f"all {space.size(start):,} points of the space were tried"
            return ()
        request = TuningRequest(
            strategy=self.strategy,
            trials=min(brief.trials, left),
            seed=brief.seed,
            # The best comes last: a local search starts from the last gain that it heard of.
            prior=tuple(space.trial_of(experiment) for experiment in sorted(prior, key=_worth)),
        )
        hypothesis = f"search ({self.strategy}) over {space.size(start):,} points, {len(known):,} evaluations of which are known"
        provenance = Provenance(agent=brief.agent, kind="search", parent=start.tree, hypothesis=hypothesis)
        candidate = start if again is None else with_knobs(start, dict(again))
        return (Proposal(candidate=candidate, provenance=provenance, tuning=request),)

    def _as_it_is(self, brief: Brief, candidate: Candidate) -> Sequence[Proposal]:
        if candidate.tree in {remark.kernel_tree for remark in brief.remarks}:
            self.note = "the kernel has no knobs, and a person asked for changes to it"
            return ()
        mine = [experiment for experiment in brief.experiments if experiment.campaign == brief.campaign]
        if is_known(candidate.tree, brief.spec.spec_hash, mine, tier="full") is not None:
            self.note = "the kernel has no knobs and was judged already"
            return ()
        provenance = Provenance(agent=brief.agent, kind="seed", parent=None, hypothesis="as it is: it has no knobs to search")
        return (Proposal(candidate=candidate, provenance=provenance),)


def _to_measure_again(brief: Brief, known: Sequence[Experiment]) -> space.Point | None:
    """The best point of earlier campaigns that this one has not measured, if it promises more than what this one has.

    Best by the mean of what was measured, as the tuner counts: the few samples of a screening give intervals too wide to rank by.
    Lineages that search the same kernel take different points, the first one the best, so that none is measured twice in a round.
    """
    measured: dict[space.Point, list[float]] = {}
    for experiment in sorted(known, key=lambda experiment: experiment.id):
        if experiment.speedup is not None:
            measured.setdefault(space.point(experiment.knobs), []).append(math.log(experiment.speedup))
    worths = {point: fmean(logs) for point, logs in measured.items()}
    mine = {space.point(experiment.knobs) for experiment in known if experiment.campaign == brief.campaign}
    # Equals are ordered by their knobs, so that the same notebook always gives the same point.
    ranked = [point for point in sorted(worths.keys() - mine, key=lambda point: (-worths[point], str(point))) if not _refused(brief, point)]
    rank = _rank(brief)
    aim = max((worths[point] for point in mine if point in worths), default=-math.inf)
    if len(ranked) <= rank or worths[ranked[rank]] <= aim:
        return None
    return ranked[rank]


def _refused(brief: Brief, point: space.Point) -> bool:
    """Whether a person asked for changes to the kernel that this point is."""
    return bool(brief.remarks) and with_knobs(brief.start, dict(point)).tree in {remark.kernel_tree for remark in brief.remarks}


def _rank(brief: Brief) -> int:
    """The lineage's place among those that search the same kernel."""
    agents = brief.spec.spec.agents
    start = next((agent.start for agent in agents if agent.name == brief.agent), None)
    alike = [agent.name for agent in agents if agent.kind == "search" and agent.start == start]
    return alike.index(brief.agent) if brief.agent in alike else 0


def _worth(experiment: Experiment) -> tuple[float, str]:
    return experiment.speedup or 0.0, experiment.id
