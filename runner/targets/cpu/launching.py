"""Starts the launcher in its sandbox, over a fresh arena, with one library: a candidate, a captured baseline, or the copies."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from runner import sandbox
from runner.spec.workload import TensorLayout
from runner.targets.cpu import shim
from runner.targets.cpu.arena import CONTROL_BYTES, Arena, layout_size, plan
from runner.targets.cpu.compiler import launcher, runtime_libraries
from runner.targets.cpu.process import JUDGE_FD, SandboxedProcess
from runner.targets.cpu.worker import NativeWorker
from runner.targets.protocol import Placement

MEMORY = 4 << 30
"""Bytes of address space that a worker has beyond its arena."""
TWIN_BYTES = 320 << 20
MOST_TWINS = 5
FEWEST_SLOTS = 8


def twins(call: shim.Call, slots: int, placement: Placement) -> int:
    """How many sets of buffers stand behind each slot, one of which is drawn whenever it is loaded.

    Where many calls are timed together a candidate must not know the addresses of the calls to come from those that were: a thread that
    works ahead, or fetches ahead, then does so mostly in vain, or is seen. Where there are few slots, each keeps its addresses, so
    that answers kept by address are found out.
    """
    if placement is not Placement.SPACED or slots < FEWEST_SLOTS:
        return 1
    size = max(1, slots * sum(block.size for block in call.blocks))
    return max(1, min(MOST_TWINS, TWIN_BYTES // size))


def make_arena(call: shim.Call, sets: int, placement: Placement) -> Arena:
    """An arena with `sets` sets of places for a call's blocks."""
    segments = sets if placement is Placement.SPACED else sets * len(call.blocks)
    return Arena(plan(call.blocks, sets, placement, CONTROL_BYTES + layout_size(segments)))


def worker_environment() -> dict[str, str]:
    """What every worker's process is told, candidate or baseline: the number of threads that parallel code starts."""
    return {"OMP_NUM_THREADS": str(len(os.sched_getaffinity(0)))}


@dataclass(frozen=True)
class Program:
    """A library that the launcher is to serve: the symbol with the signature of `kf_call`, and how it is called."""

    library: Path
    symbol: str
    call: shim.Call


Kind = TypeVar("Kind", bound=NativeWorker)


def open_worker(
    kind: type[Kind],
    program: Program,
    inputs: Mapping[str, TensorLayout],
    outputs: Mapping[str, TensorLayout],
    slots: int,
    placement: Placement,
    *,
    start_seconds: float,
    lost: str | None = None,
) -> Kind:
    """Start the launcher in its sandbox and a worker over it: no network, no file but the loader's, nothing writable."""
    call = program.call
    arena = make_arena(call, slots * twins(call, slots, placement), placement)
    try:
        process = _start(program, arena, placement)
    except BaseException:
        arena.close(again=False)
        raise
    return kind(
        arena,
        process,
        inputs,
        outputs,
        lambda ready: shim.rows_of(call, ready),
        slots=slots,
        zeros=len(call.zeroed),
        start_seconds=start_seconds,
        lost=lost,
    )


def _start(program: Program, arena: Arena, placement: Placement) -> SandboxedProcess:
    files = {"/launcher": launcher(), "/kernel.so": program.library}
    files.update({f"/libraries/{name}": path for name, path in runtime_libraries().items()})
    line = ["/libraries/ld.so", "--library-path", "/libraries", "/launcher"]
    line += [str(arena.fd), JUDGE_FD, str(arena.plan.size + MEMORY), "/kernel.so", program.symbol]
    environment = worker_environment()
    if placement is not Placement.SPACED:
        # Fresh memory from the allocator is filled, so that kernels which count on zeros are found. Not where time is taken.
        environment["GLIBC_TUNABLES"] = "glibc.malloc.perturb=165"
    return SandboxedProcess(sandbox.View(files), line, environment, arena.fd)
