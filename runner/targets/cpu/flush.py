"""Puts the caches into one cold and clean state: by reading, on every core, a buffer several times as large as the last-level cache."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import numpy as np

from runner.targets.cpu import clock
from runner.targets.cpu.machine import last_level_cache

FACTOR = 4


@lru_cache(maxsize=1)
def _buffer() -> np.ndarray[Any, np.dtype[np.uint64]]:
    # Written once, so that it has pages of its own (pages never written all share one page of zeros).
    return np.ones(FACTOR * last_level_cache() // 8, dtype=np.uint64)


def flush() -> None:
    """Leave no operand of anybody in a cache, and no line that has still to be written back."""
    buffer = _buffer()
    clock.flush(int(buffer.ctypes.data), buffer.nbytes, sorted(os.sched_getaffinity(0)))
