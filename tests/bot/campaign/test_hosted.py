"""Campaigns on a forge, on the formula: begun by a commit, shown as pull requests, approved by people, merged or not."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from formula import write_spec
from small_forge import MAIN, SmallForge, files_of

DRIVER = Path(__file__).with_name("hosted_driver.py")
SPEC_ID = "double-formula"
FOLDER = f"kernel-specs/{SPEC_ID}"


@functools.cache
def driver() -> subprocess.Popen[str]:
    """The driver of this test process; it ends when its standard input does."""
    return subprocess.Popen([sys.executable, str(DRIVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)


@dataclass(frozen=True)
class Yard:
    """A small forge, and the state of the bot that serves it."""

    root: Path

    @property
    def forge(self) -> SmallForge:
        return SmallForge(self.root / "forge")

    def begin(self, until: int = 1, **asked: Any) -> None:
        """Let the bot serve until so many campaigns have ended."""
        words = {"forge": self.root / "forge", "state": self.root / "state", "output": self.root / "output"}
        process = driver()
        assert process.stdin is not None
        process.stdin.write(json.dumps({name: str(path) for name, path in words.items()} | {"until": until} | asked) + "\n")

    def ended(self) -> int:
        """Wait for the bot's process; its exit status."""
        process = driver()
        assert process.stdout is not None
        return int(process.stdout.readline())

    def run(self, until: int = 1, **asked: Any) -> list[dict[str, Any]]:
        """Serve, and return the campaigns as the bot tells them."""
        self.begin(until, **asked)
        assert self.ended() == 0, (self.root / "output").read_text()
        told: list[dict[str, Any]] = json.loads((self.root / "output").read_text().splitlines()[-1])
        return told

    def commit_spec(self, approval: str = "required", **spec: Any) -> None:
        """A person commits the formula's spec."""
        folder = write_spec(self.root / "spec", rounds=2, candidates=20, **spec)
        path = folder / "spec.yaml"
        path.write_text(path.read_text().replace("approval: none", f"approval: {approval}"))
        self.forge.commit(files_of(folder, FOLDER), "Add a spec")


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    made = Yard(tmp_path)
    (tmp_path / "forge").mkdir()
    made.forge.commit({"README.md": b"Kernels\n"}, "Begin")
    return made


def test_a_committed_spec_ends_in_a_merge_of_exactly_the_judged_kernel(yard: Yard) -> None:
    yard.commit_spec(approval="none")
    (told,) = yard.run()
    summary, forge = told["summary"], yard.forge
    assert summary["status"] == "accepted", summary["reason"]
    assert summary["merged"] == forge.head(MAIN)
    assert summary["merged_kernel_tree"] == summary["winner"]["kernel_tree"]
    assert forge.clone.git("rev-parse", f"{MAIN}:{FOLDER}/kernel") == summary["winner"]["kernel_tree"]
    assert {pull["agent"] for pull in summary["pull_requests"]} == {"tpe", "local"}
    assert not forge.pull_requests("open")
    (check,) = [one for name, one in forge.checks(summary["winner"]["sha"]).items() if name.startswith("double")]
    assert check["conclusion"] == "success"
