"""A worker of target `cpu`: fills slots, lets the process run for as long as its command takes, and looks at what it left."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np
import torch

from runner.errors import FactoryError
from runner.spec.workload import TensorLayout
from runner.targets.cpu import clock
from runner.targets.cpu.arena import MAX_ORDER, Arena, Place
from runner.targets.cpu.clock import Outcome
from runner.targets.cpu.flush import flush
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
        self._outputs = tuple(outputs)
        self._lost = lost
        self._number = 0
        self._given: list[Mapping[str, torch.Tensor]] = [{} for _ in range(self.slots)]
        self._words: list[int] = [0] * self.slots
        layouts = {**inputs, **outputs}
        self._inputs = tuple(inputs)
        self._views = [
            {name: arena.tensor(places[name], layout.dtype, layout.shape) for name, layout in layouts.items()}
            for places in arena.plan.slots
        ]
        outcome = clock.wait_ready(arena.address, process.pidfd, start_seconds)
        if outcome is Outcome.DONE:
            process.stop()
        else:
            self._failed(outcome, start_seconds, "while it was loaded")

    def load(self, slot: int, inputs: Mapping[str, torch.Tensor]) -> None:
        """See the Protocol. The tensors themselves are kept for the comparison in `inspect`: they must not change before it."""
        views = self._views[slot]
        word = _poison()
        for name in self._inputs:
            views[name].copy_(inputs[name])
        for name, place in self._arena.plan.slots[slot].items():
            for start, length in (place.before, place.after):
                self._pattern(start, length, word)
            if name not in self._inputs:
                self._pattern(place.start, place.size, word)
        self._given[slot] = dict(inputs)
        self._words[slot] = word

    def _pattern(self, start: int, length: int, word: int) -> None:
        self._arena.bytes[start : start + length // 2 * 2].view(np.uint16)[:] = word

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
        views, word = self._views[slot], self._words[slot]
        found: list[str] = []
        for name, given in self._given[slot].items():
            if name in self._inputs and not _same_bits(views[name], given):
                found.append(f"input {name} was modified")
        for name, place in self._arena.plan.slots[slot].items():
            found += self._trespasses(name, place, word)
        outputs = {name: views[name] for name in self._outputs}
        for name, output in outputs.items():
            if output.is_floating_point():
                unwritten = (_bits(output) == _repeated(word, output.element_size())).flatten().nonzero()
                if len(unwritten):
                    found.append(
                        f"left {len(unwritten)} of {output.numel()} elements of {name} unwritten (the first is number {int(unwritten[0])})"
                    )
        return Inspection(outputs, tuple(found))

    def _trespasses(self, name: str, place: Place, word: int) -> list[str]:
        found = []
        for (start, length), where in ((place.before, "before the start"), (place.after, "past the end")):
            band = self._arena.bytes[start : start + length // 2 * 2].view(np.uint16)
            wrong = np.flatnonzero(band != word)
            if wrong.size:
                distance = (
                    f"from {int(wrong[0]) * 2} bytes past it"
                    if where == "past the end"
                    else f"up to {length - int(wrong[-1]) * 2 - 2} bytes before it"
                )
                found.append(f"wrote {wrong.size * 2} bytes {where} of {name} ({distance})")
        return found

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


def _poison() -> int:
    """16 bits that make a NaN of every floating type when repeated, and of no kind that arithmetic makes by itself."""
    payload = secrets.choice([value for value in range(1, 128) if value != 0x40])
    return 0x7F80 | payload | secrets.randbits(1) << 15


def _repeated(word: int, size: int) -> int:
    """The signed integer of `size` bytes that holds `word` in each of its 16-bit parts."""
    return int.from_bytes(word.to_bytes(2, "little") * (size // 2), "little", signed=True)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    kinds: dict[int, Any] = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.view(kinds[tensor.element_size()])


def _same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Equal bit for bit: NaNs compare by their patterns, and -0 differs from 0."""
    return bool(torch.equal(_bits(left), _bits(right)))


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
