"""File operations that Python's standard library lacks: reading only what is a plain file, and swapping two paths in one step."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def read_regular(path: str | Path, limit: int, directory: int | None = None) -> bytes:
    """At most `limit` bytes of a regular file; a relative path counts from the open `directory`, when one is given.

    The last part of the path must not be a link, and a pipe or device is never waited for. Raises `OSError` for all else.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    try:
        descriptor = os.open(path, flags, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a link", str(path)) from None
        raise
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return file.read(limit)


def exchange(first: Path, second: Path) -> None:
    """Swap two existing paths of one file system atomically (`renameat2` of Linux). Raises `OSError`.

    Where the file system or the C library can't swap, the second is moved away first: correct, but with an instant without it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    renameat2 = getattr(libc, "renameat2", None)
    if renameat2 is not None:
        if renameat2(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0:
            return
        if ctypes.get_errno() == errno.ENOENT:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(second))
    aside = second.with_name(f".{second.name}.old")
    second.rename(aside)
    first.rename(second)
    aside.rename(first)
