"""Starts the launcher in its sandbox, over a fresh arena, with one library: a candidate, a captured baseline, or the copies."""

from __future__ import annotations

import os
from pathlib import Path

from runner import sandbox
from runner.targets.cpu import shim
from runner.targets.cpu.arena import CONTROL_BYTES, Arena, layout_size, layout_words, plan
from runner.targets.cpu.compiler import launcher, runtime_libraries
from runner.targets.cpu.process import JUDGE_FD, SandboxedProcess
from runner.targets.protocol import Placement

MEMORY = 4 << 30
"""Bytes of address space that a worker has beyond its arena."""


def make_arena(call: shim.Call, slots: int, placement: Placement) -> Arena:
    """An arena with `slots` places for a call's blocks, and the layout from which the worker takes its arguments."""
    segments = 1 if placement is Placement.SPACED else slots * len(call.blocks)
    start = CONTROL_BYTES + layout_size(segments, len(call.arguments), len(call.zeroed), slots)
    places = plan(call.blocks, slots, placement, start)
    arguments = [[slot[value].start if isinstance(value, str) else value or 0 for value in call.arguments] for slot in places.slots]
    zeros = [[(slot[name].start, slot[name].size) for name in call.zeroed] for slot in places.slots]
    is_offset = [isinstance(value, str) for value in call.arguments]
    return Arena(places, layout_words(places.segments, is_offset, arguments, zeros, places.size))


def worker_environment() -> dict[str, str]:
    """What every worker's process is told, candidate or baseline: the number of threads that parallel code starts."""
    return {"OMP_NUM_THREADS": str(len(os.sched_getaffinity(0)))}


def start_launcher(library: Path, symbol: str, arena: Arena, placement: Placement) -> SandboxedProcess:
    """Start the launcher in its sandbox with one library: no network, no file but the loader's, nothing writable."""
    files = {"/launcher": launcher(), "/kernel.so": library}
    files.update({f"/libraries/{name}": path for name, path in runtime_libraries().items()})
    program = ["/libraries/ld.so", "--library-path", "/libraries", "/launcher"]
    program += [str(arena.fd), JUDGE_FD, str(arena.plan.size + MEMORY), "/kernel.so", symbol]
    environment = worker_environment()
    if placement is not Placement.SPACED:
        # Fresh memory from the allocator is filled, so that kernels which count on zeros are found. Not where time is taken.
        environment["GLIBC_TUNABLES"] = "glibc.malloc.perturb=165"
    try:
        return SandboxedProcess(sandbox.View(files), program, environment, arena.fd)
    except BaseException:
        arena.close(again=False)
        raise
