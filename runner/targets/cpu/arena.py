"""The memory that judge and worker share: a sealed memory file with the control page and every slot's tensors.

`plan` decides places (pure arithmetic); `Arena` holds the file, the judge's view of it, and the layout that the worker reads once.
Only what is in a slot can be seen by a worker: expected outputs, the judge's inputs and the other side's arena are other memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from runner.targets.cpu import memory
from runner.targets.protocol import Placement

if TYPE_CHECKING:
    import torch

PAGE = 4096
CONTROL_BYTES = 16 * PAGE
MAX_WORDS = 8160  # of calls in one command
GUARD = 256
MAGIC = 0x6B666172656E6132
READY, REASON, TEXT, COUNT, WORDS = 128, 132, 136, 192, 256

ITEM_BYTES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "int32": 4, "int64": 8}


@dataclass(frozen=True)
class Block:
    """One tensor to be placed: `offset` bytes past an address aligned to `align`."""

    name: str
    size: int
    align: int
    offset: int


@dataclass(frozen=True)
class Place:
    """Where a tensor lies in the arena, and the guard bands around it, as (start, length) in bytes."""

    start: int
    size: int
    before: tuple[int, int]
    after: tuple[int, int]


@dataclass(frozen=True)
class Plan:
    """The places of every slot's blocks, the parts that the worker may touch (page-aligned start, length), and the end of it all."""

    slots: tuple[Mapping[str, Place], ...]
    segments: tuple[tuple[int, int], ...]
    size: int


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def plan(blocks: Sequence[Block], slots: int, placement: Placement, start: int) -> Plan:
    """Place `slots` sets of blocks from `start` (a multiple of the page) on.

    Spaced: a segment a slot; addresses are aligned exactly as promised and no better in every second slot, and their places within a
    page vary.
    Tight: a segment a tensor, its end at a page that faults, as near as its alignment allows; tight at the start: likewise before it.
    """
    placed: list[dict[str, Place]] = []
    segments: list[tuple[int, int]] = []
    cursor = start
    for slot in range(slots):
        places: dict[str, Place] = {}
        begin = cursor = _up(cursor, PAGE)
        for index, block in enumerate(blocks):
            if placement is Placement.SPACED:
                # An odd multiple of the alignment is aligned no better than promised; varying it spreads tensors over the cache's sets.
                multiple = (2 * (7 * slot + 11 * index) + 1 + slot % 2) % (PAGE // block.align)
                first = _up(cursor + GUARD, PAGE) + multiple * block.align + block.offset
                end = first + block.size
                places[block.name] = Place(first, block.size, (first - GUARD, GUARD), (end, GUARD))
                cursor = end + GUARD
                continue
            fence = _up(cursor, PAGE)
            low = fence + PAGE
            if placement is Placement.TIGHT:
                high = _up(low + GUARD + block.align + block.offset + block.size, PAGE)
                first = (high - block.size - block.offset) // block.align * block.align + block.offset
                band = min(first - low, 16 * GUARD)
                places[block.name] = Place(first, block.size, (first - band, band), (first + block.size, high - first - block.size))
            else:
                first = low + block.offset
                high = _up(first + block.size + GUARD, PAGE)
                end = first + block.size
                places[block.name] = Place(first, block.size, (low, first - low), (end, min(high - end, 16 * GUARD)))
            segments.append((low, high - low))
            cursor = high
        placed.append(places)
        if placement is Placement.SPACED:
            cursor = _up(cursor, PAGE)
            segments.append((begin, cursor - begin))
    return Plan(tuple(placed), tuple(segments), _up(cursor, PAGE) + PAGE)


class Arena:
    """The shared memory file of one worker. When the worker's process has ended, its memory serves another.

    The worker maps each segment of the plan at a random place, and tells where before any foreign code runs.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._shared: memory.SharedMemory | None = memory.take(plan.size)
        self.fd = self._shared.fd
        self.bytes = self._shared.bytes
        self._memory = self._shared.tensor
        self.address = int(self.bytes.ctypes.data)
        self._small = self.bytes[:CONTROL_BYTES].view(np.uint32)
        self._words = self.bytes[WORDS:CONTROL_BYTES].view(np.uint64)
        self._layout = self.bytes[CONTROL_BYTES : CONTROL_BYTES + layout_size(len(plan.segments))].view(np.uint64)
        size = 3 + 3 * len(plan.segments)
        self._layout[:3] = (MAGIC, size, len(plan.segments))
        entries = self._layout[3:size].reshape(-1, 3)
        entries[:, :2] = plan.segments
        self._entries = entries

    def addresses(self, offsets: np.ndarray[Any, np.dtype[np.uint64]]) -> np.ndarray[Any, np.dtype[np.uint64]]:
        """Where places of the file lie in the worker's process, once it is ready."""
        starts, lengths, bases = (self._entries[:, column] for column in range(3))
        index = np.searchsorted(starts, offsets, side="right") - 1
        within = offsets - starts[index]
        if (within > lengths[index]).any():
            raise ValueError("a place outside every segment")
        return bases[index] + within

    def tensor(self, place: Place, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
        """A view of a tensor's memory."""
        part = self._memory[place.start : place.start + place.size]
        import torch  # here, since a build needs the plan of an arena and no PyTorch

        kind: torch.dtype = getattr(torch, dtype)
        if place.size == 0:
            return torch.empty(shape, dtype=kind)
        if place.start % ITEM_BYTES[dtype]:
            raise ValueError(f"a {dtype} tensor at {place.start}")
        return part.view(kind).view(shape)

    def command(self, rows: np.ndarray[Any, np.dtype[np.uint64]], zeros: int) -> None:
        """Write the next command: a row a call, of arguments and then two words for each of `zeros` areas to be cleared."""
        count, width = rows.shape
        self._small[COUNT // 4 : COUNT // 4 + 3] = (count, width - 2 * zeros, zeros)
        self._words[: count * width] = rows.reshape(-1)

    def reason(self) -> tuple[int, str]:
        """Why the worker says that it ended, and its word for it: untrusted, so reduced to a few plain characters."""
        text = bytes(self.bytes[TEXT : TEXT + 56]).split(b"\0")[0].decode("ascii", errors="replace")
        return int(self._small[REASON // 4]), "".join(letter for letter in text if letter.isalnum() or letter in "_ ")[:40]

    def close(self, *, again: bool) -> None:
        """Give up the memory: to be used `again` where no worker's process maps it any more. Safe to call twice."""
        if self._shared is None:
            return
        if again:
            memory.give(self._shared)
        else:
            self._shared.close()
        self._shared = None
        self.fd = -1


def layout_size(segments: int) -> int:
    """The bytes of a layout with so many segments, rounded up to pages (see `native/serve.hpp`)."""
    return _up(8 * (3 + 3 * segments), PAGE)
