"""The device memory that judge and worker share: every slot's tensors and scratch, with guard bands, in physical memory of its own.

`plan` decides places (pure arithmetic); `Arena` holds the memory and the judge's view of it as torch tensors. Only this memory is in the
worker's reach: expected outputs, the judge's inputs and the other side's arena are other memory of other processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from runner.errors import FactoryError
from runner.inputs import DTYPES
from runner.targets.cuda import driver
from runner.targets.cuda.launching import Block
from runner.targets.protocol import Placement

GUARD = 256
SPREAD = 4096


@dataclass(frozen=True)
class Place:
    """Where a block lies: its segment, its start and size within it, and the guard bands around it as (start, length), all in bytes."""

    segment: int
    start: int
    size: int
    before: tuple[int, int]
    after: tuple[int, int]


@dataclass(frozen=True)
class Plan:
    """The places of every slot's blocks, and the sizes of the segments, each a multiple of the granularity."""

    slots: tuple[Mapping[str, Place], ...]
    segments: tuple[int, ...]


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def plan(blocks: Sequence[Block], slots: int, placement: Placement, granularity: int) -> Plan:
    """Place `slots` sets of blocks.

    Spaced: a segment a slot; addresses are aligned exactly as promised and no better, and their places vary from slot to slot.
    Tight: a segment a block, which ends as near as its alignment allows at addresses that fault; tight at the start: likewise before it.
    """
    placed: list[dict[str, Place]] = []
    segments: list[int] = []
    for slot in range(slots):
        places: dict[str, Place] = {}
        cursor = 0
        for index, block in enumerate(blocks):
            if placement is Placement.SPACED:
                # An odd multiple of the alignment is aligned no better than promised; varying it spreads tensors over the cache's sets.
                multiple = (2 * (7 * slot + 11 * index) + 1) % (SPREAD // block.align)
                first = _up(cursor + GUARD, SPREAD) + multiple * block.align + block.offset
                end = _up(first + block.size, 2)
                places[block.name] = Place(len(segments), first, block.size, (first - GUARD, GUARD), (end, GUARD))
                cursor = end + GUARD
                continue
            size = _up(block.size + block.offset + block.align + GUARD, granularity)
            if placement is Placement.TIGHT:
                first = (size - block.size - block.offset) // block.align * block.align + block.offset
                band = min(first, 16 * GUARD) // 2 * 2
                places[block.name] = Place(len(segments), first, block.size, (first - band, band), _rest(first + block.size, size))
            else:
                first = block.offset
                end = _up(first + block.size, 2)
                band = min(size - end, 16 * GUARD)
                places[block.name] = Place(len(segments), first, block.size, (0, first // 2 * 2), (end, band))
            segments.append(size)
        placed.append(places)
        if placement is Placement.SPACED:
            segments.append(_up(cursor, granularity))
    return Plan(tuple(placed), tuple(segments))


def _rest(start: int, end: int) -> tuple[int, int]:
    """What is left of a segment in whole units of two bytes."""
    first = _up(start, 2)
    return first, end - first


class Arena:
    """The memory of one worker. Raises `FactoryError` where the device has too little."""

    def __init__(self, blocks: Sequence[Block], slots: int, placement: Placement) -> None:
        self.plan = plan(blocks, slots, placement, driver.granularity())
        self._mappings: list[driver.Mapping] = []
        try:
            for size in self.plan.segments:
                self._mappings.append(driver.allocate(size))
        except driver.DriverError as error:
            self.close()
            total = sum(self.plan.segments) >> 20
            raise FactoryError(f"{total} MiB of device memory for a worker can't be had: {error.name}") from None
        self.segments = [_bytes(mapping) for mapping in self._mappings]

    def export(self) -> list[int]:
        """A descriptor for each segment; whoever asked closes them."""
        return [mapping.export() for mapping in self._mappings]

    def words(self, place: tuple[int, int, int]) -> torch.Tensor:
        """A (segment, start, length) as 16-bit words."""
        segment, start, length = place
        return self.segments[segment][start : start + length].view(torch.int16)

    def tensor(self, place: Place, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
        """A block as a tensor."""
        return self.segments[place.segment][place.start : place.start + place.size].view(DTYPES[dtype]).view(shape)

    def close(self) -> None:
        """Give the memory back. Safe to call twice."""
        self.segments = []
        for mapping in self._mappings:
            mapping.close()
        self._mappings = []


class _Exposed:
    """What torch needs to see a mapping as a tensor without copying it."""

    def __init__(self, mapping: driver.Mapping) -> None:
        self.__cuda_array_interface__ = {"shape": (mapping.size,), "typestr": "|u1", "data": (mapping.address, False), "version": 3}


def _bytes(mapping: driver.Mapping) -> torch.Tensor:
    return torch.as_tensor(_Exposed(mapping), device="cuda")
