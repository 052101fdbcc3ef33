"""Places of tensors in an arena: alignment, guard bands, fences, and the layout that the worker reads."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.targets.cpu.arena import CONTROL_BYTES, GUARD, MAGIC, PAGE, Arena, Block, layout_size, plan
from runner.targets.protocol import Placement

blocks = st.lists(
    st.builds(
        lambda index, items, align, offset: Block(f"t{index}", 4 * items, align, 4 * offset),
        st.integers(0, 10**6),
        st.one_of(st.just(0), st.integers(1, 5000)),
        st.sampled_from([4, 8, 16, 32, 64, 128, 256]),
        st.integers(0, 40),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda block: block.name,
)
START = CONTROL_BYTES + PAGE


@given(blocks, st.integers(1, 4), st.sampled_from(Placement))
def test_places_keep_what_is_promised(blocks: list[Block], slots: int, placement: Placement) -> None:
    made = plan(blocks, slots, placement, START)
    taken: list[tuple[int, int]] = []
    for places in made.slots:
        for block in blocks:
            place = places[block.name]
            assert place.size == block.size
            assert (place.start - block.offset) % block.align == 0
            assert place.before[0] + place.before[1] == place.start
            assert place.after[0] == place.start + place.size
            segment = next((start, length) for start, length in made.segments if start <= place.before[0] and place.start <= start + length)
            assert place.after[0] + place.after[1] <= sum(segment)
            taken.append((place.before[0], place.after[0] + place.after[1]))
    taken.sort()
    assert all(end <= start for (_, end), (start, _) in pairwise(taken)), "no two tensors or bands share a byte"
    assert all(start % PAGE == 0 and length % PAGE == 0 and length for start, length in made.segments)
    assert all(start >= START for start, _ in made.segments)
    assert max(start + length for start, length in made.segments) <= made.size


@given(blocks, st.integers(1, 4))
def test_spaced_tensors_have_bands_on_both_sides(blocks: list[Block], slots: int) -> None:
    for places in plan(blocks, slots, Placement.SPACED, START).slots:
        assert all(place.before[1] >= GUARD and place.after[1] >= GUARD for place in places.values())


@given(blocks, st.integers(1, 3))
def test_tight_tensors_end_at_a_fence(blocks: list[Block], slots: int) -> None:
    made = plan(blocks, slots, Placement.TIGHT, START)
    ends = {start + length for start, length in made.segments}
    starts = {start for start, _ in made.segments}
    for places in made.slots:
        for block in blocks:
            place = places[block.name]
            assert place.after[1] < block.align, "as near as the alignment allows"
            assert sum(place.after) in ends
            assert place.before[1] >= GUARD
    assert not ends & starts, "a page without permissions lies between"


@given(blocks, st.integers(1, 3))
def test_tight_start_tensors_begin_at_a_fence(blocks: list[Block], slots: int) -> None:
    made = plan(blocks, slots, Placement.TIGHT_START, START)
    starts = {start for start, _ in made.segments}
    for places in made.slots:
        for block in blocks:
            place = places[block.name]
            assert place.start - block.offset in starts
            assert place.after[1] >= GUARD


def test_spaced_addresses_are_aligned_no_better_than_promised_in_every_second_slot() -> None:
    made = plan([Block("x", 400, 64, 0), Block("y", 400, 64, 0)], 8, Placement.SPACED, START)
    for slot, places in enumerate(made.slots):
        for place in places.values():
            assert (place.start % 128 == 64) == (slot % 2 == 0)
    assert len({place.start % PAGE for places in made.slots for place in places.values()}) > 8, "their places within a page vary"


def test_places_are_translated_by_the_segments_that_the_worker_mapped() -> None:
    arena = Arena(plan([Block("x", 400, 64, 0), Block("y", 400, 64, 0)], 3, Placement.SPACED, CONTROL_BYTES + layout_size(3)))
    words = arena.bytes[CONTROL_BYTES : CONTROL_BYTES + layout_size(3)].view(np.uint64)
    assert words[:3].tolist() == [MAGIC, 3 + 3 * 3, 3]
    entries = words[3:12].reshape(3, 3)
    assert entries[:, :2].tolist() == [list(segment) for segment in arena.plan.segments]
    entries[:, 2] = [7 << 30, 3 << 30, 5 << 30]
    places = [slot[name].start for slot in arena.plan.slots for name in ("x", "y")]
    starts = [segment[0] for segment in arena.plan.segments for _ in range(2)]
    bases = [base for base in (7 << 30, 3 << 30, 5 << 30) for _ in range(2)]
    found = arena.addresses(np.array(places, dtype=np.uint64))
    assert found.tolist() == [base + place - start for base, place, start in zip(bases, places, starts, strict=True)]
    with pytest.raises(ValueError, match="outside every segment"):
        arena.addresses(np.array([arena.plan.size + (1 << 30)], dtype=np.uint64))
    arena.close(again=False)


def test_a_command_holds_a_row_a_call() -> None:
    arena = Arena(plan([Block("x", 4, 64, 0)], 1, Placement.SPACED, CONTROL_BYTES + layout_size(1)))
    arena.command(np.array([[1, 2, 3, 4], [5, 6, 7, 8]], dtype=np.uint64), 1)
    assert arena.bytes[192:204].view(np.uint32).tolist() == [2, 2, 1]
    assert arena.bytes[256 : 256 + 64].view(np.uint64).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    arena.close(again=False)


@given(st.integers(1, 3000))
def test_the_layout_fits_in_its_place(segments: int) -> None:
    assert 8 * (3 + 3 * segments) <= layout_size(segments)
