"""One slot of an arena as the judge fills it and looks at it: inputs, poison, guard bands.

Everything here runs in one thread: the judge's own parallel loops would leave threads spinning on the cores that are timed next.
"""

from __future__ import annotations

import ctypes
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from runner.spec.workload import TensorLayout
from runner.targets.cpu.arena import Arena, Place
from runner.targets.protocol import Inspection

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Words = np.ndarray[Any, np.dtype[np.uint16]]

# 16 bits that, repeated, make a NaN of every floating type. 0x7FC0 is left out: arithmetic makes it, as bfloat16's usual NaN.
_POISONS = tuple(0x7F80 | payload | sign << 15 for payload in range(1, 128) for sign in (0, 1) if payload != 0x40)
LOOKS = 32
_DRAW = np.random.default_rng()
_KINDS = {2: np.uint16, 4: np.uint32, 8: np.uint64}

_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


class Slot:
    """The judge's view of one slot. `tensors` are views of its memory by name."""

    def __init__(
        self, arena: Arena, places: Mapping[str, Place], inputs: Mapping[str, TensorLayout], outputs: Mapping[str, TensorLayout]
    ) -> None:
        layouts = {**inputs, **outputs}
        self.tensors = {name: arena.tensor(places[name], layout.dtype, layout.shape) for name, layout in layouts.items()}
        self._inputs = {name: _bytes(arena, places[name].start, places[name].size) for name in inputs}
        self._outputs = tuple(outputs)
        self._poisoned: dict[str, Words] = {
            name: _bytes(arena, place.start, place.size).view(np.uint16) for name, place in places.items() if name not in inputs
        }
        self._bands: list[tuple[str, bool, Words]] = []
        for name, place in places.items():
            self._bands.append((name, False, _bytes(arena, *place.before).view(np.uint16)))
            self._bands.append((name, True, _bytes(arena, *place.after).view(np.uint16)))
        self._given: Mapping[str, torch.Tensor] | None = {}
        self._word = 0
        self.filled = False  # whether it was filled, and no call has had it since

    def load(self, inputs: Mapping[str, torch.Tensor]) -> None:
        """Copy the inputs in, poison everything else, renew the bands. The tensors are kept: they must not change before `inspect`."""
        self._poison()
        for name, memory in self._inputs.items():
            memory[:] = _raw(inputs[name])
        self._given = inputs

    def fill(self, write: Callable[[Mapping[str, torch.Tensor]], None]) -> None:
        """Like `load`, but `write` puts the inputs where they belong; `inspect` has to be told them."""
        self._poison()
        write({name: self.tensors[name] for name in self._inputs})
        self._given = None

    def idle(self) -> None:
        """Poison a set that is not used for now. Whatever is written to it then is a trespass."""
        if not self.filled:
            self._poison()

    def _poison(self) -> None:
        self._word = secrets.choice(_POISONS)
        for words in self._poisoned.values():
            words[:] = self._word
        for _, _, words in self._bands:
            words[:] = self._word
        self.filled = True

    def touched(self) -> str | None:
        """The name of a poisoned tensor of which some element, of a few drawn at random, was written since; None where there is none."""
        for name, words in self._poisoned.items():
            if words.size and (words[_DRAW.integers(words.size, size=LOOKS)] != self._word).any():
                return name
        return None

    def skipped(self) -> str | None:
        """The name of an output of which some element, of a few drawn at random, is as it was poisoned; None where there is none."""
        return next((name for name, left in self._left().items() if left.any()), None)

    def half_written(self) -> bool:
        """Whether some elements of the outputs, of a few drawn at random, are as they were poisoned, and others are not."""
        left = self._left().values()
        return any(some.any() for some in left) and not all(some.all() for some in left)

    def _left(self) -> dict[str, np.ndarray[Any, np.dtype[np.bool_]]]:
        """By output, for a few elements drawn at random, whether each is as it was poisoned."""
        found = {}
        for name in self._outputs:
            output = self.tensors[name]
            if output.is_floating_point() and output.numel():
                elements = self._poisoned[name].reshape(output.numel(), -1)
                found[name] = (elements[_DRAW.integers(output.numel(), size=LOOKS)] == self._word).all(axis=1)
        return found

    def inspect(self, inputs: Mapping[str, torch.Tensor] | None) -> Inspection:
        """See the Protocol's `Worker.inspect`."""
        given = self._given if inputs is None else inputs
        if given is None:
            raise ValueError("a slot that was filled can't be inspected without its inputs")
        found = [f"input {name} was modified" for name, memory in self._inputs.items() if not _same(memory, _raw(given[name]))]
        for name, after, words in self._bands:
            wrong = np.flatnonzero(words != self._word)
            if wrong.size:
                where = f"past the end of {name} (from {2 * wrong[0]} bytes past it)"
                if not after:
                    where = f"before the start of {name} (up to {2 * (words.size - wrong[-1] - 1)} bytes before it)"
                found.append(f"wrote {2 * wrong.size} bytes {where}")
        outputs = {name: self.tensors[name] for name in self._outputs}
        for name, output in outputs.items():
            if output.is_floating_point() and output.numel():
                found += self._unwritten(name, output)
        return Inspection(outputs, tuple(found))

    def _unwritten(self, name: str, output: torch.Tensor) -> list[str]:
        kind = _KINDS[output.element_size()]
        poison = kind(int.from_bytes(self._word.to_bytes(2, "little") * (output.element_size() // 2), "little"))
        left = _raw(output).view(kind) == poison
        if not left.any():
            return []
        return [f"left {int(left.sum())} of {output.numel()} elements of {name} unwritten (the first is number {int(left.argmax())})"]


def _bytes(arena: Arena, start: int, length: int) -> Bytes:
    return arena.bytes[start : start + length]


def _raw(tensor: torch.Tensor) -> Bytes:
    """The bytes of a contiguous tensor, not copied."""
    raw: Bytes = tensor.reshape(-1).view(torch.uint8).numpy()
    return raw


def _same(left: Bytes, right: Bytes) -> bool:
    """Equal bit for bit: NaNs compare by their patterns, and -0 differs from 0."""
    return left.size == right.size and _memcmp(left.ctypes.data, right.ctypes.data, left.size) == 0
