"""What may go wrong with a dispatched run: nothing of it ever counts, it is tried again, and in the end told as lost with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from actions_bench import BOT, Bench, Forge, Mischief, Ran, other_run, zipped
from formula import DEVICE, FULL_SECONDS, FormulaBench

from bot.campaign.actions import MAX_TRIES, ActionsEvaluation
from bot.campaign.journal import Journal
from runner.errors import FactoryError
from runner.verdict import Verdict


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.notebook.close()


def answering(**changes: Any) -> Mischief:
    return lambda forge, run: run.answer.update(changes)


def entry_of(**changes: Any) -> Mischief:
    return lambda forge, run: run.answer["entries"][0].update(changes)


def result_of(path: str, value: Any) -> Mischief:
    def change(forge: Forge, run: Ran) -> None:
        at = run.answer["entries"][0]["result"]
        *folders, last = path.split(".")
        for name in folders:
            at = at[name]
        at[last] = value

    return change


def artifact(data: bytes) -> Mischief:
    return lambda forge, run: setattr(run, "artifact", data)


def with_infinity(forge: Forge, run: Ran) -> None:
    text = json.dumps(run.answer).replace('"speedup": 0.8', '"speedup": Infinity')
    assert "Infinity" in text
    run.artifact = zipped({"batch.json": text.encode()})


WRONG: dict[str, Mischief] = {
    "failed": other_run(conclusion="failure"),
    "cancelled by a person": other_run(conclusion="cancelled"),
    "skipped": other_run(conclusion="skipped"),
    "another workflow": other_run(path=".github/workflows/other.yml"),
    "another event": other_run(event="push"),
    "another commit": other_run(head_sha="b" * 40),
    "another branch": other_run(head_branch="fork"),
    "another actor": other_run(actor="mallory"),
    "started again by a person": other_run(attempt=2),
    "another run": other_run(id=7),
    "deleted by a person": other_run(deleted=True),
    "no artifact": artifact(b""),
    "not a zip": artifact(b"not a zip"),
    "an empty zip": artifact(zipped({})),
    "not JSON": artifact(zipped({"batch.json": b"{"})),
    "deep JSON": artifact(zipped({"batch.json": b"[" * 200_000})),
    "no answer": artifact(zipped({"batch.json": b"{}"})),
    "too large": artifact(zipped({"batch.json": b" " * 1000}) + b" " * (65 << 20)),
    "an infinite speed-up": with_infinity,
    "another request": answering(request="0" * 64),
    "another run's answer": answering(run="99/1"),
    "another harness": answering(harness="0" * 64),
    "cut short": answering(complete=False),
    "no entries": answering(entries=[]),
    "another entry": entry_of(key="c-1/1/other/0"),
    "trials for a judgement": entry_of(trials=[{}]),
    "another kernel": result_of("identity.kernel_tree", "b" * 40),
    "another spec": result_of("identity.spec_hash", "b" * 64),
    "another harness of a result": result_of("identity.harness", "b" * 64),
    "another tier": result_of("tier", "screening"),
    "another side": result_of("against", "champion"),
    "selected workloads only": result_of("selection", ["small"]),
    "numbers for what is wrong": result_of("verdict", "incorrect"),
    "no rows": result_of("rows", []),
    "another device of a result": result_of("device", "a faster one"),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_what_is_not_the_run_that_was_started_is_tried_again_and_never_counts(bench: Bench, wrong: Mischief) -> None:
    bench.forge.mischief = [None, wrong]
    (outcome,) = bench.evaluate(bench.entry("kernel"))
    assert (outcome.verdict, outcome.speedup, outcome.seconds) == (Verdict.SLOWER, 0.8, FULL_SECONDS)
    assert bench.batches() == 2
    assert bench.ids() == ["c-1/1/tpe/0"]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [(other_run(conclusion="failure"), "ended as failure"), (other_run(deleted=True), "is gone"), (artifact(b""), "no artifact")],
)
def test_what_is_lost_every_time_is_evaluation_lost_with_the_reason(bench: Bench, wrong: Mischief, reason: str) -> None:
    bench.forge.mischief = [None, *[wrong] * MAX_TRIES]
    judged, tuned = bench.evaluate(bench.entry("kernel"), bench.entry("seeds/knobs", 4, agent="local"))
    assert [one.verdict for one in (judged, tuned)] == [Verdict.EVALUATION_LOST] * 2
    assert reason in judged.message
    assert bench.batches() == MAX_TRIES
    # It stays so when the step is run again.
    bench.port = bench.new_port()
    assert bench.evaluate(bench.entry("kernel"), bench.entry("seeds/knobs", 4, agent="local")) == [judged, tuned]
    assert bench.batches() == MAX_TRIES


TRIAL_WRONG: dict[str, Callable[[dict[str, Any]], None]] = {
    "no point": lambda trial: trial["knobs"].update(a=99),
    "another kernel": lambda trial: trial.update(kernel_tree="b" * 40),
    "numbers for what is wrong": lambda trial: trial.update(verdict="incorrect"),
    "no speed-up": lambda trial: trial.update(speedup=None),
    "a negative one": lambda trial: trial.update(speedup=-1.0),
    "a negative time": lambda trial: trial.update(seconds=-1.0),
}


@pytest.mark.parametrize("wrong", TRIAL_WRONG.values(), ids=TRIAL_WRONG)
def test_a_trial_that_cannot_be_is_not_recorded(bench: Bench, wrong: Callable[[dict[str, Any]], None]) -> None:
    def change(forge: Forge, run: Ran) -> None:
        wrong(next(trial for trial in run.answer["entries"][0]["trials"] if trial["speedup"] is not None))

    bench.forge.mischief = [None, change]
    (outcome,) = bench.evaluate(bench.entry("seeds/knobs", 6))
    assert (outcome.experiments, bench.batches()) == (6, 2)
    assert all(one.verdict is not Verdict.EVALUATION_LOST for one in bench.notebook.experiments("double-formula"))


def test_more_trials_than_asked_for_are_refused(bench: Bench) -> None:
    def more(forge: Forge, run: Ran) -> None:
        trials = run.answer["entries"][0]["trials"]
        trials.append(trials[0])

    bench.forge.mischief = [None, more]
    (outcome,) = bench.evaluate(bench.entry("seeds/knobs", 4))
    assert (outcome.experiments, bench.batches()) == (4, 2)


def test_results_that_contradict_their_own_samples_are_lost(bench: Bench) -> None:
    journal = Journal(bench.notebook, bench.store, bench.watch)
    bench.port = ActionsEvaluation(bench.forge, bench.forge, journal, bench.store, login=BOT, gate=FormulaBench())
    # The formula has no samples to speak of, and the port as it is used looks at them.
    (outcome,) = bench.evaluate(bench.entry("kernel"))
    assert (outcome.verdict, outcome.speedup) == (Verdict.EVALUATION_LOST, None)
    assert "small: " in outcome.message
    assert bench.batches() == MAX_TRIES


def test_a_run_that_no_machine_takes_is_cancelled_and_says_which_labels(bench: Bench) -> None:
    bench.forge.mischief = [None, *[other_run(status="queued", conclusion=None)] * MAX_TRIES]
    (outcome,) = bench.evaluate(bench.entry("kernel"))
    assert outcome.verdict is Verdict.EVALUATION_LOST
    assert "no machine with the labels self-hosted" in outcome.message
    assert len(bench.forge.cancelled) == MAX_TRIES


def test_a_run_that_hangs_is_cancelled(bench: Bench) -> None:
    bench.forge.mischief = [None, other_run(status="in_progress", conclusion=None)]
    (outcome,) = bench.evaluate(bench.entry("kernel"), seconds=0.1)
    assert bench.forge.cancelled == [101]
    # The time that it ran is gone, so there is none for another one.
    assert outcome.verdict is Verdict.EVALUATION_LOST
    assert bench.batches() == 1


def test_only_what_is_lost_is_asked_for_again(bench: Bench) -> None:
    def second_lost(forge: Forge, run: Ran) -> None:
        run.answer["entries"][1].update(trials=[], lost="its files were not there")

    bench.forge.mischief = [None, second_lost]
    judged, tuned = bench.evaluate(bench.entry("kernel"), bench.entry("seeds/knobs", 4, agent="local"))
    assert (judged.verdict, tuned.experiments, bench.batches()) == (Verdict.SLOWER, 4, 2)
    request = json.loads(bench.forge.commits[bench.forge.inputs[-1]["commit"]]["request.json"] or b"")
    assert [entry["key"] for entry in request["entries"]] == ["c-1/1/local/0"]


def test_another_version_of_the_judge_is_lost_with_the_remedy(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.port.place(bench.spec)
    monkeypatch.setattr("runner.batch_form.harness_hash", lambda: "0" * 64)
    (outcome,) = bench.evaluate(bench.entry("kernel"))
    assert outcome.verdict is Verdict.EVALUATION_LOST
    assert "install the same version" in outcome.message


def test_a_place_that_cannot_judge_is_an_expected_failure_and_asked_again(bench: Bench) -> None:
    bench.forge.mischief = [answering(lost="no sandbox works here", device=""), other_run(conclusion="failure")]
    with pytest.raises(FactoryError, match="no sandbox works here"):
        bench.port.place(bench.spec)
    with pytest.raises(FactoryError, match="ended as failure"):
        bench.port.place(bench.spec)
    assert bench.port.place(bench.spec).device == DEVICE


def test_another_machine_is_lost_and_then_known(bench: Bench) -> None:
    bench.port.place(bench.spec)
    bench.forge.device = "another machine"
    (outcome,) = bench.evaluate(bench.entry("seeds/knobs", 2))
    assert outcome.verdict is Verdict.EVALUATION_LOST
    assert "the labels name different machines" in outcome.message
    assert bench.port.place(bench.spec).device == "another machine"
