"""The evaluate port of one machine: candidates are judged here, and every evaluation is in the notebook before the next begins."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from bot.campaign.journal import Journal
from bot.campaign.outcomes import judged_outcome, no_time, tuned_outcome
from bot.campaign.ports import Place, Refusal
from bot.campaign.state import Entry, Outcome
from bot.campaign.store import Store
from runner import batch
from runner.candidate import Candidate
from runner.identity import source_hash
from runner.progress import Step
from runner.spec.load import LoadedSpec
from runner.tuning import Trial


class Bench(batch.Bench, Protocol):
    """The judge of this machine, as this port uses it: `bot.campaign.bench.RunnerBench` is the real one."""

    def place(self, spec: LoadedSpec) -> Place:
        """The device and harness; `FactoryError` when this machine can't judge the spec."""

    def gate(self, spec: LoadedSpec, candidate: Candidate) -> Refusal | None:
        """Policy, then a build of every point that the table can reach."""


class _Spent(Exception):
    """The batch's time on the device is used up: ends a search between two trials."""


class LocalEvaluation:
    """`EvaluatePort` on this machine. The judge takes the machine's lock for each evaluation."""

    def __init__(self, bench: Bench, journal: Journal, store: Store) -> None:
        self.bench = bench
        self.journal = journal
        self.store = store

    def place(self, spec: LoadedSpec) -> Place:
        return self.bench.place(spec)

    def gate(self, spec: LoadedSpec, candidate: Candidate) -> Refusal | None:
        return self.bench.gate(spec, candidate)

    def evaluate(self, spec: LoadedSpec, entries: Sequence[Entry], seconds: float) -> Sequence[Outcome]:
        place = self.bench.place(spec)
        clock = _Clock(seconds)
        outcomes = []
        # What the batch's searches have found so far, by source: a later one over the same space need not try it again.
        found: dict[str, list[Trial]] = defaultdict(list)
        for entry in entries:
            self.journal.watch.interrupted()
            candidate = self.store.candidate(entry.tree, spec.spec.policy)
            if entry.tuning is None:
                outcomes.append(self._judged(spec, place, entry, candidate, clock))
            else:
                outcomes.append(self._tuned(spec, place, entry, candidate, clock, found[source_hash(candidate)]))
        return outcomes

    def _judged(self, spec: LoadedSpec, place: Place, entry: Entry, candidate: Candidate, clock: _Clock) -> Outcome:
        kept = self.journal.kept(entry)
        if kept:
            experiment = kept[0]
        elif clock.spent:
            return no_time(entry)
        else:
            result = self.bench.judge(
                spec,
                candidate,
                tier=entry.tier,
                against=entry.against,
                fresh=entry.fresh,
                progress=self._progress,
            )
            experiment = self.journal.result(spec, place, entry, candidate, result)
        clock.used += experiment.seconds
        return judged_outcome(self.store, entry, experiment)

    def _progress(self, step: Step) -> None:
        self.journal.watch.interrupted()
        place = f" {step.workload}" if step.workload else ""
        self.journal.watch.detail(f"{step.stage}{place}, {step.done} of {step.total}")

    def _tuned(self, spec: LoadedSpec, place: Place, entry: Entry, candidate: Candidate, clock: _Clock, found: list[Trial]) -> Outcome:
        tuning = entry.tuning
        assert tuning is not None
        prior = (*self.store.prior(tuning.prior), *found)
        recorded = self.journal.trials(entry)
        done = list(recorded)
        clock.used += sum(trial.seconds for trial in recorded)

        def on_trial(_: int, trial: Trial) -> None:
            self.journal.trial(spec, place, entry, candidate, len(done), trial)
            done.append(trial)
            clock.used += trial.seconds
            self.journal.watch.interrupted()
            if clock.spent:
                raise _Spent

        # Without time left nothing new is tried, and what was recorded stands.
        if not clock.spent:
            with suppress(_Spent):
                self.bench.tune(
                    spec,
                    candidate,
                    strategy=tuning.strategy,
                    trials=tuning.trials,
                    seed=tuning.seed,
                    prior=prior,
                    recorded=recorded,
                    on_trial=on_trial,
                )
        found += done
        return tuned_outcome(self.store, entry, candidate, self.journal.kept(entry))


class _Clock:
    """The device seconds that a batch has used."""

    def __init__(self, allowed: float) -> None:
        self.allowed = allowed
        self.used = 0.0

    @property
    def spent(self) -> bool:
        return self.used >= self.allowed
