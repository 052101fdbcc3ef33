"""What takes part in an evaluation: a candidate or a baseline, built and ready to be opened for any workload.

A baseline can stand where a candidate stands and the other way round, through the same code: that is how the clock's fairness is shown.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

from runner.candidate import Candidate
from runner.errors import FactoryError
from runner.manifest import KnobValue, choose_row, row_knobs, scope
from runner.result import Fact
from runner.spec.load import LoadedSpec
from runner.spec.models import Baseline
from runner.spec.workload import Workload
from runner.targets.protocol import Binary, Placement, Target, Worker
from runner.verdict import Rejected, Verdict

Subject = Candidate | Baseline
SPARED_CORES = 3
"""Processor cores that builds leave to others."""


@dataclass(frozen=True)
class Contestant:
    """A subject that may run. `knobs`, `binaries` and `facts` are those of its table rows, in order; a baseline has none."""

    name: str
    tree: str
    open: Callable[[Workload, int, Placement], Worker]
    reopen: Callable[[Workload, int, Placement], Worker]  # the same, but perhaps in a process that ran something before
    config: Callable[[Workload], str]
    placements: tuple[Placement, ...] = tuple(Placement)
    knobs: tuple[dict[str, KnobValue], ...] = ()
    binaries: tuple[str, ...] = ()
    facts: Mapping[str, Fact] = field(default_factory=dict)

    def called(self, name: str) -> Contestant:
        """The same contestant under another name."""
        return replace(self, name=name)


def tree_of(subject: Subject) -> str:
    """The git tree of a candidate; `baseline:NAME` for a baseline."""
    return subject.tree if isinstance(subject, Candidate) else f"baseline:{subject.name}"


def rows_of(candidate: Candidate) -> int:
    """How many table rows there are to build; one, the implicit, where there are neither knobs nor a table."""
    return max(1, len(candidate.manifest.table))


def check_policy(target: Target, loaded: LoadedSpec, subject: Subject) -> None:
    """Raises `Rejected` with every fault of the policy."""
    if not isinstance(subject, Candidate):
        return
    if subject.manifest.knobs and not subject.manifest.table:
        raise Rejected(Verdict.POLICY_VIOLATION, "launch.yaml has knobs but no table: it can be tuned, not judged")
    faults = target.check(loaded, subject)
    if faults:
        raise Rejected(Verdict.POLICY_VIOLATION, "\n".join(faults))


def prepare(target: Target, loaded: LoadedSpec, subject: Subject, on_row: Callable[[int, int], None]) -> Contestant:
    """Build every table row (`on_row` hears which of how many). Raises `Rejected` with `build_error`."""
    if not isinstance(subject, Candidate):
        return prepare_baseline(target, loaded, subject)
    built = _build_rows(target, loaded, subject, on_row)
    count = len(built)

    def row(workload: Workload) -> int:
        return row_for(subject, workload)

    def open_(workload: Workload, slots: int, placement: Placement, fresh: bool = True) -> Worker:
        return target.open_candidate(built[row(workload)], loaded, subject, workload, slots, placement, fresh=fresh)

    def config(workload: Workload) -> str:
        return ", ".join(f"{name}={value}" for name, value in built[row(workload)].knobs.items())

    facts = {f"row {index} {name}" if count > 1 else name: value for index, one in enumerate(built) for name, value in one.facts.items()}
    return Contestant(
        name="candidate",
        tree=subject.tree,
        open=open_,
        reopen=partial(open_, fresh=False),
        config=config,
        knobs=tuple(dict(one.knobs) for one in built),
        binaries=tuple(one.sha256 for one in built),
        facts=facts,
    )


def _build_rows(target: Target, loaded: LoadedSpec, candidate: Candidate, on_row: Callable[[int, int], None]) -> list[Binary]:
    """A binary for each table row: side by side where the machine has cores to spare. Raises what the first row that fails raises."""
    count = rows_of(candidate)
    with ThreadPoolExecutor(max(1, min(count, (os.cpu_count() or 1) - SPARED_CORES))) as pool:
        rows = [pool.submit(target.build, loaded, candidate, row_knobs(candidate.manifest, index)) for index in range(count)]
        try:
            built = []
            for index, row in enumerate(rows):
                on_row(index, count)
                built.append(row.result())
            return built
        finally:
            for row in rows:
                row.cancel()


def prepare_baseline(target: Target, loaded: LoadedSpec, baseline: Baseline, chosen: str = "") -> Contestant:
    """A baseline as a contestant, with the configuration `chosen` of it. It has one placement; preparing happens per workload, when it
    is opened."""

    def open_(workload: Workload, slots: int, placement: Placement) -> Worker:
        return target.open_baseline(baseline, loaded, workload, slots, chosen)

    def config(workload: Workload) -> str:
        return target.baseline_config(baseline, loaded, workload)

    return Contestant(baseline.name, tree_of(baseline), open_, open_, config, placements=(Placement.SPACED,))


def row_for(candidate: Candidate, workload: Workload) -> int:
    """The table row that a workload selects. Raises `Rejected` where none does."""
    try:
        return choose_row(candidate.manifest, workload.axes, *scope(workload))
    except FactoryError as error:
        raise Rejected(Verdict.POLICY_VIOLATION, f"launch.yaml: {error}") from error
