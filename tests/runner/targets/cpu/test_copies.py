"""The tuned copies."""

from __future__ import annotations

import pytest
from scale_bench import Bench

from runner.targets.cpu import copies


def test_memcpy_is_first(bench: Bench) -> None:
    assert bench.target.copies()[0] == "memcpy"
    assert len(bench.target.copies()) >= 2


@pytest.mark.parametrize("name", copies.names())
@pytest.mark.parametrize("n", [0, 1, 33, 100_003])
def test_every_copy_copies_half_of_the_bytes(bench: Bench, name: str, n: int) -> None:
    workload = bench.workload(n)
    with bench.target.open_copy(name, workload, 3) as worker:
        for slot in range(3):
            worker.load(slot, {})
        worker.flush()
        assert worker.run([0, 2], 5) > 0
        assert worker.inspect(0).trespasses == worker.inspect(2).trespasses == ()
        assert bool(worker.inspect(1).trespasses) == (n > 0), "the slot that was not called holds no copy"
        assert sum(place.size for place in worker._arena.plan.slots[0].values()) == workload.bytes
