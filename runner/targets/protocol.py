"""What the judge asks of a target. Nothing above this module may know which target runs.

The life of a worker, as the judge drives it:

    worker = target.open_candidate(binary, workload, slots, placement)
    worker.load(slot, inputs)        # fresh inputs, poisoned outputs, guard bands renewed; the worker stands still
    seconds = worker.run([0, 1, …])  # one call on each slot in that order; the judge's clock; then it stands still again
    worker.inspect(slot)             # what it wrote, and every trespass
    worker.close()

A slot is one full set of a workload's tensors at its own addresses. While a worker stands still no code of the candidate runs
(for a host-code target the process is stopped by a signal), so that another side may be measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from runner.candidate import Candidate
from runner.manifest import KnobValue
from runner.spec.load import LoadedSpec
from runner.spec.models import Baseline
from runner.spec.workload import Workload

if TYPE_CHECKING:  # policy and build do without PyTorch, whose import takes longer than they do
    import torch


@dataclass(frozen=True)
class Device:
    """The machine or GPU that judges. `id` names the lock; peaks are the vendor's, in bytes/s and FLOP/s (never to be beaten)."""

    id: str
    name: str
    cache_bytes: int
    peak_bytes_per_s: float
    peak_cache_bytes_per_s: float
    peak_flops: float
    slot_bytes: int = 768 << 20  # the most memory that one side's slots may take together
    far: float = math.inf  # a baseline whose kept time is so many times that of the fastest is not measured again
    quads: int = 3  # quads of blocks that a full evaluation takes in each process
    most_slots: int = 128  # sets of tensors that one side has at most
    block_seconds: float = 0.0  # how long a block of calls should be at least, so that what surrounds it does not count
    facts: Mapping[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True)
class Binary:
    """A built candidate for one choice of knobs. `facts` are what an agent can use (sizes, instruction counts …)."""

    path: Path
    sha256: str
    knobs: Mapping[str, KnobValue]
    facts: Mapping[str, str | int | float] = field(default_factory=dict)
    log: str = ""


class Placement(StrEnum):
    """Where a slot's tensors lie. `SPACED`: guard bands on both sides. `TIGHT`: each tensor ends (as near as its alignment
    allows) at memory that faults on any access. `TIGHT_START`: each tensor begins right after such memory."""

    SPACED = "spaced"
    TIGHT = "tight"
    TIGHT_START = "tight_start"


@dataclass(frozen=True)
class Inspection:
    """What a call left in a slot: outputs by name (contiguous, where the judge computes, valid until the next `load` or `close`), and
    trespasses such as `input x was modified` or `wrote 4 bytes past the end of y`."""

    outputs: Mapping[str, torch.Tensor]
    trespasses: tuple[str, ...]


@dataclass(frozen=True)
class Configs:
    """Configurations of a baseline that are worth timing, the best first, and how they were found. The empty text is its own choice."""

    texts: tuple[str, ...] = ("",)
    note: str = ""


class Worker(Protocol):
    """A disposable process with one program loaded and `slots` sets of buffers. Errors: `Rejected` with `launch_error`
    (died, with the signal or the system call named), `timeout`, or `policy_violation` (forbidden system call)."""

    slots: int

    def load(self, slot: int, inputs: Mapping[str, torch.Tensor]) -> None:
        """Fill a slot: `inputs` by name (where the judge computes, contiguous, the workload's dtype and shape), outputs poisoned with
        NaN patterns that differ from call to call, guard bands renewed. The tensors given may be kept until `inspect`: they must not
        change before."""

    def fill(self, slot: int, write: Callable[[Mapping[str, torch.Tensor]], None]) -> None:
        """Like `load` without a copy: `write` gets the slot's input tensors by name and stores every value. `inspect` must be told them."""

    def flush(self) -> None:
        """Put every cache into the same cold and clean state (no operand cached, no dirty lines)."""

    def run(self, order: Sequence[int], deadline_s: float) -> float:
        """Call once on each slot of `order`, and return the seconds from before the worker could run to after it was stopped.

        A run may be cut into parts, with the worker standing still between them; the seconds are those of the parts. Who says too
        early that it is done is stopped with unfinished outputs: only what is inspected after a run counts as measured."""

    def probe(self, order: Sequence[int], deadline_s: float) -> None:
        """Like `run`, but not for its time: the worker is stopped once on the way, to see from outside that calls are answered one after
        another. What was seen is among the trespasses that `inspect` tells."""

    def soak(self, order: Sequence[int], deadline_s: float) -> None:
        """Like `run`, but not for its time: a slot may come as often as it likes, and nothing is cleaned up between the calls."""

    def inspect(self, slot: int, inputs: Mapping[str, torch.Tensor] | None = None) -> Inspection:
        """Look at what the last call on the slot left. `inputs` are those that it was filled with; for a loaded slot they are known."""

    def close(self) -> None:
        """End the process and free its memory; safe to call twice."""


class Target(Protocol):
    """One kind of hardware. `name` is the spec's `hardware.target` family (`cpu`, `cuda`)."""

    name: str

    def device(self) -> Device:
        """The device that this process judges on."""

    def lock(self) -> AbstractContextManager[None]:
        """Hold the device for one evaluation: shared by every job on the machine, waits for its turn."""

    def computing(self) -> AbstractContextManager[None]:
        """Where the judge draws inputs and computes right answers meanwhile: torch's default device."""

    def condition(self) -> Mapping[str, str]:
        """How the device is doing right now: clocks, power, temperature; empty where nothing is known."""

    def check(self, spec: LoadedSpec, candidate: Candidate) -> tuple[str, ...]:
        """Policy: what the sources may not contain, as `file:line:column: message`; empty when all is allowed. Runs nothing."""

    def build(self, spec: LoadedSpec, candidate: Candidate, knobs: Mapping[str, KnobValue]) -> Binary:
        """Compile in the sandbox. Raises `Rejected` with `build_error` and the compiler's message, paths made relative."""

    def open_candidate(
        self,
        binary: Binary,
        spec: LoadedSpec,
        candidate: Candidate,
        workload: Workload,
        slots: int,
        placement: Placement,
        *,
        fresh: bool = True,
    ) -> Worker:
        """Start a sandboxed worker with the candidate's binary loaded, in fresh memory. `fresh`: where the candidate's code runs in the
        process itself, in one that ran nothing before; otherwise in one that ran no other candidate."""

    def open_baseline(self, baseline: Baseline, spec: LoadedSpec, workload: Workload, slots: int, config: str = "") -> Worker:
        """Start a fresh worker with a baseline, prepared (compiled, tuned) for this workload. `FactoryError` when it isn't installed.
        `config` is one of those that `baseline_configs` gave; empty: what the baseline chooses by itself."""

    def baseline_configs(self, baseline: Baseline, spec: LoadedSpec, workload: Workload, *, again: bool) -> Configs:
        """What the baseline's `configs` finds worth timing on this workload; kept, unless `again`. Raises like `open_baseline`."""

    def baseline_config(self, baseline: Baseline, spec: LoadedSpec, workload: Workload) -> str:
        """What was chosen for this workload when the baseline was prepared, for the report."""

    def open_copy(self, name: str, workload: Workload, slots: int) -> Worker:
        """Start a worker that copies half of `workload.bytes` by the tuned copy `name`; it reads and writes `workload.bytes` in all."""

    def copies(self) -> Sequence[str]:
        """The names of the tuned copies, `memcpy` first."""
