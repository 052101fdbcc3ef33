"""Which workloads an evaluation checks and times: by tier, by what was asked for, and so that hidden ones reach every table row in use."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from runner.candidate import Candidate
from runner.contestant import Subject, row_for
from runner.errors import FactoryError
from runner.inputs import derive
from runner.spec import workloads
from runner.spec.load import LoadedSpec
from runner.spec.models import VarAxis, WorkloadSpec
from runner.spec.workload import Workload

Tier = Literal["screening", "full"]
SCREENING_EDGES = 3
SCREENING_EDGE_BYTES = 1 << 20
TRIES = 200


@dataclass(frozen=True)
class Plan:
    """`checked` in the order in which they are checked (cheap ones first, so that a wrong kernel is known early); `timed` in the spec's."""

    checked: tuple[Workload, ...]
    timed: tuple[Workload, ...]


def make_plan(loaded: LoadedSpec, subject: Subject, tier: Tier, seed: int, selection: Sequence[str], axes: Mapping[str, int]) -> Plan:
    """The plan of one evaluation. Raises `FactoryError` for a workload that does not exist, `Rejected` for a table without its row."""
    spec = loaded.spec
    if selection or axes:
        return _selected(loaded, subject, seed, selection, axes)
    if tier == "screening":
        timed = workloads.screening(spec)
        small = [workload for workload in workloads.edge(spec) if workload.bytes <= SCREENING_EDGE_BYTES]
        edges = random.Random(derive(seed, "edges")).sample(small, min(SCREENING_EDGES, len(small)))
        return Plan(_cheap_first([*edges, *timed]), timed)
    public = workloads.public(spec)
    hidden = (*workloads.hidden(spec, seed), *cover_rows(loaded, subject, public, workloads.hidden(spec, seed), seed))
    return Plan(_cheap_first([*public, *workloads.edge(spec), *hidden]), public)


def with_axes(loaded: LoadedSpec, workload: Workload, axes: Mapping[str, int]) -> Workload:
    """The workload with other lengths of its `var` axes. Raises `FactoryError` where they or the spec's constraints don't allow it."""
    spec = loaded.spec
    lengths = {name: workload.axes[name] for name, axis in spec.axes.items() if isinstance(axis, VarAxis)} | dict(axes)
    offset = {name: layout.offset for name, layout in (*workload.inputs.items(), *workload.outputs.items()) if layout.offset}
    absent = tuple(name for name in (*spec.inputs, *spec.outputs) if name not in workload.inputs and name not in workload.outputs)
    written = WorkloadSpec.model_construct(
        name=workload.name, axes=lengths, init=dict(workload.init), offset=offset, dtype=dict(workload.dtypes), absent=absent
    )
    changed = workloads.build(spec, workload.kind, written, workload.name)
    for constraint in spec.constraints:
        if not workloads.holds(constraint, changed.axes, spec.scalars):
            raise FactoryError(f"{', '.join(f'{name}={length}' for name, length in lengths.items())} does not satisfy `{constraint}`")
    return changed


def cover_rows(
    loaded: LoadedSpec, subject: Subject, public: Sequence[Workload], hidden: Sequence[Workload], seed: int
) -> tuple[Workload, ...]:
    """A further hidden workload for each table row that a public workload selects and no hidden one does.

    It has lengths near a public one's, and the same lengths where the row holds for nothing else.
    """
    if not isinstance(subject, Candidate):
        return ()
    chosen = {workload.name: row_for(subject, workload) for workload in public}
    reached = {row_for(subject, workload) for workload in hidden}
    more = []
    for row in sorted(set(chosen.values()) - reached):
        like = min((workload for workload in public if chosen[workload.name] == row), key=lambda workload: workload.bytes)
        more.append(_near(loaded, subject, like, row, random.Random(derive(seed, "row", row))))
    return tuple(more)


def _near(loaded: LoadedSpec, candidate: Candidate, like: Workload, row: int, chooser: random.Random) -> Workload:
    hidden = Workload(**{**like.__dict__, "name": f"hidden-row-{row}", "kind": "hidden"})
    variable = [name for name, axis in loaded.spec.axes.items() if isinstance(axis, VarAxis)]
    for attempt in range(TRIES):
        # First well away and smaller, then ever closer, on either side.
        reach = 0.6 * (1 - attempt / TRIES)
        low, high = (1 - reach, 1.0) if attempt < TRIES // 2 else (1 - reach, 1 + reach)
        lengths = {name: round(like.axes[name] * chooser.uniform(low, high)) for name in variable}
        if all(lengths[name] == like.axes[name] for name in variable):
            continue
        try:
            near = with_axes(loaded, hidden, lengths)
        except FactoryError:
            continue
        if row_for(candidate, near) == row and any(layout.numel for layout in near.outputs.values()):
            return near
    return hidden


def _selected(loaded: LoadedSpec, subject: Subject, seed: int, selection: Sequence[str], axes: Mapping[str, int]) -> Plan:
    public, hidden = workloads.public(loaded.spec), workloads.hidden(loaded.spec, seed)
    every = {one.name: one for one in (*public, *workloads.edge(loaded.spec), *hidden, *cover_rows(loaded, subject, public, hidden, seed))}
    unknown = [name for name in selection if name not in every]
    if unknown:
        raise FactoryError(f"no workload is called {', '.join(map(repr, unknown))}; there are {', '.join(every)}")
    chosen = [every[name] for name in selection] or [public[0]]
    if axes:
        chosen = [with_axes(loaded, workload, axes) for workload in chosen]
    return Plan(tuple(chosen), tuple(workload for workload in chosen if workload.kind == "public"))


def _cheap_first(chosen: Sequence[Workload]) -> tuple[Workload, ...]:
    return tuple(sorted(chosen, key=lambda workload: workload.bytes))
