"""The command `kernel-factory`: what it prints, and with which exit status."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
SPEC = REPOSITORY / "kernel-specs" / "rmsnorm-cpu"


def factory(*words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "HOME": str(cwd or REPOSITORY), "COLUMNS": "200"}
    command = [sys.executable, "-m", "bot.cli", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=cwd, env=environment)


def copy_spec(folder: Path) -> Path:
    folder.mkdir()
    for path in SPEC.iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    for kernel in ("kernel", "seeds/streaming"):
        (folder / kernel).mkdir(parents=True)
        for path in (SPEC / kernel).iterdir():
            (folder / kernel / path.name).write_bytes(path.read_bytes())
    return folder


def test_lint_says_how_many_specs_are_valid() -> None:
    done = factory("lint", SPEC)
    assert (done.returncode, done.stdout) == (0, "1 spec is valid\n")


def test_lint_prints_every_fault_at_its_place(tmp_path: Path) -> None:
    spec = copy_spec(tmp_path / "rmsnorm-cpu")
    text = (spec / "spec.yaml").read_text()
    (spec / "spec.yaml").write_text(text.replace("rounds: 2", "rounds: none").replace("target: cpu", "target: abacus"))
    done = factory("lint", spec)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    for wrong in ("rounds: none", "target: abacus"):
        number = 1 + next(index for index, line in enumerate((spec / "spec.yaml").read_text().splitlines()) if wrong in line)
        assert any(line.startswith(f"{spec / 'spec.yaml'}:{number}:") for line in lines), lines


@pytest.mark.parametrize("words", [("lint",), ("campaign",)])
def test_a_spec_that_is_not_there_is_an_expected_failure(words: tuple[str, ...], tmp_path: Path) -> None:
    done = factory(*words, tmp_path / "nowhere", cwd=tmp_path)
    assert done.returncode == 2
    assert "nowhere" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_campaign_on_a_faulty_spec_prints_its_faults(tmp_path: Path) -> None:
    spec = copy_spec(tmp_path / "rmsnorm-cpu")
    (spec / "spec.yaml").write_text((spec / "spec.yaml").read_text() + "surplus: 1\n")
    done = factory("campaign", spec, "--state", tmp_path / "state")
    assert done.returncode == 2
    assert f"{spec / 'spec.yaml'}:" in done.stderr
    assert "surplus" in done.stderr


def test_a_wrong_option_is_a_usage_error(tmp_path: Path) -> None:
    done = factory("campaign", SPEC, "--state", tmp_path / "state", "--budget-candidates", "0")
    assert done.returncode == 2
    assert "--budget-candidates" in done.stderr


def test_an_empty_notebook_lists_nothing(tmp_path: Path) -> None:
    done = factory("notebook", SPEC, "--state", tmp_path / "state")
    assert (done.returncode, done.stdout) == (0, "")


def test_the_command_starts_without_torch() -> None:
    code = "import sys, bot.cli, bot.campaign.session, bot.campaign.bench, bot.campaign.story; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert done.stdout == "False\n"
