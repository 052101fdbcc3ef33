"""The launcher processes of a target: started when needed, used again while they are well, told of binaries by number."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from itertools import count
from threading import Thread
from typing import Any

from runner.errors import FactoryError
from runner.targets.cuda import trusted
from runner.targets.cuda.launching import Extent
from runner.targets.cuda.process import Ended, GpuProcess
from runner.targets.protocol import Binary
from runner.verdict import Rejected, Verdict

START_SECONDS = 120.0
KEPT = 4
_NUMBERS = count(1)


class Pool:
    """Processes of one kind, each for one owner only: what one candidate ran in, no other ever does. `start` makes one; `arch` is what
    the trusted kernels are built for; so many as `ahead` are started while the present owner is at work."""

    def __init__(self, start: Callable[[], GpuProcess], arch: str, *, ahead: int = 0) -> None:
        self._start = start
        self._arch = arch
        self._ahead = ahead
        self._spare: list[GpuProcess] = []
        self._idle: dict[str, list[GpuProcess]] = {}

    def take(self, owner: str) -> GpuProcess:
        """A process in which nothing is open and nobody else's code ever ran. Raises `FactoryError` where none can be started."""
        idle = self._idle.get(owner, [])
        while idle:
            process = idle.pop()
            if process.alive:
                return process
        process = self._spare.pop(0) if self._spare else self._start()
        number = load(process, trusted.binary(self._arch), "the launcher's own kernels")
        _trusted_answer(process, {"op": "trusted", "module": number, "sweep": trusted.SWEEP, "scrub": trusted.SCRUB})
        while len(self._spare) < self._ahead:
            self._spare.append(self._start())
        return process

    def give(self, process: GpuProcess, owner: str) -> None:
        """Keep a process for its owner, if it is well; a few are enough, and those of owners long gone are ended."""
        if process.alive:
            self._idle.setdefault(owner, []).append(process)
        else:
            process.close()
        while sum(map(len, self._idle.values())) > KEPT:
            oldest = next(iter(self._idle))
            if self._idle[oldest]:
                # Its context takes a while to go.
                Thread(target=self._idle[oldest].pop(0).close).start()
            else:
                del self._idle[oldest]
        self._idle = {name: kept for name, kept in self._idle.items() if kept}

    def close(self) -> None:
        """End the idle ones."""
        for process in (*(one for kept in self._idle.values() for one in kept), *self._spare):
            process.close()
        self._idle, self._spare = {}, []


def load(process: GpuProcess, binary: Binary, what: str) -> int:
    """Load a binary, and return its number. `Rejected` (launch_error) when the device does not take it."""
    number = next(_NUMBERS)
    descriptor = os.open(binary.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        answer = process.ask({"op": "module", "id": number}, START_SECONDS, [descriptor])
    except Ended as ended:
        raise FactoryError(f"the launcher does not start: {ended}") from None
    finally:
        os.close(descriptor)
    if "error" in answer:
        process.close()
        raise Rejected(Verdict.LAUNCH_ERROR, f"{what} can't be loaded on this device ({answer['error']})")
    return number


def unload(process: GpuProcess, number: int) -> None:
    """Forget a binary."""
    if process.alive:
        try:
            process.ask({"op": "unload", "id": number}, START_SECONDS)
        except Ended:
            process.close()


def _trusted_answer(process: GpuProcess, message: Mapping[str, Any]) -> dict[str, Any]:
    try:
        answer = process.ask(message, START_SECONDS)
    except Ended as ended:
        raise FactoryError(f"the launcher does not start: {ended}") from None
    if "error" in answer:
        process.close()
        raise FactoryError(f"the launcher does not start: {answer['error']} ({answer.get('what', '')})")
    return answer


class Occupancy:
    """What launches may ask of the device (`runner.targets.cuda.launching.Device`), asked of a launcher that has the binary loaded."""

    def __init__(self, process: GpuProcess, module: int, symbols: Mapping[str, str], sm_count: int) -> None:
        self._process = process
        self._module = module
        self._symbols = symbols
        self.sm_count = sm_count

    def active_ctas(self, kernel: str, block: Extent, shared: int) -> int:
        """See the Protocol."""
        return self._ask(kernel, block, (1, 1, 1), shared, clusters=False)

    def active_clusters(self, kernel: str, block: Extent, cluster: Extent, shared: int) -> int:
        """See the Protocol."""
        return self._ask(kernel, block, cluster, shared, clusters=True)

    def _ask(self, kernel: str, block: Extent, cluster: Extent, shared: int, *, clusters: bool) -> int:
        message = {"op": "occupancy", "module": self._module, "symbol": self._symbols[kernel], "clusters": clusters}
        shape = {"grid": cluster, "block": block, "cluster": cluster, "shared": shared}
        try:
            answer = self._process.ask({**message, **shape}, START_SECONDS)
        except Ended as ended:
            raise Rejected(Verdict.LAUNCH_ERROR, f"the launcher ended when it was asked for a kernel's occupancy: {ended.words}") from None
        if "error" in answer:
            self._process.close()
            raise Rejected(Verdict.LAUNCH_ERROR, f"`{kernel}` can't run like this at all ({answer['error']})")
        return int(answer["value"])
