"""The attack's own parts: cases of every class, variants that differ and can be drawn again, canaries, and misses that are told."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import socket
from pathlib import Path

import pytest

from runner.attack import _Attack as Attack
from runner.attack import _Ended as Ended
from runner.attack import missed, run_suite
from runner.attack_canaries import VARIABLE, planted
from runner.attack_cases import Case, CaseFile, read_cases, read_controls
from runner.attack_variants import write_candidate_of
from runner.errors import FactoryError, FaultsError
from runner.targets.registry import target_named

ROOT = Path(__file__).resolve().parents[2]
SUITES = {target: ROOT / "tests" / "adversarial" / target for target in ("cpu", "cuda")}
SUITE = SUITES["cpu"]
WORDS = {"CANARY_FILE": "/canary/file", "CANARY_PID": "77", "CANARY_PORT": "4711"}
CASES = {case.name: case for case in read_cases(SUITE)}


def written(case: Case, folder: Path, seed: int | None) -> dict[str, bytes]:
    """The candidate's plain files; names only for what was planted as something else."""
    write_candidate_of(case, folder, WORDS, None if seed is None else random.Random(seed))
    return {
        path.name: path.read_bytes() if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 20 else b""
        for path in folder.iterdir()
    }


def test_an_interrupted_attack_reports_what_it_did_and_counts_what_it_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []

    def judge_or_stop(self: Attack, case: Case, kernel: Path, seed: int) -> Ended:
        if judged:
            raise KeyboardInterrupt
        judged.append(case.name)
        return Ended("incorrect", "y[0] is wrong", 0.0)

    monkeypatch.setattr(Attack, "_tried", judge_or_stop)
    out = tmp_path / "attack.json"
    report = run_suite(target_named("cpu"), SUITE, ROOT / "kernel-specs", out, 1, judged.append, only="^(01-|plain-scalar)", variants=0)
    assert [row.name for row in report.cases] == judged[:1]
    assert report.not_run == len([name for name in CASES if name.startswith("01-")])
    assert not report.clean
    assert json.loads(out.read_text())["not_run"] == report.not_run


@pytest.mark.parametrize(("target", "controls"), [("cpu", 10), ("cuda", 14)])
def test_there_is_a_case_of_every_class_and_there_are_controls(target: str, controls: int) -> None:
    assert {case.number for case in read_cases(SUITES[target])} == set(range(1, 43))
    assert len(read_controls(SUITES[target])) >= controls


@pytest.mark.parametrize("target", [*SUITES])
def test_variants_can_be_drawn_again_differ_from_what_is_written_and_hold_no_word_of_a_canary(target: str, tmp_path: Path) -> None:
    same = set()
    for case in read_cases(SUITES[target]):
        name = case.name
        if case.file.kind == "result" or any(plant.bytes or plant.many for plant in case.file.plant):
            continue
        one, again, plain = (written(case, tmp_path / f"{name}-{part}", seed) for part, seed in (("1", 5), ("2", 5), ("0", None)))
        assert one == again, name
        assert not any(word.encode() in data for word in WORDS for data in (*one.values(), *plain.values())), name
        if one == plain:
            same.add(name)
    # These are hostile by their bytes, and have nothing that could be named otherwise.
    assert same <= {"39-link", "39-pipe", "39-other-encoding", "40-deep-yaml"}


def test_a_variant_of_device_code_has_other_names_wherever_they_stand(tmp_path: Path) -> None:
    (case,) = (case for case in read_cases(SUITES["cuda"]) if case.name == "24-prepares-once")
    plain = written(case, tmp_path / "plain", None)
    varied = written(case, tmp_path / "varied", 3)
    before, after = (files.pop("launch.yaml").decode() for files in (plain, varied))
    (source,) = (text.decode() for text in varied.values())
    assert set(plain) == {"rmsnorm.cu"} != set(varied)
    assert len(re.findall(r"kernel: (\w+)", after)) == 3
    for name in re.findall(r"kernel: (\w+)", after):
        assert name not in before
        assert re.search(rf"\b{name}\(", source)
    assert not re.search(r"\b(rmsnorm|prepare|mark|g_ready|g_prepared|sum_over_cta|THREADS)\b", source)


def test_variants_follow_the_ranges(tmp_path: Path) -> None:
    case = CASES["28-idle-after-warm-up"]
    seen = set()
    for seed in range(12):
        text = written(case, tmp_path / str(seed), seed)
        (source,) = (data.decode() for name, data in text.items() if name.endswith(".cpp"))
        found = re.search(r"constexpr int \w+ = (\d+);", source)
        assert found is not None
        assert 2 <= int(found.group(1)) <= 20
        seen.add(found.group(1))
    assert len(seen) > 3


def test_a_pattern_that_is_in_no_file_is_told(tmp_path: Path) -> None:
    shutil.copytree(SUITE / "28-idle-after-warm-up", tmp_path / "28-idle")
    (tmp_path / "28-idle" / "case.yaml").write_text('class: 28\ntitle: x\nexpected: [incorrect]\nvary: {"GONE = {}": "1..2"}\n')
    (case,) = read_cases(tmp_path)
    with pytest.raises(FactoryError, match="GONE"):
        write_candidate_of(case, tmp_path / "out", WORDS, random.Random(1))


def test_a_case_with_faults_names_their_places(tmp_path: Path) -> None:
    (tmp_path / "03-x").mkdir()
    (tmp_path / "03-x" / "case.yaml").write_text("class: 43\ntitle: x\nexpected: [wrong]\n")
    with pytest.raises(FaultsError) as caught:
        read_cases(tmp_path)
    assert [fault.line for fault in caught.value.faults] == [1, 3]


def test_a_folder_named_for_another_class_is_refused(tmp_path: Path) -> None:
    (tmp_path / "03-x").mkdir()
    (tmp_path / "03-x" / "case.yaml").write_text("class: 4\ntitle: x\nexpected: [incorrect]\n")
    with pytest.raises(FactoryError, match="04-"):
        read_cases(tmp_path)


def test_canaries_are_in_reach_while_they_are_planted_and_gone_afterwards() -> None:
    assert VARIABLE not in os.environ
    with planted() as canaries:
        file = Path(canaries.words["CANARY_FILE"])
        assert canaries.secret in file.read_text()
        assert file.stat().st_mode & 0o004
        assert os.environ[VARIABLE] == canaries.secret
        os.kill(int(canaries.words["CANARY_PID"]), 0)
        socket.create_connection(("127.0.0.1", int(canaries.words["CANARY_PORT"])), timeout=5).close()
    assert VARIABLE not in os.environ
    assert not file.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(canaries.words["CANARY_PID"]), 0)


@pytest.mark.parametrize(
    ("outcome", "message", "said", "why"),
    [
        ("incorrect", "y is wrong", "y is wrong", ""),
        ("accepted", "faster", "faster", "faster"),
        ("incorrect", "z is wrong", "z is wrong", "does not match"),
        ("incorrect", "y is wrong", "y is wrong, s3cret", "secret"),
        ("crash of the judge", "y", "y", "y"),
    ],
)
def test_what_counts_as_a_miss(outcome: str, message: str, said: str, why: str) -> None:
    case = CaseFile.model_validate({"class": 3, "title": "x", "expected": ["incorrect"], "says": "y is"})
    found = missed(case, outcome, message, said, "s3cret")
    assert (why in found) if why else found == ""


@pytest.mark.measures
def test_misses_on_either_side_are_counted_and_written(tmp_path: Path) -> None:
    """An honest kernel as a case, and a wrong one as a control: one false accept for each candidate, one false reject."""
    shutil.copytree(ROOT / "tests" / "adversarial" / "specs", tmp_path / "specs")
    suite = tmp_path / "cpu"
    shutil.copytree(SUITE / "controls" / "plain-scalar", suite / "03-honest")
    (suite / "03-honest" / "control.yaml").unlink()
    (suite / "03-honest" / "case.yaml").write_text("class: 3\ntitle: Honest\nexpected: [incorrect]\ntier: screening\n")
    shutil.copytree(SUITE / "04-zeros", suite / "controls" / "zeros")
    (suite / "controls" / "zeros" / "case.yaml").unlink()
    (suite / "controls" / "zeros" / "control.yaml").write_text("title: Wrong\ntier: screening\n")
    lines: list[str] = []
    out = tmp_path / "attack.json"
    report = run_suite(target_named("cpu"), suite, ROOT / "kernel-specs", out, 1, lines.append)
    assert (report.false_accepts, report.false_rejects, report.clean) == (2, 1, False)
    assert lines[-1].startswith("caught 0/2 · controls passed 0/1")
    assert "seed 1" in lines[-1]
    assert [line.split()[0] for line in lines[:-1]] == ["MISSED"] * 3
    text = out.read_text()
    assert '"class": 3' in text
    assert '"false_accepts": 2' in text
