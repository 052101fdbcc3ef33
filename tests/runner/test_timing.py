"""Timing on the real target: the form of what is measured, and kernels that behave while they are checked and not while they are timed."""

from __future__ import annotations

from pathlib import Path

import pytest
from specs import RIGHT, SPEC, write_kernel, write_spec
from test_correctness import whole

from runner.candidate import read_candidate
from runner.contestant import prepare
from runner.inputs import Pool
from runner.oracle import Oracle
from runner.spec import workloads
from runner.spec.load import LoadedSpec
from runner.statistics import quads
from runner.targets.protocol import Device, Placement
from runner.targets.registry import target_for
from runner.timing import Effort, Lost, Measured, Side, Timer, WrongWhenTimed, slots_for
from runner.verdict import Rejected, Verdict

MAX_SLOTS = Device.most_slots
EFFORT = Effort(processes=2, quads=2, verified=2, rotation=0)


def side(loaded: LoadedSpec, folder: Path, *, body: str = RIGHT, source: str | None = None, name: str = "candidate") -> Side:
    candidate = read_candidate(write_kernel(folder, body, source=source), loaded.spec.policy)
    contestant = prepare(target_for(loaded.spec), loaded, candidate, lambda row, rows: None)
    return Side(name, lambda workload, slots: contestant.open(workload, slots, Placement.SPACED))


def timer(loaded: LoadedSpec) -> Timer:
    return Timer(loaded, Oracle(loaded), Pool(1), target_for(loaded.spec).device(), 3)


def measured(tmp_path: Path, effort: Effort = EFFORT, workload: int = 0, **bad: str) -> Measured:
    """A candidate that is bad in some way against a right one."""
    loaded = write_spec(tmp_path)
    candidate, other = side(loaded, tmp_path / "a", **bad), side(loaded, tmp_path / "b", name="other")
    return timer(loaded).measure(workloads.public(loaded.spec)[workload], candidate, other, {"y": 0.2}, effort, lambda ratio: None)


def test_both_sides_are_timed_in_balanced_order_in_fresh_processes(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path)
    ratios: list[float] = []
    candidate, other = side(loaded, tmp_path / "a"), side(loaded, tmp_path / "b", name="other")
    found = timer(loaded).measure(workloads.public(loaded.spec)[0], candidate, other, {"y": 0.2}, EFFORT, ratios.append)
    assert [len(process) for process in (*found.blocks.candidate, *found.blocks.baseline)] == [4] * 4
    assert all(order in ("ABBABAAB", "BAABABBA") for order in found.blocks.order)
    assert quads(found.blocks)[1].shape == (2, 2)
    assert len(ratios) == 4
    assert all(time > 0 for process in found.blocks.candidate for time in process)
    assert found.norm is not None
    assert found.norm < 1e-6


def test_a_kernel_that_stops_working_when_it_thinks_that_it_is_timed_is_found(tmp_path: Path) -> None:
    """Right for the first calls of its process, which a check may be, and nothing afterwards."""
    source = whole("    if (++calls > 4) return;\n", static="static int calls = 0;")
    with pytest.raises(WrongWhenTimed, match="small: right when checked, wrong when timed: left 16384 of 16384 elements of y unwritten"):
        measured(tmp_path, source=source)


def test_a_kernel_that_stops_working_after_more_calls_than_are_timed_is_found(tmp_path: Path) -> None:
    """About a dozen calls of each process are timed."""
    source = whole("    if (++calls > 100) return;\n", static="static int calls = 0;")
    with pytest.raises(WrongWhenTimed, match="unwritten"):
        measured(tmp_path, source=source)


def test_a_kernel_that_answers_with_its_last_answer_is_found(tmp_path: Path) -> None:
    static = "static int calls = 0; static float kept[1 << 20];"
    before = "    if (++calls > 4) { std::memcpy(y, kept, sizeof(float) * rows * cols); return; }\n"
    after = "    std::memcpy(kept, y, sizeof(float) * rows * cols);\n"
    with pytest.raises(WrongWhenTimed, match="elements are wrong"):
        measured(tmp_path, source=whole(before, after, static))


def test_a_kernel_that_leaves_out_a_tenth_of_the_rows_is_found(tmp_path: Path) -> None:
    source = whole("    if (++calls > 4) rows -= rows / 10;\n", static="static int calls = 0;")
    with pytest.raises(WrongWhenTimed, match="unwritten"):
        measured(tmp_path, source=source)


def test_a_few_wrong_values_in_one_block_are_found_in_time(tmp_path: Path) -> None:
    """One row in eight is wrong, and only on a large workload, of which each block is compared in part."""
    source = whole(
        after="    if (rows == 1024) for (std::int64_t row = calls++ % 8; row < rows; row += 8) y[row * cols] = 1;\n",
        static="static int calls = 0;",
    )
    with pytest.raises(WrongWhenTimed):
        measured(tmp_path, Effort(processes=1, quads=3, verified=2, rotation=0), 1, source=source)


def test_an_input_that_is_edited_in_a_timed_call_is_found(tmp_path: Path) -> None:
    source = whole(after="    if (++calls > 4) const_cast<float*>(x)[5] = 0;\n", static="static int calls = 0;")
    with pytest.raises(WrongWhenTimed, match="input x was modified"):
        measured(tmp_path, source=source)


def test_a_kernel_that_dies_in_a_timed_call_is_rejected(tmp_path: Path) -> None:
    source = whole("    if (++calls > 4) *(volatile int*)8 = 1;\n", static="static int calls = 0;")
    with pytest.raises(Rejected) as caught:
        measured(tmp_path, source=source)
    assert caught.value.verdict is Verdict.LAUNCH_ERROR


def test_the_other_side_s_failure_is_nobody_s_verdict(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path)
    small = workloads.public(loaded.spec)[0]
    good = side(loaded, tmp_path / "good")
    for name, source in {
        "dies": whole("    if (++calls > 4) *(volatile int*)8 = 1;\n", static="static int calls = 0;"),
        "is wrong": whole(after="    y[0] = 7; y[cols] = 7; if (rows) for (int i = 0; i < 64; ++i) y[i * cols] = 7;\n"),
    }.items():
        bad = side(loaded, tmp_path / name.replace(" ", "-"), source=source, name=name)
        with pytest.raises(Lost, match="the side that is compared against failed"):
            timer(loaded).measure(small, good, bad, {"y": 0.2}, EFFORT, lambda ratio: None)


def test_one_side_alone_can_be_timed(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path, SPEC.replace("hardware:", "metric: {cold_cache: false}\nhardware:"))
    small = workloads.public(loaded.spec)[0]
    assert len(timer(loaded).alone(small, side(loaded, tmp_path / "a"), 3, 1, {"y": 0.2})) == 3
    target = target_for(loaded.spec)
    copy = Side("memcpy", lambda workload, slots: target.open_copy("memcpy", workload, slots))
    assert len(timer(loaded).alone(small, copy, 2, 1, None)) == 2


@pytest.mark.parametrize(("cache", "slots"), [(1 << 20, 32), (16 << 20, MAX_SLOTS), (1 << 10, 2)])
def test_a_block_rotates_over_more_than_the_cache_within_bounds(tmp_path: Path, cache: int, slots: int) -> None:
    small = workloads.public(write_spec(tmp_path).spec)[0]
    size = 4 * (2 * 64 * 256 + 256)
    device = Device("d", "d", cache, 1, 1, 1)
    found = slots_for(small, device, 4)
    assert found == slots
    assert found in (2, MAX_SLOTS) or found * size > 4 * cache
    assert found * size <= device.slot_bytes
