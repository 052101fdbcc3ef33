"""Writes a campaign's experiments into the notebook, each once, under its deterministic id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from bot.campaign.ports import Place, Refusal, Watch
from bot.campaign.state import Entry
from bot.campaign.store import Store
from bot.evidence.experiment import Experiment
from bot.evidence.notebook import Notebook
from bot.evidence.novelty import normalized_hash
from bot.evidence.space import trial_of
from runner.candidate import Candidate
from runner.identity import source_hash
from runner.manifest import KnobValue
from runner.result import Result
from runner.spec.load import LoadedSpec
from runner.tuning import Trial
from runner.verdict import Verdict


class Journal:
    """Records what one place evaluates. An experiment that is there already stays as it is."""

    def __init__(self, notebook: Notebook, store: Store, watch: Watch) -> None:
        self.notebook = notebook
        self.store = store
        self.watch = watch

    def kept(self, entry: Entry) -> list[Experiment]:
        """The experiments that an entry has recorded so far, in the order of their indices."""
        found = [self.notebook.get(entry.experiment(index)) for index in range(entry.size)]
        return [experiment for experiment in found if experiment is not None]

    def trials(self, entry: Entry) -> list[Trial]:
        """The trials of a tuned entry that were done before a crash."""
        return [trial_of(experiment) for experiment in self.kept(entry)]

    def trial(self, spec: LoadedSpec, place: Place, entry: Entry, candidate: Candidate, index: int, trial: Trial) -> Experiment:
        """Record one screened point of a tuned entry."""
        return self._record(
            spec,
            place,
            entry,
            candidate,
            index=index,
            tree=trial.kernel_tree,
            knobs=trial.knobs,
            verdict=trial.verdict,
            message=trial.message,
            speedup=trial.speedup,
            interval=trial.interval,
            workloads=trial.workloads,
            seconds=trial.seconds,
        )

    def result(self, spec: LoadedSpec, place: Place, entry: Entry, candidate: Candidate, result: Result) -> Experiment:
        """Keep a full result and record its experiment: the result first, so that a recorded experiment always has one."""
        self.store.put_result(entry.experiment(), result)
        return self._record(
            spec,
            place,
            entry,
            candidate,
            tree=candidate.tree,
            knobs=result.knobs[0] if len(result.knobs) == 1 else {},
            verdict=result.verdict,
            message=result.message,
            speedup=result.geomean.speedup if result.geomean is not None else None,
            interval=result.geomean.interval if result.geomean is not None else None,
            workloads={row.workload: row.speedup for row in result.rows},
            seconds=result.seconds,
            normalized=normalized_hash(candidate),
        )

    def refusal(self, spec: LoadedSpec, place: Place, entry: Entry, candidate: Candidate, refusal: Refusal) -> Experiment:
        """Record that the gate refused a candidate; it took no time of the device."""
        return self._record(
            spec,
            place,
            entry,
            candidate,
            tree=candidate.tree,
            verdict=refusal.verdict,
            message=refusal.message,
            normalized=normalized_hash(candidate),
        )

    def lost(self, spec: LoadedSpec, place: Place, entry: Entry, candidate: Candidate, index: int, message: str) -> Experiment:
        """Record that nothing is known of what an entry's `index`th experiment would have been, and why."""
        return self._record(
            spec, place, entry, candidate, tree=candidate.tree, index=index, verdict=Verdict.EVALUATION_LOST, message=message
        )

    def _record(
        self,
        spec: LoadedSpec,
        place: Place,
        entry: Entry,
        candidate: Candidate,
        *,
        tree: str,
        verdict: Verdict,
        message: str,
        index: int = 0,
        knobs: Mapping[str, KnobValue] | None = None,
        speedup: float | None = None,
        interval: tuple[float, float] | None = None,
        workloads: Mapping[str, float] | None = None,
        seconds: float = 0.0,
        normalized: str = "",
    ) -> Experiment:
        identifier = entry.experiment(index)
        known = self.notebook.get(identifier)
        if known is not None:
            return known
        experiment = Experiment(
            id=identifier,
            campaign=entry.campaign,
            spec=spec.spec.id,
            spec_hash=spec.spec_hash,
            harness=place.harness,
            device=place.device,
            round=entry.round,
            agent=entry.agent,
            index=entry.first + index,
            tier=entry.tier,
            kernel_tree=tree,
            source=source_hash(candidate),
            knobs=dict(knobs or {}),
            kind=entry.kind,
            parent=entry.parent,
            hypothesis=entry.hypothesis,
            verdict=verdict,
            message=message,
            speedup=speedup,
            interval=interval,
            workloads=dict(workloads or {}),
            seconds=seconds,
            created=datetime.now(UTC).isoformat(timespec="milliseconds"),
            normalized=normalized,
            against=entry.against,
        )
        self.notebook.record(experiment)
        self.watch.recorded(experiment)
        return experiment


def over_baseline(experiments: Sequence[Experiment]) -> list[Experiment]:
    """The experiments whose speed-up is over the baseline: what lessons, searches and pages may compare."""
    return [experiment for experiment in experiments if experiment.against == "baseline"]
