"""The launcher's own device code: the sweep that empties caches, and the tuned copies. Built and launched like a candidate's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

import torch

from runner.candidate import Candidate, read_candidate
from runner.manifest import choose_row, row_knobs, scope
from runner.spec.models import Init, Policy
from runner.spec.workload import TensorLayout, Workload
from runner.targets.cuda import build
from runner.targets.cuda.launching import Call, Nominal, plan_call
from runner.targets.cuda.worker import GpuWorker
from runner.targets.protocol import Binary, Inspection

FOLDER = Path(__file__).parent / "native"
SWEEP, SCRUB = "sweep", "scrub"
COPIES = ("streaming", "plain", "persistent")
SOURCE, TARGET = "source", "target"


@lru_cache(maxsize=1)
def _candidate() -> Candidate:
    return read_candidate(FOLDER, Policy())


@lru_cache(maxsize=4)
def binary(arch: str) -> Binary:
    """The built kernels. Raises `Rejected` or `FactoryError` where they can't be built."""
    names = (SWEEP, SCRUB, *(f"copy_{name}" for name in COPIES))
    return build.build(Policy(), _candidate(), {}, names, arch)


def copy_workload(name: str, size: float) -> Workload:
    """A copy of `size` bytes, read and written together."""
    count = round(size / 2) // 16 * 16
    layouts = {part: TensorLayout(part, "float32", (count // 4,), 0, 128) for part in (SOURCE, TARGET)}
    return Workload(
        name=f"copy {name}",
        kind="public",
        axes={"count": count, "kind": COPIES.index(name)},
        scalars={},
        inputs={SOURCE: layouts[SOURCE]},
        outputs={TARGET: layouts[TARGET]},
        init={SOURCE: Init()},
        bytes=2.0 * count,
        flops=0.0,
    )


def copy_call(workload: Workload) -> Call:
    """The call that makes a copy."""
    manifest = _candidate().manifest
    knobs = row_knobs(manifest, choose_row(manifest, workload.axes, *scope(workload)))
    return plan_call(manifest, knobs, workload, Nominal())


class CopyWorker(GpuWorker):
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
        tensors = self._sets[slot].tensors
        wrong = () if torch.equal(tensors[SOURCE], tensors[TARGET]) else ("the copy is wrong",)
        return Inspection({}, (*found.trespasses, *wrong))


@lru_cache(maxsize=2)
def _values(count: int) -> torch.Tensor:
    return torch.arange(count, dtype=torch.float32, device="cuda")
