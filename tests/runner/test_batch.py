"""Batches: the handshake, the order, the device's time, and what a machine that can't judge says. One small batch is really judged."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from specs import LAUNCH, RIGHT, write_kernel, write_spec
from typer.testing import CliRunner

import runner
from runner.batch import run_batch, summary
from runner.batch_form import Answer, Asked, Request, Search
from runner.candidate import Candidate, read_candidate, with_knobs
from runner.cli import app
from runner.errors import FactoryError
from runner.identity import harness_hash
from runner.progress import Progress
from runner.result import Geomean, Identity, Result
from runner.spec.load import LoadedSpec
from runner.tuning import Trial
from runner.verdict import Verdict

DEVICE = "a device"
SECONDS = 2.0
KNOBS = LAUNCH + "build: {defines: {N: n}}\nknobs: {n: [1, 2, 3, 4, 5, 6]}\n"


class CountingBench:
    """Gives every candidate a verdict without running it, and keeps what it was asked."""

    def __init__(self) -> None:
        self.judged: list[str] = []
        self.priors: list[list[Any]] = []

    def judge(self, spec: LoadedSpec, candidate: Candidate, *, tier: Any, against: str, fresh: bool, progress: Progress) -> Result:
        self.judged.append(candidate.tree)
        return Result(
            spec=spec.spec.id,
            identity=Identity(kernel_tree=candidate.tree, spec_hash=spec.spec_hash, harness=harness_hash()),
            tier=tier,
            verdict=Verdict.SLOWER,
            message="|",
            knobs=(),
            seed=1,
            started="2026-11-30T12:00:00+00:00",
            seconds=SECONDS,
            device=DEVICE,
            device_id="d",
            environment={},
            against=against,
            geomean=Geomean(speedup=0.9, interval=(0.8, 1.0)),
        )

    def tune(
        self,
        spec: LoadedSpec,
        candidate: Candidate,
        *,
        strategy: str,
        trials: int,
        seed: int,
        prior: Sequence[Trial],
        recorded: Sequence[Trial],
        on_trial: Callable[[int, Trial], None],
    ) -> None:
        self.priors.append([trial.knobs["n"] for trial in prior])
        known = {trial.knobs["n"] for trial in (*prior, *recorded)}
        points = [n for n in candidate.manifest.knobs["n"] if n not in known]
        for index, n in enumerate(points[: trials - len(recorded)]):
            on_trial(len(recorded) + index, trial(candidate, int(n)))


def trial(candidate: Candidate, n: int) -> Trial:
    """A point that was timed."""
    tree = with_knobs(candidate, {"n": n}).tree
    return Trial({"n": n}, Verdict.SLOWER, "", 1 + n / 10, (n / 10, 1.0), {"small": 1.0}, SECONDS, tree)


class Field:
    """A spec, and a request with its candidates."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spec = write_spec(folder / "specs")
        self.champion = read_candidate(self.spec.folder / "kernel", self.spec.spec.policy)
        self.bench = CountingBench()

    def candidate(self, body: str = RIGHT, launch: str = LAUNCH) -> Candidate:
        made = write_kernel(self.folder / "new", body, launch)
        candidate = read_candidate(made, self.spec.spec.policy)
        place = self.folder / "in" / "candidates" / candidate.tree
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.exists():
            return candidate
        made.rename(place)
        return candidate

    def ask(self, *entries: Asked, **other: Any) -> Path:
        fields = {"version": runner.__version__, "harness": harness_hash(), "spec": "scale-cpu", "spec_hash": self.spec.spec_hash}
        request = Request.model_validate({**fields, "champion": self.champion.tree, "seconds": 1e6, "entries": entries, **other})
        path = self.folder / "in" / "request.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(request.model_dump_json(by_alias=True))
        return path

    def run(self, *entries: Asked, **other: Any) -> Answer:
        path = self.ask(*entries, **other)
        said: list[str] = []
        answer = run_batch(
            path, self.folder / "specs", self.folder / "out", run="5/1", bench=self.bench, device=lambda _: DEVICE, say=said.append
        )
        assert Answer.model_validate_json((self.folder / "out" / "batch.json").read_bytes()) == answer
        assert answer.request == hashlib.sha256(path.read_bytes()).hexdigest()
        assert (answer.run, answer.complete) == ("5/1", True)
        return answer


@pytest.fixture
def field(tmp_path: Path) -> Field:
    return Field(tmp_path)


def asked(candidate: Candidate, key: str = "a", trials: int = 0, **other: Any) -> Asked:
    search = Search(strategy="random", trials=trials, seed=1, recorded=other.pop("recorded", ())) if trials else None
    return Asked(key=key, tree=candidate.tree, search=search, **other)


def test_entries_are_answered_in_their_order(field: Field) -> None:
    one, two = field.candidate(), field.candidate(RIGHT + " // two")
    answer = field.run(asked(two, "b", tier="full", fresh=True), asked(one, "a"), asked(two, "c", against="champion"))
    assert [entry.key for entry in answer.entries] == ["b", "a", "c"]
    assert field.bench.judged == [two.tree, one.tree, two.tree]
    results = [entry.result for entry in answer.entries if entry.result is not None]
    assert [(result.tier, result.against) for result in results] == [
        ("full", "baseline"),
        ("screening", "baseline"),
        ("screening", "champion"),
    ]
    assert (answer.device, answer.lost) == (DEVICE, "")


def test_no_evaluation_begins_when_the_time_is_used_up(field: Field) -> None:
    tuned, other = field.candidate(launch=KNOBS), field.candidate()
    answer = field.run(asked(tuned, "t", 5), asked(other, "o"), asked(tuned, "u", 5), seconds=2.5 * SECONDS)
    assert [len(entry.trials) for entry in answer.entries] == [3, 0, 0]
    assert [entry.result for entry in answer.entries] == [None, None, None]
    assert field.bench.judged == []


def test_a_search_goes_on_behind_its_recorded_trials_and_a_later_one_knows_all(field: Field) -> None:
    tuned = field.candidate(launch=KNOBS)
    recorded = (trial(tuned, 4), trial(tuned, 1))
    answer = field.run(asked(tuned, "t", 4, recorded=recorded), asked(tuned, "u", 2))
    assert [[one.knobs["n"] for one in entry.trials] for entry in answer.entries] == [[2, 3], [5, 6]]
    assert field.bench.priors == [[], [4, 1, 2, 3]]


@pytest.mark.parametrize("wrong", [{"version": "9.9"}, {"harness": "0" * 64}])
def test_another_version_or_harness_judges_nothing_and_says_the_remedy(field: Field, wrong: dict[str, str]) -> None:
    path = field.ask(asked(field.candidate()))
    # What another version writes need not be a request of this one.
    path.write_text(json.dumps({**json.loads(path.read_text()), **wrong, "of_that_version": [1]}))
    answer = run_batch(path, field.folder / "specs", field.folder / "out", bench=field.bench, device=lambda _: DEVICE)
    assert answer.entries == ()
    assert "install the same version" in answer.lost
    assert field.bench.judged == []


def test_a_spec_that_was_changed_is_not_judged(field: Field) -> None:
    (field.spec.folder / "reference.py").write_text("def scale(x, shift, factor):\n    return x\n")
    answer = field.run(asked(field.candidate()))
    assert answer.entries == ()
    assert "was changed" in answer.lost


def test_a_champion_that_was_changed_is_not_compared_with(field: Field) -> None:
    write_kernel(field.spec.folder / "kernel", RIGHT + " // other")
    assert "the champion was changed" in field.run(asked(field.candidate(), against="champion")).lost
    assert field.run(asked(field.candidate())).lost == ""


def test_files_that_are_not_what_was_asked_for_are_lost_and_the_rest_is_judged(field: Field) -> None:
    one, two, three = field.candidate(), field.candidate(RIGHT + " // two"), field.candidate(RIGHT + " // three")
    at = field.folder / "in" / "candidates"
    write_kernel(at / one.tree, RIGHT + " // not asked for")
    (at / two.tree).rename(at / "elsewhere")
    (at / two.tree).symlink_to(at / "elsewhere")
    answer = field.run(asked(one, "a"), asked(two, "b"), asked(three, "c"))
    assert "asked for was" in answer.entries[0].lost
    assert "not a folder" in answer.entries[1].lost
    assert field.bench.judged == [three.tree]


def test_a_machine_that_cannot_judge_says_so_and_keeps_what_was_done(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = field.candidate(), field.candidate(RIGHT + " // two")
    judge = field.bench.judge

    def fail_second(spec: LoadedSpec, candidate: Candidate, **other: Any) -> Result:
        if field.bench.judged:
            raise FactoryError("no sandbox works here")
        return judge(spec, candidate, **other)

    monkeypatch.setattr(field.bench, "judge", fail_second)
    answer = field.run(asked(one, "a"), asked(two, "b"))
    assert answer.lost == "no sandbox works here"
    assert [entry.key for entry in answer.entries] == ["a"]


@pytest.mark.parametrize("data", ["", "[]", '{"version": "1"}', '{"schema": "kernel-batch/v1"}'])
def test_a_file_that_is_no_batch_is_an_expected_failure(tmp_path: Path, data: str) -> None:
    path = tmp_path / "request.json"
    path.write_text(data)
    with pytest.raises(FactoryError, match="not a kernel-batch"):
        run_batch(path, tmp_path, tmp_path / "out")


def test_the_summary_escapes_what_candidates_say(field: Field) -> None:
    one = field.candidate()
    answer = field.run(asked(one, "c-1/1/@someone|x"))
    told = summary(answer)
    assert "0.900" in told
    assert "@someone" not in told
    assert "\\|x" in told


def test_the_command_judges_really(field: Field, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNEL_FACTORY_STATE", str(tmp_path / "state"))
    wrong = field.candidate(RIGHT.replace("+ shift", "- shift"))
    refused = field.candidate('asm("nop");')
    path = field.ask(asked(wrong, "wrong"), asked(refused, "refused"))
    words = ["batch", str(path), "--specs", str(tmp_path / "specs"), "--out", str(tmp_path / "out"), "--summary", str(tmp_path / "s.md")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    answer = Answer.model_validate_json((tmp_path / "out" / "batch.json").read_bytes())
    results = [entry.result for entry in answer.entries]
    assert [result.verdict for result in results if result is not None] == [Verdict.INCORRECT, Verdict.POLICY_VIOLATION]
    assert [result.identity.kernel_tree for result in results if result is not None] == [wrong.tree, refused.tree]
    assert "incorrect" in (tmp_path / "s.md").read_text()


def test_a_trial_keeps_all_its_fields_on_the_way(field: Field) -> None:
    tuned = field.candidate(launch=KNOBS)
    sent = trial(tuned, 3)
    (entry,) = Request.model_validate_json(field.ask(asked(tuned, "t", 4, recorded=(sent,))).read_bytes()).entries
    assert entry.search is not None
    assert [dataclasses.asdict(one) for one in entry.search.recorded] == [dataclasses.asdict(sent)]
