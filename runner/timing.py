"""Times two sides against each other on one workload: fresh processes, cold caches, fresh values, balanced order, verified outputs.

A block is one call on each of a worker's slots, in a secret order. Before it every slot is given fresh values and the caches are
made cold and clean; after it the outputs are compared with the oracle on a random sample, so that what is timed is what is right.
The judge sees two sides only: what each runs, and on what, is the target's business.
"""

from __future__ import annotations

import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from runner.correctness import Verifier, Wrong
from runner.errors import FactoryError
from runner.inputs import DTYPES, Pool, derive
from runner.oracle import Oracle
from runner.roofline import floor_seconds
from runner.spec.load import LoadedSpec
from runner.spec.workload import Workload
from runner.statistics import Blocks
from runner.targets.protocol import Device, Worker
from runner.verdict import Rejected

SAMPLED_ELEMENTS = 1 << 14
FULL_ELEMENTS = 1 << 22
"""Elements that are compared in the one block of a measurement that is verified as a whole."""


@dataclass(frozen=True)
class Side:
    """One of the two things compared: a name for messages, and how to start a fresh worker with so many slots for a workload."""

    name: str
    open: Callable[[Workload, int], Worker]


@dataclass(frozen=True)
class Effort:
    """How much is measured: fresh processes a side, quads of blocks in each, and over how many times the cache's size a block rotates.

    Of the candidate's blocks a `share` is verified, drawn at random, in `verified` slots each; with `whole` one block in all its slots.
    With `probed` one more block of the candidate a process, which is not timed, is looked at while it runs, and one process soaks it.
    """

    processes: int
    quads: int
    rotation: float
    verified: int
    share: float = 1.0
    whole: bool = True
    probed: bool = True


SOAK_CALLS, SOAK_SECONDS = 256, 0.2
"""How often a candidate is called in one go at least once, if that takes no longer: more often than in any timed block."""
FULL = Effort(processes=3, quads=3, rotation=4, verified=2)
SCREENING = Effort(processes=1, quads=4, rotation=2, verified=1, share=0.5, whole=False, probed=False)
WARM_ROTATION = 0.5
"""Where calls may find their operands in the cache (`cold_cache: false`), a block's operands fit there together."""


class Lost(Exception):
    """The side that a candidate is compared with failed: no verdict on the candidate follows."""


class WrongWhenTimed(Exception):
    """A side's outputs in a timed block were wrong."""


@dataclass(frozen=True)
class Measured:
    """Block times in seconds a call, calls a block, and the worst error norm seen in the candidate's timed outputs."""

    blocks: Blocks
    calls: int
    norm: float | None


@dataclass
class Meter:
    """Where the judge's own time goes, in seconds by what it was spent on."""

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] += time.perf_counter() - begun


def slots_for(workload: Workload, device: Device, rotation: float) -> int:
    """How many slots a block has: together more than `rotation` times the cache, within bounds of memory and number.

    Cold calls find their operands in no cache whatever the rotation is, since a slot is used once a block and the caches are flushed
    before it. The rotation sees to it that a block is long, and that only a part of it could profit from anything left in a cache.
    """
    tensors = (*workload.inputs.values(), *workload.outputs.values())
    size = max(1, sum(layout.numel * DTYPES[layout.dtype].itemsize for layout in tensors))
    expected = max(floor_seconds(workload, device), workload.bytes / device.peak_bytes_per_s, 1e-9)
    calls = max(int(rotation * device.cache_bytes) // size, math.ceil(device.block_seconds / expected))
    return max(2, min(device.most_slots, calls + 1, device.slot_bytes // size))


class Timer:
    """Measures sides. `seed` is secret from every worker; the same seed makes the same values and orders again."""

    def __init__(self, loaded: LoadedSpec, oracle: Oracle, pool: Pool, device: Device, seed: int) -> None:
        self.loaded = loaded
        self.oracle = oracle
        self.pool = pool
        self.device = device
        self.seed = seed
        self.cold = loaded.spec.metric.cold_cache
        self.meter = Meter()

    def measure(
        self,
        workload: Workload,
        candidate: Side,
        baseline: Side,
        scales: Mapping[str, float],
        effort: Effort,
        on_quad: Callable[[float], None],
    ) -> Measured:
        """Time both sides. `scales` as in `Check`; `on_quad` hears the ratio so far.

        Raises `WrongWhenTimed` and `Rejected` for the candidate's failures, `Lost` for the other side's.
        """
        slots = slots_for(workload, self.device, effort.rotation if self.cold else WARM_ROTATION)
        chooser = random.Random(derive(self.seed, workload.name, "order"))
        whole = chooser.randrange(effort.processes * effort.quads * 2) if effort.whole else None
        verifier = self._verifier(workload, scales)
        times: dict[str, list[tuple[float, ...]]] = {"A": [], "B": []}
        orders: list[str] = []
        for process in range(effort.processes):
            runs = {
                "A": Run(self, workload, candidate, slots, derive(self.seed, workload.name, process, "A"), verifier),
                "B": Run(self, workload, baseline, slots, derive(self.seed, workload.name, process, "B"), self._verifier(workload, scales)),
            }
            order, mine = "", {"A": list[float](), "B": list[float]()}
            patterns = chooser.sample(["ABBA", "BAAB"], 2)
            probed = chooser.randrange(effort.quads) if effort.probed else None
            try:
                for side in chooser.sample("AB", 2):
                    with _blame(side):
                        runs[side].start()
                for quad in range(effort.quads):
                    for side in patterns[quad % 2]:
                        index = process * effort.quads * 2 + len(mine["A"])
                        with _blame(side):
                            # The other side was found right when it was chosen or accepted: a look at its first block is enough.
                            verified = int(not mine["B"])
                            if side == "A":
                                verified = effort.verified if chooser.random() < effort.share else 0
                            mine[side].append(runs[side].block(verified, whole=side == "A" and index == whole))
                    if quad == probed:
                        with _blame("A"):
                            runs["A"].probe()
                    order += patterns[quad % 2]
                    on_quad(sum(mine["B"]) / sum(mine["A"]))
                if effort.probed and process == 0:
                    with _blame("A"):
                        runs["A"].soak(min(mine["A"]))
            finally:
                for run in runs.values():
                    run.close()
            orders.append(order)
            for side in "AB":
                times[side].append(tuple(mine[side]))
        return Measured(Blocks(tuple(times["A"]), tuple(times["B"]), tuple(orders)), slots, verifier.norm)

    def alone(self, workload: Workload, side: Side, blocks: int, rotation: float, scales: Mapping[str, float] | None) -> list[float]:
        """Seconds a call of a few blocks of one side by itself; verified when `scales` are given. Raises what the side raises."""
        slots = slots_for(workload, self.device, rotation if self.cold else WARM_ROTATION)
        verifier = None if scales is None else self._verifier(workload, scales)
        run = Run(self, workload, side, slots, derive(self.seed, workload.name, "alone", side.name), verifier)
        try:
            run.start()
            return [run.block(1) for _ in range(blocks)]
        finally:
            run.close()

    def _verifier(self, workload: Workload, scales: Mapping[str, float]) -> Verifier:
        return Verifier(self.loaded, self.oracle, workload, dict(scales))


class Run:
    """One side's worker while it is timed. Without a verifier nothing is compared (a copy computes nothing that the oracle knows)."""

    def __init__(self, timer: Timer, workload: Workload, side: Side, slots: int, seed: int, verifier: Verifier | None) -> None:
        self._timer = timer
        self._workload = workload
        self._side = side
        self._slots = slots
        self._seed = seed
        self._verifier = verifier
        self._blocks = 0
        self._worker: Worker | None = None

    def start(self) -> None:
        """Open the worker and run every slot once, so that pages are mapped and threads exist before the first timed block."""
        with self._timer.meter.on("start"):
            self._worker = worker = self._side.open(self._workload, self._slots)
            inputs = self._timer.pool.fresh(self._workload, derive(self._seed, 0))
            for slot in range(self._slots):
                worker.load(slot, inputs)
            worker.run(range(self._slots), self._timer.loaded.spec.policy.run_seconds)

    def block(self, verified: int, *, whole: bool = False) -> float:
        """Seconds a call of one block. Afterwards `verified` random slots are sampled; `whole`: all slots, up to a bound."""
        worker, seed, chooser, order = self._prepared()
        meter = self._timer.meter
        with meter.on("run"):
            seconds = worker.run(order, self._timer.loaded.spec.policy.run_seconds)
        meter.seconds["timed calls"] += seconds
        with meter.on("verify"):
            if whole:
                self._verify(worker, seed, order, FULL_ELEMENTS)
            else:
                # Where a slot is a large part of a block, one is as good as several of many.
                count = min(verified, max(1, self._slots // 4))
                self._verify(worker, seed, chooser.sample(range(self._slots), count), None)
        return seconds / self._slots

    def probe(self) -> None:
        """A block that is not timed, looked at on its way: whoever answers several calls at once is seen."""
        worker, seed, _, order = self._prepared()
        with self._timer.meter.on("run"):
            worker.probe(order, self._timer.loaded.spec.policy.run_seconds)
        with self._timer.meter.on("verify"):
            self._verify(worker, seed, order[:1], None)

    def soak(self, call_seconds: float) -> None:
        """Many calls in one go, not for their time: who stops working after many is seen by the last, the only one on its slot."""
        worker, seed, _, (last, *others) = self._prepared()
        calls = max(len(others), min(SOAK_CALLS, int(SOAK_SECONDS / call_seconds)))
        many = (others * -(-calls // len(others)))[:calls]
        with self._timer.meter.on("run"):
            worker.soak([*many, last], self._timer.loaded.spec.policy.run_seconds)
        with self._timer.meter.on("verify"):
            self._verify(worker, seed, [last], None)

    def _prepared(self) -> tuple[Worker, int, random.Random, list[int]]:
        """The worker with fresh values in every slot and nothing in a cache; the block's seed, its dice and the order of its calls."""
        assert self._worker is not None
        seed = derive(self._seed, self._blocks)
        self._blocks += 1
        chooser = random.Random(derive(seed, "order"))
        order = chooser.sample(range(self._slots), self._slots)
        with self._timer.meter.on("load"):
            for slot in range(self._slots):
                self._fill(self._worker, slot, derive(seed, slot))
        if self._timer.cold:
            with self._timer.meter.on("flush"):
                self._worker.flush()
        return self._worker, seed, chooser, order

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()

    def _fill(self, worker: Worker, slot: int, seed: int) -> None:
        worker.fill(slot, lambda tensors: self._timer.pool.write(self._workload, seed, tensors))

    def _verify(self, worker: Worker, seed: int, slots: list[int], budget: int | None) -> None:
        if self._verifier is None:
            return
        largest = max(1, *(layout.numel for layout in self._workload.outputs.values()))
        for slot in slots:
            elements = SAMPLED_ELEMENTS
            if budget is not None:
                elements = min(largest, budget)
                budget -= elements
            inputs = self._timer.pool.fresh(self._workload, derive(seed, slot))
            try:
                self._verifier.sampled(worker.inspect(slot, inputs), inputs, derive(seed, "sample", slot), elements)
            except Wrong as error:
                raise WrongWhenTimed(f"{self._workload.name}: right when checked, wrong when timed: {error}") from error
            if budget is not None and budget <= 0:
                return


@contextmanager
def _blame(side: str) -> Iterator[None]:
    """Turn the other side's failures into `Lost`."""
    try:
        yield
    except (Rejected, WrongWhenTimed, FactoryError) as error:
        if side == "A":
            raise
        message = error.message if isinstance(error, Rejected) else str(error)
        raise Lost(f"the side that is compared against failed: {message}") from error
