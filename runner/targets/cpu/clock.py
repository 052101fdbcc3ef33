"""The judge's clock and signals, from `native/clock.cpp`: how a worker is let run, stopped, and seen to stand still."""

from __future__ import annotations

import ctypes
from enum import IntEnum
from functools import lru_cache
from typing import Any

from runner.targets.cpu.compiler import clock_library


class Outcome(IntEnum):
    """What a wait for the worker ended with."""

    DONE = 0
    TIMEOUT = 1
    DIED = 2


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(clock_library()))
    library.kf_wait_ready.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_double]
    pointer = ctypes.POINTER(ctypes.c_double)
    library.kf_run.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_uint32, ctypes.c_double, pointer]
    library.kf_stop.argtypes = [ctypes.c_int]
    library.kf_stand_still.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_double]
    library.kf_flush.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_int), ctypes.c_int]
    library.kf_flush.restype = ctypes.c_uint64
    return library


def wait_ready(control: int, pidfd: int, seconds: float) -> Outcome:
    """Wait until the worker whose control page lies at `control` says that it is ready."""
    return Outcome(_library().kf_wait_ready(control, pidfd, seconds))


def run(control: int, pid: int, pidfd: int, number: int, seconds: float) -> tuple[Outcome, float]:
    """Let a stopped worker carry out command `number`; stop it. Returns the seconds from before it could run to after it was stopped."""
    taken = ctypes.c_double()
    outcome = Outcome(_library().kf_run(control, pid, pidfd, number, seconds, ctypes.byref(taken)))
    return outcome, taken.value


def stop(pidfd: int) -> None:
    """Send the stop signal."""
    _library().kf_stop(pidfd)


def stand_still(pid: int, pidfd: int, seconds: float) -> Outcome:
    """Wait until every thread of the process is stopped."""
    return Outcome(_library().kf_stand_still(pid, pidfd, seconds))


def flush(address: int, size: int, cpus: list[int]) -> int:
    """Read `size` bytes at `address`, a part on each of `cpus`, so that their caches hold these clean lines and no others."""
    numbers = (ctypes.c_int * len(cpus))(*cpus)
    total: Any = _library().kf_flush(address, size // 8, numbers, len(cpus))
    return int(total)
