"""Workers that copy a workload's bytes: what the machine can do at best, or nearly, beside a kernel that must move as many."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import torch

from runner.spec.workload import TensorLayout, Workload
from runner.targets.cpu import shim
from runner.targets.cpu.arena import Block
from runner.targets.cpu.compiler import copies_library
from runner.targets.cpu.features import cpu_flags
from runner.targets.cpu.launching import Program, open_worker
from runner.targets.cpu.worker import NativeWorker
from runner.targets.protocol import Inspection, Placement

SOURCE, TARGET = "source", "target"
START_SECONDS = 30.0
_NEEDS = {
    "memcpy": None,
    "memcpy-threads": None,
    "stream-avx2": "avx2",
    "stream-avx2-threads": "avx2",
    "stream-avx512": "avx512f",
    "stream-avx512-threads": "avx512f",
}


@lru_cache(maxsize=1)
def names() -> tuple[str, ...]:
    """The copies that this CPU can run, `memcpy` first."""
    return tuple(name for name, flag in _NEEDS.items() if flag is None or flag in cpu_flags())


class CopyWorker(NativeWorker):
    """A worker whose slots hold a source and a target of half the workload's bytes each. Inputs that it is given are not its concern."""

    def load(self, slot: int, inputs: Mapping[str, torch.Tensor]) -> None:
        """Fill the slot's source, and poison its target."""
        super().load(slot, {SOURCE: _values(self._sets[slot].tensors[SOURCE].numel())})

    def fill(self, slot: int, write: Callable[[Mapping[str, torch.Tensor]], None]) -> None:
        """The same: there is nothing to be written but the source."""
        self.load(slot, {})

    def inspect(self, slot: int, inputs: Mapping[str, torch.Tensor] | None = None) -> Inspection:
        """Outputs are empty; a target that isn't its source is a trespass."""
        found = super().inspect(slot)
        tensors = self._sets[self._current[slot]].tensors
        wrong = () if torch.equal(tensors[SOURCE], tensors[TARGET]) else ("the copy is wrong",)
        return Inspection({}, (*found.trespasses, *wrong))


@lru_cache(maxsize=2)
def _values(count: int) -> torch.Tensor:
    return torch.arange(count, dtype=torch.float32)


def open_copy(name: str, workload: Workload, slots: int) -> CopyWorker:
    """See the Protocol's `Target.open_copy`. Raises `FactoryError` when the copy fails."""
    count = round(workload.bytes / 8)
    blocks = (Block(SOURCE, 4 * count, 64, 0), Block(TARGET, 4 * count, 64, 0))
    program = Program(copies_library(), "kf_" + name.replace("-", "_"), shim.Call(blocks, (), (SOURCE, TARGET, 4 * count)))
    source, target = ({part: TensorLayout(part, "float32", (count,), 0, 64)} for part in (SOURCE, TARGET))
    lost = f"the copy {name}"
    return open_worker(CopyWorker, program, source, target, slots, Placement.SPACED, start_seconds=START_SECONDS, lost=lost)
