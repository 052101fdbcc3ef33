"""The local evaluate port: every evaluation is in the notebook before the next one, and nothing is done twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from formula import FULL_SECONDS, SCREENING_SECONDS, FormulaBench, write_spec

from bot.campaign.journal import Journal
from bot.campaign.live import Terminal
from bot.campaign.local import LocalEvaluation
from bot.campaign.ports import Suspended
from bot.campaign.state import Entry, Tuning
from bot.campaign.store import Store
from bot.evidence.notebook import Notebook
from runner.candidate import read_candidate
from runner.spec.load import LoadedSpec, load_spec
from runner.verdict import Verdict

PLENTY = 1e6


class Bench:
    """A folder with one local port over the formula, whose calls are counted."""

    def __init__(self, folder: Path) -> None:
        self.spec: LoadedSpec = load_spec(write_spec(folder / "double-formula"))
        self.store = Store(folder / "state")
        self.notebook = Notebook(folder / "state" / "notebook.sqlite")
        self.watch = Terminal()
        self.formula = FormulaBench()
        self.port = LocalEvaluation(self.formula, Journal(self.notebook, self.store, self.watch), self.store)

    def entry(self, folder: str, trials: int = 0, agent: str = "tpe", **other: Any) -> Entry:
        candidate = read_candidate(self.spec.folder / folder, self.spec.spec.policy)
        tuning = Tuning(strategy="random", trials=trials, seed=3, prior=self.store.put_prior(())) if trials else None
        fields: dict[str, Any] = {"round": 1, "first": 0, "tier": "screening" if trials else "full", **other}
        return Entry(
            campaign="c-1",
            agent=agent,
            tree=self.store.put_candidate(candidate),
            kind="search",
            parent=None,
            hypothesis="h",
            tuning=tuning,
            **fields,
        )

    def ids(self) -> list[str]:
        return [experiment.id for experiment in self.notebook.experiments("double-formula")]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.notebook.close()


def test_a_judgement_is_recorded_with_its_result(bench: Bench) -> None:
    (outcome,) = bench.port.evaluate(bench.spec, [bench.entry("kernel")], PLENTY)
    (experiment,) = bench.notebook.experiments("double-formula")
    assert (experiment.id, experiment.verdict, experiment.tier) == ("c-1/1/tpe/0", Verdict.SLOWER, "full")
    assert (experiment.workloads, experiment.seconds) == ({"small": 0.8, "large": 0.8}, FULL_SECONDS)
    assert outcome.result is not None
    assert bench.store.result(outcome.result).identity.kernel_tree == experiment.kernel_tree == outcome.tree


def test_a_judgement_that_is_recorded_is_not_done_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    first = bench.port.evaluate(bench.spec, [bench.entry("kernel")], PLENTY)

    def judged_again(*_: object, **__: object) -> None:
        raise AssertionError("judged again")

    monkeypatch.setattr(FormulaBench, "judge", judged_again)
    assert bench.port.evaluate(bench.spec, [bench.entry("kernel")], PLENTY) == first


def test_a_search_records_each_trial_and_gives_its_best_as_a_kernel(bench: Bench) -> None:
    (outcome,) = bench.port.evaluate(bench.spec, [bench.entry("seeds/knobs", 8)], PLENTY)
    experiments = bench.notebook.experiments("double-formula")
    assert [experiment.index for experiment in experiments] == list(range(8))
    best = max((one for one in experiments if one.interval), key=lambda one: one.interval or (0.0, 0.0))
    assert (outcome.tree, outcome.speedup, outcome.experiments) == (best.kernel_tree, best.speedup, 8)
    frozen = bench.store.candidate(outcome.tree, bench.spec.spec.policy)
    assert dict(frozen.manifest.table[0]) == {"when": "true", **best.knobs}


@pytest.mark.parametrize("interrupted_after", [1, 4, 7])
def test_an_interrupted_search_goes_on_where_it_was(bench: Bench, tmp_path: Path, interrupted_after: int) -> None:
    record = bench.port.journal.watch.recorded
    seen: list[str] = []

    def interrupt(experiment: Any) -> None:
        record(experiment)
        seen.append(experiment.id)
        if len(seen) == interrupted_after:
            bench.watch.stop()

    bench.watch.recorded = interrupt
    with pytest.raises(Suspended):
        bench.port.evaluate(bench.spec, [bench.entry("seeds/knobs", 8)], PLENTY)
    assert len(bench.ids()) == interrupted_after
    bench.watch._stop.clear()
    (outcome,) = bench.port.evaluate(bench.spec, [bench.entry("seeds/knobs", 8)], PLENTY)
    whole = Bench(tmp_path / "undisturbed")
    assert [outcome] == list(whole.port.evaluate(whole.spec, [whole.entry("seeds/knobs", 8)], PLENTY))
    assert bench.ids() == whole.ids()
    whole.notebook.close()


def test_no_trial_begins_when_the_time_is_used_up(bench: Bench) -> None:
    (outcome,) = bench.port.evaluate(bench.spec, [bench.entry("seeds/knobs", 8)], 2.2 * SCREENING_SECONDS)
    assert outcome.experiments == len(bench.ids()) == 3
    # Nor when the same batch is run again, and its best is still known.
    (again,) = bench.port.evaluate(bench.spec, [bench.entry("seeds/knobs", 8)], 2.2 * SCREENING_SECONDS)
    assert again == outcome
    assert len(bench.ids()) == 3


def test_what_has_no_time_at_all_is_not_evaluated(bench: Bench) -> None:
    entries = [bench.entry("seeds/knobs", 4), bench.entry("kernel", agent="other")]
    tuned, other = bench.port.evaluate(bench.spec, entries, SCREENING_SECONDS)
    assert (tuned.experiments, other.experiments, other.verdict) == (1, 0, None)


def test_a_later_search_of_a_batch_knows_what_an_earlier_one_found(bench: Bench) -> None:
    entries = [bench.entry("seeds/knobs", 5), bench.entry("seeds/knobs", 5, agent="local")]
    bench.port.evaluate(bench.spec, entries, PLENTY)
    assert bench.formula.priors == [0, 5]
    points = [tuple(experiment.knobs.items()) for experiment in bench.notebook.experiments("double-formula")]
    assert len(set(points)) == 10


def test_a_search_without_a_timed_point_tells_its_last_failure(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    formula: Callable[..., object] = lambda knobs: (Verdict.INCORRECT, 0.0)  # noqa: E731
    monkeypatch.setattr("formula.verdict_of", formula)
    (outcome,) = bench.port.evaluate(bench.spec, [bench.entry("seeds/knobs", 3)], PLENTY)
    assert (outcome.verdict, outcome.speedup, outcome.experiments) == (Verdict.INCORRECT, None, 3)
    assert outcome.strength is None
