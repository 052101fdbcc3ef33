"""A worker of target `cpu`: fills slots, lets the process run for as long as its command takes, and looks at what it left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, Self

import torch

from runner.errors import FactoryError
from runner.spec.workload import TensorLayout
from runner.targets.cpu import clock
from runner.targets.cpu.arena import MAX_ORDER, Arena
from runner.targets.cpu.clock import Outcome
from runner.targets.cpu.flush import flush
from runner.targets.cpu.slots import Slot
from runner.targets.protocol import Inspection
from runner.verdict import Rejected, Verdict

SIGNALS = {
    4: "SIGILL (an instruction that this CPU lacks?)",
    7: "SIGBUS (a misaligned or impossible access?)",
    8: "SIGFPE (an integer division by zero?)",
    9: "SIGKILL (out of memory?)",
    11: "SIGSEGV (reads or writes outside its buffers?)",
}
FORBIDDEN, ABORTED, CANNOT_LOAD = 1, 2, 3


class Process(Protocol):
    """What a worker needs of the process behind it."""

    pid: int
    pidfd: int

    def stop(self) -> None: ...
    def stand_still(self) -> None: ...
    def died(self) -> tuple[int, str]: ...
    def close(self) -> bool: ...


class NativeWorker:
    """Implements the Protocol's `Worker` over an arena and a process that serves it.

    `lost` names the worker where its code is trusted (a baseline, a copy): its failures are then the machine's, `FactoryError`,
    and never a verdict on the candidate.
    """

    def __init__(
        self,
        arena: Arena,
        process: Process,
        inputs: Mapping[str, TensorLayout],
        outputs: Mapping[str, TensorLayout],
        *,
        start_seconds: float,
        lost: str | None = None,
    ) -> None:
        self.slots = len(arena.plan.slots)
        self._arena = arena
        self._process = process
        self._lost = lost
        self._number = 0
        try:
            self._slots = [Slot(arena, places, inputs, outputs) for places in arena.plan.slots]
            outcome = clock.wait_ready(arena.address, process.pidfd, start_seconds)
            if outcome is Outcome.DONE:
                process.stop()
            else:
                self._failed(outcome, start_seconds, "while it was loaded")
        except BaseException:
            self.close()
            raise

    def load(self, slot: int, inputs: Mapping[str, torch.Tensor]) -> None:
        """See the Protocol. The tensors themselves are kept for the comparison in `inspect`: they must not change before it."""
        self._slots[slot].load(inputs)

    def flush(self) -> None:
        """See the Protocol."""
        flush()

    def run(self, order: Sequence[int], deadline_s: float) -> float:
        """See the Protocol. An empty order measures what starting and stopping take."""
        if len(order) > MAX_ORDER:
            raise ValueError(f"at most {MAX_ORDER} calls a command")
        self._arena.order(order)
        self._number += 1
        outcome, seconds = clock.run(self._arena.address, self._process.pidfd, self._number, deadline_s)
        if outcome is not Outcome.DONE:
            self._failed(outcome, deadline_s, "in a call")
        self._process.stand_still()
        return seconds

    def inspect(self, slot: int) -> Inspection:
        """See the Protocol."""
        return self._slots[slot].inspect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """See the Protocol."""
        gone = self._process.close()
        self._arena.close(again=gone)

    def _failed(self, outcome: Outcome, seconds: float, when: str) -> None:
        """Raise what the end of the process means. The process is gone afterwards."""
        if outcome is Outcome.TIMEOUT:
            self.close()
            raise self._error(Verdict.TIMEOUT, f"did not finish within {seconds:g} s {when}")
        status, words = self._process.died()
        reason, text = self._arena.reason()
        self.close()
        raise self._error(*_cause(status, reason, text, words, when))

    def _error(self, verdict: Verdict, message: str) -> Exception:
        if self._lost is not None:
            return FactoryError(f"{self._lost}: {message}")
        return Rejected(verdict, message)


def _cause(status: int, reason: int, text: str, words: str, when: str) -> tuple[Verdict, str]:
    """The verdict and message for a process that ended. `reason`, `text` and `words` are the process's own claims."""
    said = f"; it said: {words}" if words else ""
    if status == 128 + 31:
        name = f" {text}" if reason == FORBIDDEN and text else ""
        return Verdict.POLICY_VIOLATION, f"forbidden system call{name} {when}{said}"
    if reason == CANNOT_LOAD:
        return Verdict.LAUNCH_ERROR, f"cannot be loaded{said}"
    if reason == ABORTED or status == 128 + 6:
        return Verdict.LAUNCH_ERROR, f"aborted {when}{said}"
    if status > 128:
        return Verdict.LAUNCH_ERROR, f"crashed with {SIGNALS.get(status - 128, f'signal {status - 128}')} {when}{said}"
    return Verdict.LAUNCH_ERROR, f"ended its process (exit status {status}) {when}{said}"
