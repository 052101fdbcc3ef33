"""Where a worker's memory is placed: alignment no better than promised, guard bands around everything, ends that fault."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("cuda.bindings")

from runner.targets.cuda.arena import GUARD, Place, plan
from runner.targets.cuda.launching import Block
from runner.targets.protocol import Placement

UNIT = 2 << 20
BLOCKS = st.lists(
    st.builds(
        Block,
        st.text("abcdef", min_size=1, max_size=6),
        st.integers(0, 300_000),
        st.sampled_from([16, 128, 256]),
        st.sampled_from([0, 2, 6]),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda block: block.name,
)


def parts(place: Place) -> list[tuple[int, int]]:
    """The guard bands and the block itself as (start, end)."""
    (before, first), (after, second) = place.before, place.after
    return [(before, before + first), (place.start, place.start + place.size), (after, after + second)]


@given(BLOCKS, st.integers(1, 4), st.sampled_from(list(Placement)))
def test_no_two_things_overlap_and_all_lie_in_their_segments(blocks: list[Block], slots: int, placement: Placement) -> None:
    found = plan(blocks, slots, placement, UNIT)
    assert len(found.slots) == slots
    assert all(size % UNIT == 0 for size in found.segments)
    by_segment: dict[int, list[tuple[int, int]]] = {}
    for place in (place for slot in found.slots for place in slot.values()):
        by_segment.setdefault(place.segment, []).extend(parts(place))
    for segment, spans in by_segment.items():
        ordered = sorted(span for span in spans if span[0] != span[1])
        assert ordered[0][0] >= 0
        assert ordered[-1][1] <= found.segments[segment]
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(ordered))


@given(BLOCKS, st.integers(1, 4))
def test_spaced_blocks_are_aligned_as_promised_and_no_better_and_slots_are_apart(blocks: list[Block], slots: int) -> None:
    found = plan(blocks, slots, Placement.SPACED, UNIT)
    for slot in found.slots:
        for block in blocks:
            start = slot[block.name].start - block.offset
            assert start % block.align == 0
            assert start % (2 * block.align) != 0
            assert slot[block.name].before[1] >= GUARD
            assert slot[block.name].after[1] >= GUARD
    segments = [{place.segment for place in slot.values()} for slot in found.slots]
    assert not any(one & other for one, other in itertools.combinations(segments, 2))


@given(BLOCKS)
def test_a_tight_block_ends_or_begins_at_memory_that_faults(blocks: list[Block]) -> None:
    (ends,), segments = plan(blocks, 1, Placement.TIGHT, UNIT).slots, plan(blocks, 1, Placement.TIGHT, UNIT).segments
    (begins,) = plan(blocks, 1, Placement.TIGHT_START, UNIT).slots
    for block in blocks:
        place = ends[block.name]
        assert 0 <= segments[place.segment] - (place.start + place.size) < block.align + block.offset
        assert begins[block.name].start == block.offset
