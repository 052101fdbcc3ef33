"""The `search` agent: proposes its kernel with a search over the kernel's knobs, warm-started from the notebook. It needs no model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from bot.agents.protocol import Brief, Proposal, TuningRequest
from bot.evidence import space
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

        A kernel without knobs is proposed once, as it is.
        """
        self.note = ""
        candidate = brief.start
        if not candidate.manifest.knobs:
            return self._as_it_is(brief, candidate)
        if brief.trials < 1:
            self.note = "no evaluations are left for this round"
            return ()
        known = space.comparable(brief.experiments, brief.spec.spec_hash, brief.device, source_hash(candidate))
        tried = {space.point(experiment.knobs) for experiment in known if experiment.campaign == brief.campaign}
        points = space.size(candidate)
        if len(tried) >= points:
            self.note = f"all {points:,} points of the space were tried"
            return ()
        best = space.best([experiment for experiment in known if space.contains(candidate, experiment.knobs)])
        if best is not None:
            candidate = with_knobs(candidate, best.knobs)
        request = TuningRequest(
            strategy=self.strategy,
            trials=min(brief.trials, points - len(tried)),
            seed=brief.seed,
            prior=tuple(space.trial_of(experiment) for experiment in known),
        )
        hypothesis = f"search ({self.strategy}) over {points:,} points; {len(known):,} evaluations of it are known"
        provenance = Provenance(agent=brief.agent, kind="search", parent=brief.start.tree, hypothesis=hypothesis)
        return (Proposal(candidate=candidate, provenance=provenance, tuning=request),)

    def _as_it_is(self, brief: Brief, candidate: Candidate) -> Sequence[Proposal]:
        mine = [experiment for experiment in brief.experiments if experiment.campaign == brief.campaign]
        if is_known(candidate.tree, brief.spec.spec_hash, mine, tier="full") is not None:
            self.note = "the kernel has no knobs and was judged already"
            return ()
        provenance = Provenance(agent=brief.agent, kind="seed", parent=None, hypothesis="as it is: it has no knobs to search")
        return (Proposal(candidate=candidate, provenance=provenance),)
