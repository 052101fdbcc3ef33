"""Who is given which launcher process: never one in which another candidate ran."""

from __future__ import annotations

from typing import Any, cast

import pytest

pytest.importorskip("cuda.bindings")

from runner.targets.cuda import launchers
from runner.targets.cuda.process import GpuProcess


class Process:
    """A launcher that answers at once; it counts itself."""

    started: int = 0

    def __init__(self) -> None:
        type(self).started += 1
        self.alive = True

    def ask(self, message: dict[str, Any], seconds: float, descriptors: object = ()) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        self.alive = False


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> launchers.Pool:
    monkeypatch.setattr(launchers, "load", lambda process, binary, what: 1)
    monkeypatch.setattr(launchers.trusted, "binary", lambda arch: None)
    Process.started = 0
    return launchers.Pool(lambda: cast(GpuProcess, Process()), "sm_90a", ahead=1)


def test_a_process_serves_its_owner_again_and_nobody_else(pool: launchers.Pool) -> None:
    first = pool.take("one")
    pool.give(first, "one")
    assert pool.take("one") is first
    pool.give(first, "one")
    assert pool.take("other") is not first


def test_the_next_owner_s_process_is_started_ahead(pool: launchers.Pool) -> None:
    pool.take("one")
    assert Process.started == 2
    pool.take("other")
    assert Process.started == 3


def test_one_that_ended_is_not_given_again(pool: launchers.Pool) -> None:
    first = pool.take("one")
    pool.give(first, "one")
    first.close()
    assert pool.take("one") is not first


def test_processes_of_owners_long_gone_are_ended(pool: launchers.Pool) -> None:
    taken = [pool.take(f"candidate {number}") for number in range(2 * launchers.KEPT)]
    for number, process in enumerate(taken):
        pool.give(process, f"candidate {number}")
    pool.close()
    assert not any(process.alive for process in taken)
