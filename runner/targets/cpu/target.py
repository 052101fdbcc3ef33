"""Target `cpu`, as the judge sees it: see `runner.targets.protocol.Target`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from runner import sandbox
from runner.candidate import Candidate
from runner.lock import device_lock
from runner.manifest import KnobValue
from runner.spec.load import LoadedSpec
from runner.spec.workload import Workload
from runner.targets.cpu import build, device, shim
from runner.targets.cpu.arena import CONTROL_BYTES, Arena, layout_size, layout_words, plan
from runner.targets.cpu.compiler import launcher, runtime_libraries
from runner.targets.cpu.flush import flush
from runner.targets.cpu.process import SandboxedProcess
from runner.targets.cpu.worker import NativeWorker
from runner.targets.protocol import Binary, Device, Placement

MEMORY = 4 << 30


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
    program = [
        "/libraries/ld.so",
        "--library-path",
        "/libraries",
        "/launcher",
        str(arena.fd),
        str(arena.plan.size + MEMORY),
        "/kernel.so",
        symbol,
    ]
    environment = worker_environment()
    if placement is not Placement.SPACED:
        # Fresh memory from the allocator is filled, so that kernels which count on zeros are found. Not where time is taken.
        environment["GLIBC_TUNABLES"] = "glibc.malloc.perturb=165"
    return SandboxedProcess(sandbox.View(files), program, environment, arena.fd)


class CpuTarget:
    """Judges on this machine's processors."""

    name = "cpu"

    def device(self) -> Device:
        """See the Protocol."""
        return device.this_device()

    def lock(self) -> AbstractContextManager[None]:
        """See the Protocol."""
        return device_lock(self.device().id)

    def check(self, spec: LoadedSpec, candidate: Candidate) -> tuple[str, ...]:
        """See the Protocol."""
        from runner.targets.cpu import policy

        return policy.check_sources(candidate.files, spec.spec)

    def build(self, spec: LoadedSpec, candidate: Candidate, knobs: Mapping[str, KnobValue]) -> Binary:
        """See the Protocol. A CPU feature that this machine lacks is `Rejected` with `launch_error`, before anything is compiled."""
        sandbox.probe()
        return build.build(spec.spec, candidate, knobs)

    def open_candidate(
        self, binary: Binary, spec: LoadedSpec, candidate: Candidate, workload: Workload, slots: int, placement: Placement
    ) -> NativeWorker:
        """See the Protocol."""
        sandbox.probe()
        build.require_runnable(build.architecture(candidate.manifest.build, binary.knobs))
        arena = make_arena(shim.call_of(candidate.manifest, binary.knobs, workload), slots, placement)
        process = start_launcher(binary.path, shim.ENTRY, arena, placement)
        return NativeWorker(arena, process, workload, flush, start_seconds=spec.spec.policy.run_seconds)
