"""Has the machine's own checking tools look at a kernel: on the smallest workloads that reach each row of its table.

An access outside of what the kernel was given makes it `incorrect`. Races in shared memory, and reads of memory that nobody wrote, are
told and decide nothing: they show in wrong outputs, which the judge looks for by repeated calls and by poison.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from runner.candidate import Candidate
from runner.contestant import check_policy, row_for
from runner.errors import FactoryError
from runner.inputs import derive, draw_inputs
from runner.manifest import row_knobs
from runner.spec import workloads
from runner.spec.load import LoadedSpec
from runner.spec.workload import Workload
from runner.targets.instruments import Finding, Instrumented
from runner.targets.protocol import Binary, Target
from runner.verdict import Rejected, Verdict

MAX_CALLS = 8
MAX_ELEMENTS = 1 << 18
MAX_SHOWN = 3


@dataclass(frozen=True)
class Sanitized:
    """The workloads that were looked at, and what was found."""

    workloads: tuple[str, ...]
    findings: tuple[Finding, ...]

    def summary(self, tools: Sequence[str]) -> str:
        """One line for a result's environment: what looked at how much, and the notes that decide nothing."""
        notes = [str(one) for one in self.findings if not one.certain]
        shown = "; ".join(notes[:MAX_SHOWN]) + (f"; and {len(notes) - MAX_SHOWN} more" if len(notes) > MAX_SHOWN else "")
        return f"{', '.join(tools)} on {len(self.workloads)} small workloads" + (f"; noted: {shown}" if notes else "")

    def wrong(self) -> Rejected | None:
        """The rejection that follows, if any does."""
        certain = [str(one) for one in self.findings if one.certain]
        if not certain:
            return None
        more = [f"and {len(certain) - MAX_SHOWN} more"] if len(certain) > MAX_SHOWN else []
        return Rejected(Verdict.INCORRECT, "\n".join([*certain[:MAX_SHOWN], *more]))


def tools_of(target: Target) -> Sequence[str]:
    """The checking tools of the target's machine; empty where there are none."""
    return target.sanitizers() if isinstance(target, Instrumented) else ()


def smallest(loaded: LoadedSpec, candidate: Candidate, seed: int) -> list[Workload]:
    """For each row of the table in use its largest workload of few elements (tools slow a kernel down a hundredfold), the most used first.

    A row that only large workloads reach has none: the tools' time is bounded.
    """
    few = [
        workload
        for workload in (*workloads.public(loaded.spec), *workloads.edge(loaded.spec), *workloads.hidden(loaded.spec, seed))
        if all(one.numel <= MAX_ELEMENTS for one in (*workload.inputs.values(), *workload.outputs.values()))
    ]
    rows: dict[int, list[Workload]] = {}
    for workload in few:
        rows.setdefault(row_for(candidate, workload), []).append(workload)
    chosen = [max(reached, key=lambda one: one.bytes) for reached in rows.values()]
    # Then those that differ in what is there, in dtype or in alignment, since each takes another way through a kernel.
    kinds = {_kind(workload) for workload in chosen}
    for workload in sorted(few, key=lambda one: -one.bytes):
        if _kind(workload) not in kinds and len(chosen) < MAX_CALLS:
            kinds.add(_kind(workload))
            chosen.append(workload)
    return chosen[:MAX_CALLS]


def _kind(workload: Workload) -> tuple[object, ...]:
    layouts = (*workload.inputs.values(), *workload.outputs.values())
    return tuple((one.name, one.dtype, one.offset != 0) for one in layouts)


def sanitize(target: Target, loaded: LoadedSpec, candidate: Candidate, seed: int, chosen: Sequence[Workload] = ()) -> Sanitized:
    """Build the candidate and have the target's tools look at it on these workloads, or on the smallest.

    Raises `Rejected` for policy and build, `FactoryError` where the target has no such tools or they do not work.
    """
    if not isinstance(target, Instrumented):
        raise FactoryError(f"{loaded.spec.id}: there are no checking tools for the target {target.name}; they are for GPUs")
    check_policy(target, loaded, candidate)
    runs: list[tuple[Binary, Workload, Mapping[str, torch.Tensor]]] = []
    for workload in chosen or smallest(loaded, candidate, seed):
        binary = target.build(loaded, candidate, row_knobs(candidate.manifest, row_for(candidate, workload)))
        runs.append((binary, workload, draw_inputs(workload, derive(seed, "sanitize", workload.name))))
    findings = target.sanitize(loaded, candidate, runs) if runs else ()
    return Sanitized(tuple(workload.name for _, workload, _ in runs), tuple(findings))


def sanitize_named(target: Target, loaded: LoadedSpec, candidate: Candidate, names: Sequence[str]) -> Sanitized:
    """`sanitize` on workloads by name, holding the target's lock. Raises `FactoryError` for one that there is not."""
    every = {one.name: one for one in (*workloads.public(loaded.spec), *workloads.edge(loaded.spec))}
    unknown = [name for name in names if name not in every]
    if unknown:
        raise FactoryError(f"no workload is called {', '.join(map(repr, unknown))}; there are {', '.join(every)}")
    with target.lock(), target.computing():
        return sanitize(target, loaded, candidate, secrets.randbits(62), [every[name] for name in names])
