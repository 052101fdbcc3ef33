"""evaluate.yml: what it may do, and that the linters of workflows find nothing in it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.campaign.dispatched import RUN_NAME

WORKFLOWS = Path(__file__).parents[3] / ".github" / "workflows"
EVALUATE = WORKFLOWS / "evaluate.yml"


@pytest.fixture(scope="module")
def workflow() -> dict[Any, Any]:
    loaded: dict[Any, Any] = yaml.safe_load(EVALUATE.read_text())
    return loaded


def test_it_is_only_ever_dispatched(workflow: dict[Any, Any]) -> None:
    # YAML 1.1 reads the key `on` as true.
    assert list(workflow[True]) == ["workflow_dispatch"]


def test_a_run_is_known_by_its_request(workflow: dict[Any, Any]) -> None:
    assert workflow["run-name"] == RUN_NAME.format(ref="${{ inputs.request }}")


def test_it_reads_and_nothing_else(workflow: dict[Any, Any]) -> None:
    assert workflow["permissions"] == {}
    assert [job["permissions"] for job in workflow["jobs"].values()] == [{"contents": "read"}]
    assert "secrets" not in EVALUATE.read_text()


def test_every_action_is_pinned_and_no_credentials_stay_behind(workflow: dict[Any, Any]) -> None:
    steps = [step for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step]
    assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", step["uses"]) for step in steps)
    checkouts = [step["with"] for step in steps if step["uses"].startswith("actions/checkout@")]
    assert [step["persist-credentials"] for step in checkouts] == [False, False]


def test_no_input_is_pasted_into_a_command(workflow: dict[Any, Any]) -> None:
    commands = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    assert commands
    assert not any("${{" in command for command in commands)


@pytest.mark.parametrize(
    "words", [["zizmor", "--offline", "--no-progress"], ["actionlint", "-shellcheck=", "-pyflakes="]], ids=lambda words: words[0]
)
def test_linters_find_nothing(words: list[str]) -> None:
    tool = shutil.which(words[0], path=str(Path(sys.executable).parent)) or shutil.which(words[0])
    if tool is None:
        pytest.skip(f"{words[0]} is not installed")
    done = subprocess.run([tool, *words[1:], *map(str, sorted(WORKFLOWS.glob("*.yml")))], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
