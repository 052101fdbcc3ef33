"""Memory files that serve one worker after another: never with what an earlier one left."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from runner.targets.cpu import memory


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(memory, "_kept", [])
    yield
    for kept in memory._kept:
        kept.close()


def test_a_file_that_was_given_back_serves_again_and_holds_nothing() -> None:
    first = memory.take(1 << 20)
    first.bytes[:] = 7
    memory.give(first)
    second = memory.take((1 << 20) - 4096)
    assert second is first
    assert not second.bytes.any()


def test_a_file_in_use_is_nobody_else_s() -> None:
    first, second = memory.take(1 << 20), memory.take(1 << 20)
    assert first.fd != second.fd
    memory.give(first)
    assert memory.take(1 << 20) is first


def test_a_file_too_small_or_much_too_large_is_not_taken() -> None:
    small, large = memory.take(1 << 20), memory.take(64 << 20)
    memory.give(small)
    memory.give(large)
    other = memory.take(8 << 20)
    assert other not in (small, large)
    assert other.size == 8 << 20


def test_no_more_is_kept_than_allowed_and_the_largest_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "KEPT_BYTES", 5 << 20)
    files = [memory.take(size << 20) for size in (1, 2, 3, 6)]
    for file in files[:3]:
        memory.give(file)
    assert [kept.size >> 20 for kept in memory._kept] == [2, 3]
    assert files[0].fd == -1
    memory.give(files[3])
    assert memory._kept == []
    assert all(file.fd == -1 for file in files)


def test_the_size_is_sealed() -> None:
    file = memory.take(1 << 20)
    with pytest.raises(PermissionError):
        os.ftruncate(file.fd, 4096)
    memory.give(file)
