"""One slot of an arena as the judge fills it and looks at it: inputs, poison, guard bands, all on the device."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping

import torch

from runner.spec.workload import TensorLayout
from runner.targets.cuda.arena import Arena, Place
from runner.targets.protocol import Inspection

# 16 bits that, repeated, make a NaN of every floating type. 0x7FC0 and 0x7FFF are left out: arithmetic makes them, as NaNs of its own.
_POISONS = tuple(0x7F80 | payload | sign << 15 for payload in range(1, 127) for sign in (0, 1) if payload != 0x40)
LOOKS = 64
_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


class Slot:
    """The judge's view of one slot. `tensors` are views of its memory by name."""

    def __init__(
        self, arena: Arena, places: Mapping[str, Place], inputs: Mapping[str, TensorLayout], outputs: Mapping[str, TensorLayout]
    ) -> None:
        layouts = {**inputs, **outputs}
        self.tensors = {name: arena.tensor(places[name], layout.dtype, layout.shape) for name, layout in layouts.items()}
        self._segments = [arena.segments[number].view(torch.int16) for number in sorted({place.segment for place in places.values()})]
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self._bands: list[tuple[str, bool, torch.Tensor]] = []
        for name, place in places.items():
            self._bands.append((name, False, arena.words((place.segment, *place.before))))
            self._bands.append((name, True, arena.words((place.segment, *place.after))))
        self._given: Mapping[str, torch.Tensor] | None = {}
        self._word = 0
        self.filled = False  # whether it was filled, and no call has had it since

    def load(self, inputs: Mapping[str, torch.Tensor]) -> None:
        """Poison everything, then copy the inputs in. The tensors are kept: they must not change before `inspect`."""
        self._poison()
        for name in self._inputs:
            self.tensors[name].copy_(inputs[name])
        self._given = inputs

    def fill(self, write: Callable[[Mapping[str, torch.Tensor]], None]) -> None:
        """Like `load`, but `write` puts the inputs where they belong; `inspect` has to be told them."""
        self._poison()
        write({name: self.tensors[name] for name in self._inputs})
        self._given = None

    def _poison(self) -> None:
        word = secrets.choice(_POISONS)
        self._word = word - (1 << 16) if word >= 1 << 15 else word
        for words in self._segments:
            words.fill_(self._word)
        self.filled = True

    def _poisoned(self, output: torch.Tensor) -> torch.Tensor:
        """By element, whether it is as it was poisoned."""
        size = output.element_size()
        pattern = int.from_bytes((self._word & 0xFFFF).to_bytes(2, "little") * (size // 2), "little", signed=True)
        return output.view(-1).view(_INTEGERS[size]) == pattern

    def sampled(self) -> list[torch.Tensor]:
        """For each output, whether some elements drawn at random are as they were poisoned."""
        found = []
        for name in self._outputs:
            output = self.tensors[name]
            if output.is_floating_point() and output.numel():
                at = torch.randint(output.numel(), (LOOKS,), device=output.device)
                found.append(self._poisoned(output.view(-1)[at]))
        return found

    def inspect(self, inputs: Mapping[str, torch.Tensor] | None) -> Inspection:
        """See the Protocol's `Worker.inspect`."""
        given = self._given if inputs is None else inputs
        if given is None:
            raise ValueError("a slot that was filled can't be inspected without its inputs")
        outputs = {name: self.tensors[name] for name in self._outputs}
        changed = {name: (_bits(self.tensors[name]) != _bits(given[name])).any() for name in self._inputs}
        wrong = [(words != self._word).any() for _, _, words in self._bands]
        left = {name: self._poisoned(one).any() for name, one in outputs.items() if one.is_floating_point() and one.numel()}
        if not bool(torch.stack([*changed.values(), *wrong, *left.values()]).any()):
            return Inspection(outputs, ())
        found = [f"input {name} was modified" for name, flag in changed.items() if flag]
        found += [self._trespass(name, after, words) for (name, after, words), flag in zip(self._bands, wrong, strict=True) if flag]
        found += [self._unwritten(name, outputs[name]) for name, flag in left.items() if flag]
        return Inspection(outputs, tuple(found))

    def _trespass(self, name: str, after: bool, words: torch.Tensor) -> str:
        places = (words != self._word).nonzero().view(-1)
        where = f"past the end of {name} (from {2 * int(places[0])} bytes past it)"
        if not after:
            where = f"before the start of {name} (up to {2 * (words.numel() - int(places[-1]) - 1)} bytes before it)"
        return f"wrote {2 * places.numel()} bytes {where}"

    def _unwritten(self, name: str, output: torch.Tensor) -> str:
        left = self._poisoned(output)
        first = int(left.to(torch.uint8).argmax())
        return f"left {int(left.sum())} of {output.numel()} elements of {name} unwritten (the first is number {first})"


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's bits: NaNs compare by their patterns, and -0 differs from 0."""
    return tensor.reshape(-1).view(_INTEGERS[tensor.element_size()])
