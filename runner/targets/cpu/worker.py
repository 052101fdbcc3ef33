"""A worker of target `cpu`: fills slots, lets the process run for as long as its command takes, and looks at what it left."""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol, Self

import numpy as np
import torch

from runner.errors import FactoryError
from runner.spec.workload import TensorLayout
from runner.targets.cpu import clock
from runner.targets.cpu.arena import MAX_WORDS, Arena
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
LOOKS = 64
STOPS = 16  # of a probe
_DRAW = random.SystemRandom()
Rows = np.ndarray[Any, np.dtype[np.uint64]]
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

    Behind each slot stand one or more sets of buffers ("twins"); `load` draws one. A run happens in two parts, cut at a secret place:
    between them, when the worker stands still, and afterwards, the judge looks whether anything was written that no call had reason to
    write, and whether every call that was made wrote: a call that does nothing is seen though no sample of outputs meets it.

    `rows` gives the words of each set's call once the worker is ready, `zeros` the number of areas that a call clears. `lost` names the
    worker where its code is trusted (a baseline, a copy): its failures are then the machine's, `FactoryError`, and never a verdict on
    the candidate.
    """

    def __init__(
        self,
        arena: Arena,
        process: Process,
        inputs: Mapping[str, TensorLayout],
        outputs: Mapping[str, TensorLayout],
        rows: Callable[[Arena], Rows],
        *,
        slots: int,
        zeros: int = 0,
        start_seconds: float,
        lost: str | None = None,
    ) -> None:
        self.slots = slots
        self._arena = arena
        self._process = process
        self._lost = lost
        self._number = 0
        self._zeros = zeros
        self._seen = ""
        self._call_seconds = math.inf
        try:
            self._sets = [Slot(arena, places, inputs, outputs) for places in arena.plan.slots]
            self._current = list(range(slots))
            outcome = clock.wait_ready(arena.address, process.pidfd, start_seconds)
            if outcome is not Outcome.DONE:
                self._failed(outcome, start_seconds, "while it was loaded")
            process.stop()
            self._rows = rows(arena)
        except BaseException:
            self.close()
            raise

    def load(self, slot: int, inputs: Mapping[str, torch.Tensor]) -> None:
        """See the Protocol. The tensors themselves are kept for the comparison in `inspect`: they must not change before it."""
        self._draw(slot).load(inputs)

    def fill(self, slot: int, write: Callable[[Mapping[str, torch.Tensor]], None]) -> None:
        """See the Protocol."""
        self._draw(slot).fill(write)

    def _draw(self, slot: int) -> Slot:
        """Another of the slot's sets, or the same, to be loaded."""
        old = self._current[slot]
        new = slot + self.slots * secrets.randbelow(len(self._sets) // self.slots)
        if new != old:
            self._sets[old].idle()
        self._current[slot] = new
        return self._sets[new]

    def flush(self) -> None:
        """See the Protocol."""
        flush()

    def run(self, order: Sequence[int], deadline_s: float) -> float:
        """See the Protocol. An empty order measures what starting and stopping take."""
        sets = [self._current[slot] for slot in order]
        seconds = 0.0
        for first, last in self._parts(len(sets)):
            seconds += self._command(sets[first:last], deadline_s, deadline_s - seconds)
            self._look(set(sets[:last]))
        self._call_seconds = min(self._call_seconds, seconds / max(1, len(sets)))
        return seconds

    def probe(self, order: Sequence[int], deadline_s: float) -> None:
        """See the Protocol. The moments are drawn from the time that runs take; a command holds so many calls and no more."""
        sets = [self._current[slot] for slot in order][: MAX_WORDS // max(1, self._rows.shape[1])]
        self._arena.command(self._rows[sets], self._zeros)
        self._number += 1
        for _ in range(STOPS):
            after = min(self._call_seconds * len(sets) * 0.4 / 100 ** _DRAW.random(), deadline_s)
            outcome, _ = clock.run(self._arena.address, self._process.pid, self._process.pidfd, self._number, after)
            if outcome is not Outcome.TIMEOUT:
                break
            self._process.stand_still()
            if sum(self._sets[number].half_written() for number in set(sets)) > 1:
                self._seen = "answered several calls of a run at the same time"
        else:
            outcome, _ = clock.run(self._arena.address, self._process.pid, self._process.pidfd, self._number, deadline_s)
        if outcome is not Outcome.DONE:
            self._failed(outcome, deadline_s, "in a call")
        self._process.stand_still()
        self._look(set(sets))

    def soak(self, order: Sequence[int], deadline_s: float) -> None:
        """See the Protocol. What a process keeps survives the cuts of a run."""
        self.run(order, deadline_s)

    def _parts(self, calls: int) -> list[tuple[int, int]]:
        """A run's calls in two parts, cut at random (and in more where a command can't hold so many)."""
        most = MAX_WORDS // max(1, self._rows.shape[1])
        cuts = {0, calls, *range(0, calls, most)}
        if calls > 1:
            cuts.add(1 + secrets.randbelow(calls - 1))
        return list(pairwise(sorted(cuts))) or [(0, 0)]

    def _command(self, sets: Sequence[int], deadline_s: float, left: float) -> float:
        self._arena.command(self._rows[list(sets)], self._zeros)
        self._number += 1
        outcome, seconds = clock.run(self._arena.address, self._process.pid, self._process.pidfd, self._number, left)
        if outcome is not Outcome.DONE:
            self._failed(outcome, deadline_s, "in a call")
        self._process.stand_still()
        return seconds

    def _look(self, called: set[int]) -> None:
        """Look at some of the sets that no call has had since they were filled, and at all that were called."""
        others = [number for number, one in enumerate(self._sets) if one.filled and number not in called]
        for number in _DRAW.sample(others, min(LOOKS, len(others))):
            name = self._sets[number].touched()
            if name is not None:
                self._seen = f"wrote to {name} of another call than the one that was made"
        for number in called:
            self._sets[number].filled = False
            name = self._sets[number].skipped()
            if name is not None:
                self._seen = f"a call of the same run left part of {name} unwritten"

    def inspect(self, slot: int, inputs: Mapping[str, torch.Tensor] | None = None) -> Inspection:
        """See the Protocol."""
        found = self._sets[self._current[slot]].inspect(inputs)
        return Inspection(found.outputs, (self._seen,)) if self._seen and not found.trespasses else found

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
