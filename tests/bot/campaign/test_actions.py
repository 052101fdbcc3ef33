"""The evaluate port over Actions runs: what comes back is checked, recorded once, and tried again where it is lost.

The runs are executed here, in this process, by the real batch over the formula; what goes wrong on a forge is done to them.
"""

from __future__ import annotations

import io
import json
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from formula import DEVICE, FULL_SECONDS, SCREENING_SECONDS, FormulaBench, write_spec

from bot.campaign.actions import MAX_TRIES, ActionsEvaluation
from bot.campaign.dispatched import Patience
from bot.campaign.journal import Journal
from bot.campaign.live import Terminal
from bot.campaign.local import LocalEvaluation
from bot.campaign.ports import Place, Suspended
from bot.campaign.state import Entry, Outcome, Tuning
from bot.campaign.store import Store
from bot.evidence.notebook import Notebook
from runner.batch import run_batch
from runner.candidate import read_candidate
from runner.errors import FactoryError
from runner.identity import harness_hash
from runner.spec.load import LoadedSpec, load_spec
from runner.verdict import Verdict

PLENTY = 1e6
BOT = "kernel-factory[bot]"
HEAD = "a" * 40
Mischief = Callable[["Forge", "Ran"], None]


@dataclass(frozen=True)
class Branch:
    name: str


@dataclass
class Ran:
    """A run, with GitHub's names; `answer` is what its artifact holds."""

    id: int
    answer: dict[str, Any]
    path: str = ".github/workflows/evaluate.yml"
    event: str = "workflow_dispatch"
    head_branch: str = "main"
    head_sha: str = HEAD
    actor: str = BOT
    attempt: int = 1
    status: str = "completed"
    conclusion: str | None = "success"
    artifact: bytes | None = None


@dataclass
class Forge:
    """A repository whose runs are executed as they are dispatched. `mischief` are done to the runs, in the order of their dispatch."""

    folder: Path
    bench: FormulaBench = field(default_factory=FormulaBench)
    device: str = DEVICE
    mischief: list[Mischief | None] = field(default_factory=list)
    commits: dict[str, Mapping[str, bytes | None]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    runs: list[Ran] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)
    inputs: list[Mapping[str, str]] = field(default_factory=list)

    def default_branch(self) -> Branch:
        return Branch("main")

    def head(self, branch: str) -> str | None:
        return HEAD

    def commit(self, parent: str | None, changes: Mapping[str, bytes | None], message: str) -> str:
        assert parent is None
        name = f"{len(self.commits):040x}"
        self.commits[name] = changes
        return name

    def push(self, refspec: str) -> None:
        commit, _, ref = refspec.removeprefix("+").partition(":")
        self.refs[ref] = commit

    def dispatch(self, workflow: str, ref: str, inputs: Mapping[str, str]) -> int:
        assert (workflow, ref) == ("evaluate.yml", "main")
        assert self.refs[inputs["request"]] == inputs["commit"]
        number = 100 + len(self.runs)
        place = self.folder / str(number)
        for path, data in self.commits[inputs["commit"]].items():
            target = place / "in" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data or b"")
        request, specs = place / "in" / "request.json", self.folder / "specs"
        run_batch(request, specs, place / "out", run=f"{number}/1", bench=self.bench, device=lambda _: self.device)
        run = Ran(number, json.loads((place / "out" / "batch.json").read_bytes()))
        self.inputs.append(inputs)
        self.runs.append(run)
        wrong = self.mischief.pop(0) if self.mischief else None
        if wrong is not None:
            wrong(self, run)
        return number

    def run(self, run_id: int) -> Ran:
        return self.runs[run_id - 100]

    def cancel(self, run_id: int) -> None:
        self.cancelled.append(run_id)

    def artifact(self, run_id: int, name: str, max_bytes: int) -> bytes:
        run = self.run(run_id)
        if name != "evaluation" or run.artifact == b"":
            raise FactoryError(f"there is no artifact `{name}`")
        data = run.artifact if run.artifact is not None else zipped({"batch.json": json.dumps(run.answer).encode()})
        if len(data) > max_bytes:
            raise FactoryError("the artifact is too large")
        return data


def zipped(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


class Bench:
    """A state folder with the port over a forge."""

    def __init__(self, folder: Path, forge: Forge | None = None) -> None:
        self.spec: LoadedSpec = load_spec(write_spec(folder / "specs" / "double-formula"))
        self.store = Store(folder / "state")
        self.notebook = Notebook(folder / "state" / "notebook.sqlite")
        self.watch = Terminal()
        self.forge = forge or Forge(folder)
        self.port = self.new_port()

    def new_port(self, **patience: float) -> ActionsEvaluation:
        """The port, as a process that starts anew has it."""
        journal = Journal(self.notebook, self.store, self.watch)
        waits = replace(Patience(poll=0.01, queue=0.05, overrun=0.05), **patience)
        return ActionsEvaluation(
            self.forge, self.forge, journal, self.store, login=BOT, gate=FormulaBench(), patience=waits, doubts=lambda *_: ()
        )

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

    def evaluate(self, *entries: Entry, seconds: float = PLENTY) -> list[Outcome]:
        return list(self.port.evaluate(self.spec, entries, seconds))

    def ids(self) -> list[str]:
        return [experiment.id for experiment in self.notebook.experiments("double-formula")]

    def batches(self) -> int:
        """How many runs were started for entries."""
        return sum("/places/" not in inputs["request"] for inputs in self.forge.inputs)


@pytest.fixture(autouse=True)
def of_this_harness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("formula.HARNESS", harness_hash())


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


def other_run(**changes: Any) -> Mischief:
    return lambda forge, run: run.__dict__.update(changes)


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


def test_what_is_lost_every_time_is_evaluation_lost_with_the_reason(bench: Bench) -> None:
    bench.forge.mischief = [None, *[other_run(conclusion="failure")] * MAX_TRIES]
    judged, tuned = bench.evaluate(bench.entry("kernel"), bench.entry("seeds/knobs", 4, agent="local"))
    assert [one.verdict for one in (judged, tuned)] == [Verdict.EVALUATION_LOST] * 2
    assert "ended as failure" in judged.message
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
