"""What a target offers where its machine has tools that watch kernels: checkers that find faults, and a profiler that reads counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch

from runner.candidate import Candidate
from runner.spec.load import LoadedSpec
from runner.spec.workload import Workload
from runner.targets.protocol import Binary


@dataclass(frozen=True)
class Finding:
    """What a tool found in the call on a workload. `certain`: it is wrong whatever the outputs are."""

    tool: str
    workload: str
    message: str
    certain: bool = True

    def __str__(self) -> str:
        return f"{self.workload}: {self.tool}: {self.message}"


@dataclass(frozen=True)
class Launched:
    """The counters of one kernel launch. A number is None where the profiler gave none.

    `seconds`; `bytes_read` and `bytes_written` of device memory; `memory_share` and `compute_share` of the device's peaks, `occupancy` and
    `occupancy_limit` (warps an SM has over those it could have, as it was and at most), `l2_hits`: each from 0 to 1. `limits` are the CTAs
    an SM has room for by resource, `stalls` the cycles that a warp waits for each reason per instruction, `conflicts` shared-memory bank
    conflicts, `sectors` 32-byte sectors a request of global memory (4 bytes a thread: 4; 16 bytes: 16).
    """

    kernel: str
    grid: str
    block: str
    seconds: float | None
    bytes_read: float | None
    bytes_written: float | None
    memory_share: float | None
    compute_share: float | None
    occupancy: float | None
    occupancy_limit: float | None
    l2_hits: float | None
    registers: float | None
    shared_bytes: float | None
    waves: float | None
    limits: Mapping[str, float] = field(default_factory=dict)
    stalls: Mapping[str, float] = field(default_factory=dict)
    conflicts: Mapping[str, float] = field(default_factory=dict)
    sectors: Mapping[str, float] = field(default_factory=dict)

    @property
    def bandwidth(self) -> float | None:
        """Bytes of device memory a second."""
        if not self.seconds or self.bytes_read is None or self.bytes_written is None:
            return None
        return (self.bytes_read + self.bytes_written) / self.seconds


@runtime_checkable
class Instrumented(Protocol):
    """A target that may have such tools."""

    def sanitizers(self) -> Sequence[str]:
        """The checkers of this machine; empty where there are none."""

    def sanitize(
        self, spec: LoadedSpec, candidate: Candidate, runs: Sequence[tuple[Binary, Workload, Mapping[str, torch.Tensor]]]
    ) -> Sequence[Finding]:
        """What the checkers find in one call each on these inputs. Raises `FactoryError` where they are not here, or do not work."""

    def profile(
        self, spec: LoadedSpec, candidate: Candidate, binary: Binary, workload: Workload, inputs: Mapping[str, torch.Tensor]
    ) -> Sequence[Launched]:
        """The counters of each kernel launch of one call. Raises `FactoryError` where there is no profiler, or it does not work."""
