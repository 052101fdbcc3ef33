"""A target's calls as tools are to watch them: planned as for the launcher, without one being kept."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from runner.candidate import Candidate
from runner.spec.models import Policy
from runner.spec.workload import Workload
from runner.targets.cuda import build, launchers
from runner.targets.cuda.launching import Extent, kernel_names, plan_call
from runner.targets.cuda.process import GpuProcess
from runner.targets.cuda.watching import Watched
from runner.targets.cuda.worker import call_fields
from runner.targets.protocol import Binary

_PROGRAM = ("-m", "runner.targets.cuda.serve")


def watched(
    binary: Binary,
    policy: Policy,
    candidate: Candidate,
    workload: Workload,
    inputs: Mapping[str, torch.Tensor],
    arch: str,
    sm_count: int,
) -> Watched:
    """One call on a workload with these inputs. Raises `Rejected` where it can't be built or planned."""
    names = kernel_names(candidate.manifest, binary.knobs, workload)
    if not set(names) <= set(build.symbols(binary)):
        every = tuple(dict.fromkeys((*build.symbols(binary), *names)))
        binary = build.build(policy, candidate, binary.knobs, every, arch)
    occupancy = _Occupancy(binary, sm_count)
    try:
        call = plan_call(candidate.manifest, binary.knobs, workload, occupancy)
    finally:
        occupancy.close()
    fields = call_fields(call, 0, build.symbols(binary), build.variables(binary))
    return Watched(workload.name, binary.path, call, fields, inputs)


class _Occupancy:
    """What a launch may ask of the device; a launcher is started when something is asked that needs one."""

    def __init__(self, binary: Binary, sm_count: int) -> None:
        self.sm_count = sm_count
        self._binary = binary
        self._process: GpuProcess | None = None
        self._asked: launchers.Occupancy | None = None

    def active_ctas(self, kernel: str, block: Extent, shared: int) -> int:
        """See `runner.targets.cuda.launching.Device`."""
        return self._device().active_ctas(kernel, block, shared)

    def active_clusters(self, kernel: str, block: Extent, cluster: Extent, shared: int) -> int:
        """See `runner.targets.cuda.launching.Device`."""
        return self._device().active_clusters(kernel, block, cluster, shared)

    def _device(self) -> launchers.Occupancy:
        if self._asked is None:
            self._process = GpuProcess(_PROGRAM)
            module = launchers.load(self._process, self._binary, "the kernel")
            self._asked = launchers.Occupancy(self._process, module, build.symbols(self._binary), self.sm_count)
        return self._asked

    def close(self) -> None:
        """End the launcher, if there is one."""
        if self._process is not None:
            self._process.close()
