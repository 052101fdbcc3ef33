"""Checks a candidate on one workload against the oracle: fresh workers, several placements, slots and calls, every element.

What each part is for: buffers beside faulting memory and guard bands (trespasses); two slots in one run (a call answered by
another); the same slot again with one element changed (answers kept by address, shape or fingerprint); the same slot twice in one
run (state that a call leaves behind); fresh values every time, more often on small workloads (races).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from runner.comparison import Mismatch, compare, rms
from runner.inputs import Pool, change_part, derive, draw_inputs
from runner.oracle import Oracle, Sample
from runner.result import CheckRow
from runner.spec.load import LoadedSpec
from runner.spec.workload import Workload
from runner.targets.protocol import Inspection, Placement, Worker
from runner.verdict import Rejected, Verdict

Opener = Callable[[Workload, int, Placement], Worker]

SMALL = 1 << 16
LARGE = 1 << 21
SAMPLED_ELEMENTS = 1 << 18
"""Elements of a large output that are compared in its later calls; the first call is compared in full."""


@dataclass(frozen=True)
class Check:
    """How one workload did. `scales` is the root mean square of each expected output, which sampled comparisons need."""

    row: CheckRow
    scales: Mapping[str, float]
    mismatch: Mismatch | None = None


class Wrong(Exception):
    """A call's outputs are wrong, or it trespassed."""

    def __init__(self, message: str, mismatch: Mismatch | None = None) -> None:
        self.mismatch = mismatch
        super().__init__(message)


@dataclass
class Verifier:
    """Compares what calls left with the oracle, and keeps the worst that was seen on this workload.

    `scales` may come from an earlier check of the same workload; otherwise they are taken from the first full comparison.
    """

    loaded: LoadedSpec
    oracle: Oracle
    workload: Workload
    scales: dict[str, float]
    max_ulp: float | None = None
    norm: float | None = None

    def full(self, inspection: Inspection, inputs: Mapping[str, torch.Tensor]) -> None:
        """Every element of every output. Raises `Wrong`."""
        self._trespasses(inspection)
        expected = self.oracle.expected(self.workload, inputs)
        for name, right in expected.items():
            self.scales[name] = max(rms(right), self.scales.get(name, 0.0))
            self._compare(name, inspection.outputs[name], right, None)

    def sampled(self, inspection: Inspection, inputs: Mapping[str, torch.Tensor], seed: int, elements: int = SAMPLED_ELEMENTS) -> None:
        """Every element of some random slices that hold about `elements` elements (at least four slices). Raises `Wrong`."""
        largest = max((layout.numel for layout in self.workload.outputs.values()), default=0)
        sample = None
        if largest > elements:
            sample = self.oracle.sample(self.workload, inputs, seed, slices=4, elements=elements)
        if sample is None:
            self.full(inspection, inputs)
            return
        self._trespasses(inspection)
        for name, right in sample.expected.items():
            self._compare(name, sample.pick(name, inspection.outputs[name]), right, sample)

    def _trespasses(self, inspection: Inspection) -> None:
        if inspection.trespasses:
            raise Wrong("; ".join(inspection.trespasses))

    def _compare(self, name: str, actual: torch.Tensor, expected: torch.Tensor, sample: Sample | None) -> None:
        scale = max(self.scales.get(name, 0.0), rms(expected) if sample is not None else 0.0)
        bounds = self.loaded.spec.tolerance[name].of(self.workload.outputs[name].dtype)
        found = compare(name, actual.contiguous(), expected, bounds, scale)
        self.max_ulp = _worse(self.max_ulp, found.max_ulp)
        self.norm = _worse(self.norm, found.norm)
        mismatch = found.mismatch
        if mismatch is None:
            return
        if sample is not None and mismatch.index:
            place = sample.restore(name, mismatch.index)
            message = f"in a sample of its slices, at [{', '.join(map(str, place))}]: {mismatch.message}"
            mismatch = Mismatch(name, place, mismatch.actual, mismatch.expected, message)
        raise Wrong(mismatch.message, mismatch)


@dataclass(frozen=True)
class Effort:
    """Which calls are made: `rounds` of fresh values over `slots` for a small, medium and large workload, and which placements."""

    rounds: tuple[int, int, int] = (6, 3, 1)
    slots: tuple[int, int, int] = (4, 3, 2)
    placements: tuple[Placement, ...] = (Placement.SPACED, Placement.TIGHT, Placement.TIGHT_START)
    first_in_full: bool = True

    def only(self, placements: Sequence[Placement]) -> Effort:
        """The same effort on those placements that a contestant can take."""
        return replace(self, placements=tuple(placement for placement in self.placements if placement in placements))


FULL = Effort()
SCREENING = Effort(rounds=(2, 1, 1), slots=(2, 2, 2), placements=(Placement.SPACED,), first_in_full=False)


def check(loaded: LoadedSpec, oracle: Oracle, pool: Pool, workload: Workload, opener: Opener, seed: int, effort: Effort = FULL) -> Check:
    """Check one workload. A bad candidate is told in the row's verdict and message, never raised."""
    verifier = Verifier(loaded, oracle, workload, {})
    verdict, message, mismatch = Verdict.ACCEPTED, "", None
    for placement in effort.placements:
        if placement is Placement.TIGHT_START and _size(workload) != 0:
            continue
        try:
            _placed(verifier, pool, opener, placement, derive(seed, placement), effort)
        except Wrong as error:
            verdict, message, mismatch = Verdict.INCORRECT, str(error), error.mismatch
        except Rejected as error:
            verdict, message = error.verdict, error.message
        if verdict is not Verdict.ACCEPTED:
            message += _how(placement)
            break
    row = CheckRow(
        workload=workload.name,
        kind=workload.kind,
        axes=dict(workload.axes),
        verdict=verdict,
        max_ulp=verifier.max_ulp,
        norm=verifier.norm,
        message=message,
    )
    return Check(row, verifier.scales, mismatch)


def _placed(verifier: Verifier, pool: Pool, opener: Opener, placement: Placement, seed: int, effort: Effort) -> None:
    """All calls of one placement, in a fresh worker."""
    workload, size = verifier.workload, _size(verifier.workload)
    spaced = placement is Placement.SPACED
    slots = effort.slots[size] if spaced else 1
    chooser = random.Random(seed)
    worker = opener(workload, slots, placement)
    try:
        inputs = draw_inputs(workload, derive(seed, "first"))
        _call(worker, verifier, {0: inputs}, [0], seed, in_full=spaced and effort.first_in_full)
        if not spaced:
            return
        # The same address again, with one element changed; then twice in one run.
        changed = change_part(inputs, derive(seed, "changed"))
        _call(worker, verifier, {0: changed}, [0], derive(seed, "changed"), in_full=False)
        for round_ in range(effort.rounds[size]):
            word = derive(seed, "round", round_)
            fresh = {slot: _clone(pool.fresh(workload, derive(word, slot))) for slot in range(slots)}
            order = [*range(slots), chooser.randrange(slots)]
            chooser.shuffle(order)
            _call(worker, verifier, fresh, order, word, in_full=False)
    finally:
        worker.close()


def _call(
    worker: Worker, verifier: Verifier, slots: Mapping[int, Mapping[str, torch.Tensor]], order: Sequence[int], seed: int, *, in_full: bool
) -> None:
    for slot, inputs in slots.items():
        worker.load(slot, inputs)
    worker.run(order, verifier.loaded.spec.policy.run_seconds)
    for slot, inputs in slots.items():
        inspection = worker.inspect(slot)
        try:
            if in_full:
                verifier.full(inspection, inputs)
            else:
                verifier.sampled(inspection, inputs, derive(seed, "sample", slot))
        except Wrong as error:
            if len(order) > 1:
                raise Wrong(f"{error} (slot {slot} of calls on slots {list(order)} in one run)", error.mismatch) from error
            raise


def _clone(inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in inputs.items()}


def _size(workload: Workload) -> int:
    """0 for a small workload, 1 for a medium one, 2 for a large one."""
    elements = max(layout.numel for layout in (*workload.inputs.values(), *workload.outputs.values()))
    return 0 if elements <= SMALL else 1 if elements <= LARGE else 2


def _worse(before: float | None, now: float | None) -> float | None:
    return now if before is None else before if now is None else max(before, now)


def _how(placement: Placement) -> str:
    return {
        Placement.SPACED: "",
        Placement.TIGHT: " (with memory right after each tensor that faults on any access)",
        Placement.TIGHT_START: " (with memory right before each tensor that faults on any access)",
    }[placement]
