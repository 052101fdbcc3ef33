"""A worker of a target with a GPU: the judge's side. It fills slots, has calls run and timed, and looks at what they left."""

from __future__ import annotations

import os
import random
import secrets
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from itertools import count, pairwise
from typing import Any, Self

import torch

from runner.errors import FactoryError
from runner.spec.workload import TensorLayout
from runner.targets.cuda.arena import Arena
from runner.targets.cuda.launching import Call
from runner.targets.cuda.process import Ended, GpuProcess
from runner.targets.cuda.slots import Slot
from runner.targets.protocol import Inspection
from runner.verdict import Rejected, Verdict

LOOKS = 16
PARTS_OF_A_PROBE = 4
START_SECONDS = 120.0
SLACK_SECONDS = 0.5
"""How much longer than a call's deadline an answer may take, for what the launcher does around the calls."""
FEW_RUNS = 8
CLOCK_SLACK = 5e-4
"""Seconds by which the judge's clock may see a run take longer than the device says, besides what it sees of an empty run."""
CLOCK_SHARE = 0.05
_DRAW = random.SystemRandom()
_NUMBERS = count(1)

_CAUSES = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "reads or writes outside its buffers (illegal address)",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "accesses memory at an address that is not aligned for the access",
    "CUDA_ERROR_LAUNCH_FAILED": "the kernel failed while it ran (a trap, or an access outside of shared or local memory)",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "the launch needs more registers or shared memory than an SM has",
    "CUDA_ERROR_INVALID_VALUE": "the launch's extents or attributes are not possible on this device",
    "CUDA_ERROR_INVALID_CLUSTER_SIZE": "no cluster of this size fits on the device",
    "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE": "a cooperative launch has more CTAs than can run at once",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "an illegal instruction",
    "CUDA_ERROR_HARDWARE_STACK_ERROR": "the stack overflowed",
    "CUDA_ERROR_INVALID_PC": "jumped to where no code is",
}


class GpuWorker:
    """Implements the Protocol's `Worker` over an arena and a process that launches.

    A run happens in two parts, cut at a secret place, each a graph of its calls: between them, and afterwards, the judge looks whether
    anything was written that no call had reason to write, and whether every call that was made wrote.

    `fields` is what the process is told besides where memory is. `lost` names the worker where its code is trusted (a baseline, a copy):
    its failures are then the machine's, `FactoryError`. `release` takes the process back when the worker is closed.
    """

    def __init__(
        self,
        process: GpuProcess,
        call: Call,
        inputs: Mapping[str, TensorLayout],
        outputs: Mapping[str, TensorLayout],
        arena: Arena,
        slots: int,
        *,
        fields: Mapping[str, Any],
        release: Callable[[GpuProcess], None],
        lost: str | None = None,
        first_seconds: float = 0.0,
        described: Callable[[str], None] | None = None,
    ) -> None:
        self.slots = slots
        self._process = process
        self._arena = arena
        self._release = release
        self._lost = lost
        self._first_seconds = first_seconds
        self._id = next(_NUMBERS)
        self._seen = ""
        self._beyond: list[float] = []
        self._open = self._closed = False
        self._described = described
        try:
            self._sets = [Slot(arena, places, inputs, outputs) for places in arena.plan.slots]
            torch.cuda.synchronize()
            self._ask(_opening(self._id, arena, fields), START_SECONDS, "while it was prepared", arena.export())
            self._open = True
            self._empty = min(self._part([], cold=True)[1] for _ in range(3))
        except BaseException:
            self.close()
            raise

    def load(self, slot: int, inputs: Mapping[str, torch.Tensor]) -> None:
        """See the Protocol. The tensors themselves are kept for the comparison in `inspect`: they must not change before it."""
        self._sets[slot].load(inputs)

    def fill(self, slot: int, write: Callable[[Mapping[str, torch.Tensor]], None]) -> None:
        """See the Protocol."""
        self._sets[slot].fill(write)

    def flush(self) -> None:
        """See the Protocol. The launcher empties the caches right before it starts the clock, in every run."""

    def run(self, order: Sequence[int], deadline_s: float) -> float:
        """See the Protocol."""
        return self._run(order, deadline_s, 2)

    def probe(self, order: Sequence[int], deadline_s: float) -> None:
        """See the Protocol. The graph is cut into more parts than usual, with a look after each."""
        self._run(order, deadline_s, PARTS_OF_A_PROBE)

    def soak(self, order: Sequence[int], deadline_s: float) -> None:
        """See the Protocol. One graph, since shared memory is scrubbed before each."""
        self._run(order, deadline_s, 1)

    def _run(self, order: Sequence[int], deadline_s: float, parts: int) -> float:
        torch.cuda.synchronize()
        deadline, self._first_seconds = max(deadline_s, self._first_seconds), 0.0
        cuts = {0, len(order), *(1 + secrets.randbelow(len(order) - 1) for _ in range(parts - 1) if len(order) > 1)}
        seconds = 0.0
        for first, last in pairwise(sorted(cuts)):
            device, wall = self._part(order[first:last], cold=True, deadline=deadline)
            seconds += device
            self._compare_clocks(device, wall)
            self._look(set(order[:last]), set(order[first:last]))
        return seconds

    def _part(self, order: Sequence[int], *, cold: bool, deadline: float = START_SECONDS) -> tuple[float, float]:
        """Seconds of a graph of calls, by the device and by the judge's clock."""
        where = "in a call"
        self._ask({"op": "prepare", "id": self._id, "order": list(order)}, deadline + SLACK_SECONDS, where)
        if self._described is not None and order:
            self._described(str(self._ask({"op": "describe", "id": self._id}, START_SECONDS, where)["config"]))
            self._described = None
        if cold:
            # From here too, where no kernel reaches: the launcher's own sweep lies in the candidate's address space.
            sweep()
        begun = time.perf_counter()
        answer = self._ask({"op": "go", "cold": cold}, deadline + SLACK_SECONDS, where)
        return float(answer["seconds"]), time.perf_counter() - begun

    def _compare_clocks(self, device: float, wall: float) -> None:
        """The device's own clock lies in memory that a kernel might reach; the judge's does not."""
        self._beyond.append(wall - device - self._empty - CLOCK_SHARE * wall)
        if len(self._beyond) >= FEW_RUNS and statistics.median(self._beyond[-4 * FEW_RUNS :]) > CLOCK_SLACK:
            raise self._error(
                Verdict.IMPLAUSIBLE,
                f"the device says that a run took {device * 1e3:.3g} ms; by the judge's clock it took {wall * 1e3:.3g} ms",
            )

    def _look(self, called: set[int], now: set[int]) -> None:
        """Look at some of the sets that no call has had since they were filled, and at those that were just called."""
        others = [number for number, one in enumerate(self._sets) if one.filled and number not in called]
        others = _DRAW.sample(others, min(LOOKS, len(others)))
        mine = _DRAW.sample(sorted(now), min(LOOKS, len(now)))
        written = [~left for number in others for left in self._sets[number].sampled()]
        skipped = [left for number in mine for left in self._sets[number].sampled()]
        for number in now:
            self._sets[number].filled = False
        if written and bool(torch.stack(written).any()):
            self._seen = "wrote to an output of another call than the one that was made"
        if skipped and bool(torch.stack(skipped).any()):
            self._seen = "a call of the same run left part of an output unwritten"

    def configs(self, entry: str, seconds: float) -> tuple[list[str], str]:
        """What a baseline's function finds worth timing on the filled slots, in `seconds` or a little more, and what it says of that."""
        torch.cuda.synchronize()
        message = {"op": "configs", "id": self._id, "entry": entry, "seconds": seconds}
        answer = self._ask(message, seconds + START_SECONDS, "while its configurations were searched")
        return [str(text) for text in answer["configs"]], str(answer["note"])

    def inspect(self, slot: int, inputs: Mapping[str, torch.Tensor] | None = None) -> Inspection:
        """See the Protocol."""
        found = self._sets[slot].inspect(inputs)
        return Inspection(found.outputs, (self._seen,)) if self._seen and not found.trespasses else found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """See the Protocol. A process that is still well serves another worker."""
        if self._closed:
            return
        self._closed = True
        if self._open and self._process.alive:
            try:
                answer = self._process.ask({"op": "close", "id": self._id}, START_SECONDS)
            except Ended:
                answer = {"error": "ended"}
            if "error" in answer:
                self._process.close()
        self._release(self._process)
        self._sets = []
        self._arena.close()

    def _ask(self, message: Mapping[str, Any], seconds: float, when: str, descriptors: Sequence[int] = ()) -> dict[str, Any]:
        """An answer that is no error. Raises what an error means; the process is gone then."""
        try:
            answer = self._process.ask(message, seconds, descriptors)
        except Ended as ended:
            if ended.timed_out:
                raise self._error(Verdict.TIMEOUT, f"did not finish within {seconds - SLACK_SECONDS:g} s {when}") from None
            raise self._error(Verdict.LAUNCH_ERROR, f"the launcher ended {when}: {ended.words}") from None
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        if "error" in answer:
            self._process.close()
            name = str(answer["error"])
            raise self._error(Verdict.LAUNCH_ERROR, f"{_CAUSES.get(name, 'the launch failed')} {when} ({name}, {answer.get('what', '')})")
        return answer

    def _error(self, verdict: Verdict, message: str) -> Exception:
        return FactoryError(f"{self._lost}: {message}") if self._lost is not None else Rejected(verdict, message)


SWEPT_BYTES = 512 << 20


def sweep() -> None:
    """Read memory of which nothing is dirty, several times the size of any cache, from the judge's own context."""
    _swept().sum()
    torch.cuda.synchronize()


@lru_cache(maxsize=1)
def _swept() -> torch.Tensor:
    return torch.zeros(SWEPT_BYTES // 8, dtype=torch.int64, device="cuda")


def _opening(number: int, arena: Arena, fields: Mapping[str, Any]) -> dict[str, Any]:
    places = [{name: (place.segment, place.start) for name, place in slot.items()} for slot in arena.plan.slots]
    return {"op": "open", "id": number, "segments": arena.plan.segments, "places": places, **fields}


def call_fields(call: Call, module: int, symbols: Mapping[str, str], variables: Mapping[str, int]) -> dict[str, Any]:
    """What the launcher is told of a candidate's call."""
    sizes = {block.name: block.size for block in call.blocks}
    launches = [
        {**asdict(launch), "symbol": symbols[launch.kernel], "args": [(one.kind, one.name, one.word, one.size) for one in launch.args]}
        for launch in call.launches
    ]
    return {
        "call": {
            "module": module,
            "launches": launches,
            "zeroed": [(name, sizes[name]) for name in call.zeroed],
            "variables": list(variables),
            "maps": {name: asdict(one) for name, one in call.maps.items()},
        }
    }
