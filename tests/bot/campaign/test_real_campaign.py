"""A campaign that really builds, checks and measures: interrupted by Ctrl-C, run again, won, and reproduced."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from real import write_real_spec

from bot.campaign.processes import descendants
from runner.result import load_result

REPOSITORY = Path(__file__).parents[3]


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "bot.cli", *map(str, words)]


def wait_for_worker(process: subprocess.Popen[str]) -> set[int]:
    """The descendants of a command, once it has a sandboxed process."""
    for _ in range(1200):
        assert process.poll() is None, "the command ended before it judged anything"
        below = descendants(process.pid)
        if any("bwrap" in _name(one) for one in below):
            return below
        time.sleep(0.05)
    raise AssertionError("no sandboxed process was seen")


def _name(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text()
    except OSError:
        return ""


def _alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def git_tree(folder: Path, repository: Path) -> str:
    """The tree of a folder as git itself sees it."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True).stdout.strip()

    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    git("add", "-A", ".")
    return git("write-tree", f"--prefix={folder.relative_to(repository)}/")


@pytest.mark.measures
def test_a_real_campaign_is_interrupted_continued_won_and_reproduced(tmp_path: Path) -> None:
    spec = write_real_spec(tmp_path / "repository/kernel-specs/gate-cpu")
    home = tmp_path / "home"
    home.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(REPOSITORY)}
    words = command("campaign", spec, "--state", tmp_path / "state", "--json", tmp_path / "out.json")

    # As a terminal starts it, whatever started these tests: in the background of a script SIGINT is ignored.
    begun = subprocess.Popen(
        words,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    below = wait_for_worker(begun)
    begun.send_signal(signal.SIGINT)
    _, told = begun.communicate(timeout=60)
    assert begun.returncode == 130, told
    assert "continues when the command is run again" in told
    assert not (tmp_path / "out.json").exists()
    for _ in range(100):
        if not any(map(_alive, below)):
            break
        time.sleep(0.05)
    assert not any(map(_alive, below)), "a process was left behind"

    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "out.json").read_text())
    assert summary["status"] == "accepted", summary["reason"]
    assert summary["evaluations"] <= 6
    tree = summary["winner"]["kernel_tree"]
    assert git_tree(spec / "kernel", tmp_path / "repository") == tree
    (result,) = (spec / "results").glob("*.json")
    assert load_result(result).identity.kernel_tree == tree

    again = subprocess.run(
        [sys.executable, "-m", "runner.cli", "reproduce", str(result)],
        env={**environment, "KERNEL_FACTORY_STATE": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 0, again.stdout + again.stderr
