"""Runs the driver's children, and reads what they left."""

from __future__ import annotations

import functools
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formula import write_spec

from bot.evidence.experiment import Experiment
from bot.evidence.notebook import Notebook
from runner.candidate import read_candidate
from runner.spec.load import load_spec

DRIVER = Path(__file__).with_name("driver.py")
SPEC_ID = "double-formula"
KILLED = -9


@functools.cache
def driver() -> subprocess.Popen[str]:
    """The driver of this test process; it ends when its standard input does."""
    return subprocess.Popen([sys.executable, str(DRIVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)


@dataclass(frozen=True)
class Field:
    """A folder with a spec and a state folder, and the campaigns run there."""

    root: Path

    @property
    def spec(self) -> Path:
        return self.root / SPEC_ID

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def unfinished(self) -> bool:
        """Whether a campaign was begun and not reported."""
        return (self.state / "campaigns" / SPEC_ID / "current.json").exists()

    def run(self, **asked: Any) -> int:
        """Run one command; returns its exit status. A defect is an `AssertionError` with what the command said."""
        paths = {"spec": self.spec, "state": self.state, "json": self.root / "out.json", "output": self.root / "output"}
        line = json.dumps({name: str(path) for name, path in paths.items()} | asked)
        process = driver()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line + "\n")
        status = int(process.stdout.readline())
        if status not in (0, 2, KILLED):
            raise AssertionError(f"the command ended with {status}:\n{self.output()}")
        return status

    def output(self) -> str:
        """What the last command said."""
        return (self.root / "output").read_text()

    def summary(self) -> dict[str, Any]:
        """The summary, without what differs from run to run: the time and the folder."""
        summary: dict[str, Any] = json.loads((self.root / "out.json").read_text())
        del summary["seconds"]
        summary["files"] = [str(Path(file).relative_to(self.spec)) for file in summary["files"]]
        return summary

    def experiments(self) -> list[Experiment]:
        """Every experiment in the notebook."""
        with Notebook(self.state / "notebook.sqlite") as notebook:
            return notebook.experiments(SPEC_ID)

    def kernel_tree(self) -> str:
        """The tree of the kernel in the working tree."""
        return read_candidate(self.spec / "kernel", load_spec(self.spec).spec.policy).tree


def field(root: Path, **spec: Any) -> Field:
    """A new field with the formula's spec."""
    made = Field(root)
    write_spec(made.spec, **spec)
    return made


def without_time(experiments: Sequence[Experiment]) -> list[Experiment]:
    """Experiments without the moment at which they were recorded."""
    return [experiment.model_copy(update={"created": ""}) for experiment in experiments]


def dealt(events: Sequence[str], points: Sequence[str], seeds: int, seed: int, kills: int) -> list[str]:
    """Those of the shuffled `points` at which a seed's processes die, one each, in the order of an undisturbed campaign's `events`.

    An event is `<what>#<n>`, and each process counts its own: what the one before has committed is not done again, so a later kill's
    number is brought down by what was done by then.
    """
    shuffled = list(points)
    random.Random(2026).shuffle(shuffled)
    renamed: list[str] = []
    done: Counter[str] = Counter()
    for point in sorted(shuffled[seed::seeds][:kills], key=events.index):
        name, number = point.rsplit("#", 1)
        what = name.removeprefix("before ").removeprefix("after ")
        renamed.append(f"{name}#{max(int(number) - done[what], 1)}")
        passed = events[: events.index(point) + 1]
        done = Counter(event.rsplit("#", 1)[0].removeprefix("after ") for event in passed if event.startswith("after "))
    return renamed
