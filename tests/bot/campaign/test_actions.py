"""The evaluate port over Actions runs: a round is dispatched once, waited for, and recorded once, whatever crashes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from actions_bench import PLENTY, Bench, Forge, Ran, other_run
from formula import DEVICE, SCREENING_SECONDS, FormulaBench

from bot.campaign.batches import Batches
from bot.campaign.journal import Journal
from bot.campaign.local import LocalEvaluation
from bot.campaign.ports import Place, Suspended
from bot.campaign.state import Entry
from runner.identity import harness_hash


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.notebook.close()


def test_the_place_is_asked_once(bench: Bench) -> None:
    assert bench.port.place(bench.spec) == Place(DEVICE, harness_hash())
    assert bench.new_port().place(bench.spec) == Place(DEVICE, harness_hash())
    assert [inputs["labels"] for inputs in bench.forge.inputs] == ['["self-hosted"]']


def test_a_round_is_recorded_as_it_is_on_one_machine(bench: Bench, tmp_path: Path) -> None:
    def entries(of: Bench) -> list[Entry]:
        searches = [of.entry("seeds/knobs", 6), of.entry("seeds/knobs", 5, agent="local")]
        return [*searches, of.entry("kernel", agent="seed"), of.entry("kernel", agent="again", against="champion", fresh=True)]

    mine = bench.evaluate(*entries(bench))
    other = Bench(tmp_path / "other")
    local = LocalEvaluation(FormulaBench(harness_hash()), Journal(other.notebook, other.store, other.watch), other.store)
    theirs = local.evaluate(other.spec, entries(other), PLENTY)

    assert mine == list(theirs)
    there = [
        [one.model_copy(update={"created": ""}) for one in notebook.experiments("double-formula")]
        for notebook in (bench.notebook, other.notebook)
    ]
    assert there[0] == there[1]
    assert len(there[0]) == 13
    assert bench.batches() == 1
    assert mine[2].result is not None
    other.notebook.close()


def test_what_is_recorded_is_not_asked_for_again(bench: Bench) -> None:
    entries = [bench.entry("kernel"), bench.entry("seeds/knobs", 3, agent="local")]
    first = bench.evaluate(*entries)
    bench.port = bench.new_port()
    assert bench.evaluate(*entries) == first
    assert bench.batches() == 1
    # Nor where only the notebook is left.
    for path in (bench.store.folder / "batches").iterdir():
        path.unlink()
    assert bench.evaluate(*entries) == first
    assert bench.batches() == 1


def test_no_evaluation_begins_when_the_time_is_used_up(bench: Bench) -> None:
    tuned, other = bench.evaluate(bench.entry("seeds/knobs", 8), bench.entry("kernel", agent="other"), seconds=2.2 * SCREENING_SECONDS)
    assert (tuned.experiments, other.experiments, other.verdict) == (3, 0, None)
    assert bench.batches() == 1


def test_a_run_that_was_started_before_a_crash_is_waited_for(bench: Bench) -> None:
    def stop(forge: Forge, run: Ran) -> None:
        run.status = "in_progress"
        bench.watch.stop()

    bench.forge.mischief = [None, stop]
    entry = bench.entry("seeds/knobs", 5)
    with pytest.raises(Suspended):
        bench.evaluate(entry)
    assert bench.ids() == []
    bench.watch._stop.clear()
    bench.forge.runs[-1].status = "completed"
    bench.port = bench.new_port()
    (outcome,) = bench.evaluate(entry)
    assert (outcome.experiments, bench.batches()) == (5, 1)


def test_a_crash_while_results_are_recorded_loses_and_repeats_nothing(bench: Bench) -> None:
    record, seen = bench.watch.recorded, list[str]()

    def crash(experiment: Any) -> None:
        record(experiment)
        seen.append(experiment.id)
        if len(seen) == 3:
            raise Suspended(None)

    bench.watch.recorded = crash  # type: ignore[method-assign]  # a crash at exactly this point
    entries = [bench.entry("kernel", agent="a"), bench.entry("seeds/knobs", 5, agent="b")]
    with pytest.raises(Suspended):
        bench.evaluate(*entries)
    bench.port = bench.new_port()
    judged, tuned = bench.evaluate(*entries)
    assert (judged.experiments, tuned.experiments, bench.batches()) == (1, 5, 1)
    assert bench.ids() == ["c-1/1/a/0", *(f"c-1/1/b/{index}" for index in range(5))]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("save", [1, 2, 3, 4, 5])
def test_a_crash_around_each_thing_that_is_kept_ends_the_same(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: int, when: str
) -> None:
    saves, kept = list[str](), Batches.save

    def crash(port: Batches, name: str, batch: Any) -> Any:
        saves.append(name)
        if when == "after" or len(saves) != save:
            kept(port, name, batch)
        if len(saves) == save:
            raise Suspended(None)
        return batch

    def entries(of: Bench) -> list[Entry]:
        return [of.entry("kernel", agent="a"), of.entry("seeds/knobs", 4, agent="b")]

    with monkeypatch.context() as patched:
        patched.setattr(Batches, "save", crash)
        with pytest.raises(Suspended):
            bench.evaluate(*entries(bench))
    bench.port = bench.new_port()
    outcomes = bench.evaluate(*entries(bench))
    undisturbed = Bench(tmp_path / "undisturbed")
    assert outcomes == undisturbed.evaluate(*entries(undisturbed))
    assert bench.ids() == undisturbed.ids()
    # Of place and batch a ticket is kept, then its run, then what came of the batch. A run whose answer was not kept is found again.
    assert (bench.batches(), len(bench.forge.runs)) == (1, 2)
    undisturbed.notebook.close()


def test_what_a_run_is_told_names_the_request_only(bench: Bench) -> None:
    bench.evaluate(bench.entry("kernel"))
    inputs = bench.forge.inputs[-1]
    assert set(inputs) == {"request", "commit", "labels", "minutes"}
    assert inputs["request"].startswith("refs/factory/c-1/")
    files = bench.forge.commits[inputs["commit"]]
    tree = bench.entry("kernel").tree
    assert set(files) == {"request.json", f"candidates/{tree}/launch.yaml", f"candidates/{tree}/twice.cpp"}


def test_waiting_ends_when_the_person_wants_it(bench: Bench) -> None:
    bench.forge.mischief = [None, other_run(status="queued", conclusion=None)]
    bench.port = bench.new_port(queue=60.0)
    bench.port.place(bench.spec)
    threading.Timer(0.1, bench.watch.stop).start()
    with pytest.raises(Suspended):
        bench.evaluate(bench.entry("kernel"))
    assert bench.forge.cancelled == []
