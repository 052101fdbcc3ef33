"""Swaps two paths in one step, which Python's standard library can't."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def exchange(first: Path, second: Path) -> None:
    """Swap two existing paths of one file system atomically (`renameat2` of Linux). Raises `OSError`.

    Where the file system or the C library can't swap, the second is moved away first: correct, but with an instant without it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    renameat2 = getattr(libc, "renameat2", None)
    if renameat2 is not None:
        if renameat2(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0:
            return
        if ctypes.get_errno() == 2:
            raise FileNotFoundError(2, os.strerror(2), str(second))
    aside = second.with_name(f".{second.name}.old")
    second.rename(aside)
    first.rename(second)
    aside.rename(first)
