"""Makes the first failing workload small, and says by which command the failure is seen again."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from runner.correctness import Check
from runner.errors import FactoryError
from runner.plan import with_axes
from runner.result import Reproduction
from runner.spec.load import LoadedSpec
from runner.spec.models import VarAxis
from runner.spec.workload import Workload
from runner.verdict import Rejected, Verdict

MAX_TRIES = 40
MAX_SECONDS = 4.0


def reproduce_small(
    loaded: LoadedSpec, workload: Workload, failed: Check, recheck: Callable[[Workload], Check], where: str, seed: int
) -> Reproduction:
    """Shrink the failing workload's `var` axes while it still fails with the same verdict, within bounded tries and time."""
    smallest, shown = workload, failed
    if failed.row.verdict is not Verdict.TIMEOUT:
        smallest, shown = _shrink(loaded, workload, failed, recheck)
    mismatch = shown.mismatch
    return Reproduction(
        workload=workload.name,
        axes=dict(smallest.axes),
        command=command(loaded, workload, smallest, where, seed),
        index=mismatch.index if mismatch is not None else None,
        output=mismatch.output if mismatch is not None else None,
        actual=mismatch.actual if mismatch is not None else None,
        expected=mismatch.expected if mismatch is not None else None,
    )


def command(loaded: LoadedSpec, workload: Workload, smallest: Workload, where: str, seed: int) -> str:
    """The command that shows the failure, with every word quoted for a shell."""
    variable = [name for name, axis in loaded.spec.axes.items() if isinstance(axis, VarAxis)]
    words = ["kernel-runner", "evaluate", shown_path(loaded.folder), "--candidate", where, "--workload", workload.name]
    if any(smallest.axes[name] != workload.axes[name] for name in variable):
        words += ["--axes", ",".join(f"{name}={smallest.axes[name]}" for name in variable)]
    words += ["--seed", str(seed), "--out", "result.json"]
    return " ".join(shlex.quote(word) for word in words)


def shown_path(folder: Path) -> str:
    """A folder as a person in the current folder would write it; only its name where it lies elsewhere."""
    path = os.path.relpath(folder)
    return folder.name if path.startswith("..") else path


def _shrink(loaded: LoadedSpec, workload: Workload, failed: Check, recheck: Callable[[Workload], Check]) -> tuple[Workload, Check]:
    deadline = time.monotonic() + MAX_SECONDS
    tries = 0
    improved = True
    while improved:
        improved = False
        for lengths in _smaller(loaded, workload):
            if tries >= MAX_TRIES or time.monotonic() > deadline:
                return workload, failed
            try:
                candidate = with_axes(loaded, workload, lengths)
            except FactoryError:
                continue
            tries += 1
            try:
                check = recheck(candidate)
            except Rejected:
                continue  # another table row, which is none or fails on its own
            if check.row.verdict is failed.row.verdict:
                workload, failed, improved = candidate, check, True
                break
    return workload, failed


def _smaller(loaded: LoadedSpec, workload: Workload) -> Iterator[dict[str, int]]:
    """Other lengths to try, the boldest first: each axis at its least useful length, then halved, then one less."""
    least = {name: max(1, axis.min) for name, axis in loaded.spec.axes.items() if isinstance(axis, VarAxis)}
    bolder = [dict(least), {name: workload.axes[name] // 2 for name in least}, {name: workload.axes[name] - 1 for name in least}]
    for lengths in bolder:
        for name, length in lengths.items():
            if least[name] <= length < workload.axes[name]:
                yield {name: length}
