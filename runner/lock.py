"""One evaluation a device: a lock file that every job and every user of the machine shares, and precedence while it is held."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.errors import FactoryError

FOLDERS = (Path("/run/lock"), Path("/tmp"))
PRECEDENCE = -10
"""The nice value that evaluations ask for; only a privileged process is given it."""
_log = logging.getLogger(__name__)
_held: dict[str, int] = {}
_guard = threading.Lock()


def lock_path(device_id: str) -> Path:
    """The lock file of a device: in the first of `/run/lock` and `/tmp` in which every user may make files."""
    name = "kernel-factory-" + re.sub(r"[^A-Za-z0-9._-]", "-", device_id)[:80] + ".lock"
    for folder in FOLDERS:
        try:
            mode = folder.stat().st_mode
        except OSError:
            continue
        if mode & stat.S_IWOTH and mode & stat.S_ISVTX:
            return folder / name
    return FOLDERS[-1] / name


def open_lock(path: Path) -> int:
    """A descriptor of the lock file, made if needed, writable by every user. Links are refused. Raises `FactoryError`.

    An existing file is opened without `O_CREAT`: in a folder with the sticky bit Linux refuses it for a file of another user.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    for _attempt in range(3):
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            try:
                made = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
            except FileExistsError:
                continue
            except OSError as error:
                raise FactoryError(f"the lock file {path} cannot be made: {error.strerror}") from None
            os.fchmod(made, 0o666)
            return made
        except OSError as error:
            raise FactoryError(
                f"the lock file {path} cannot be opened: {error.strerror}; remove it if it isn't a plain file of this project"
            ) from None
    raise FactoryError(f"the lock file {path} comes and goes")


@contextmanager
def device_lock(device_id: str) -> Iterator[None]:
    """Hold the device's lock, waiting for it as long as another process or thread holds it.

    Taking it twice in one thread would wait for ever: that is `FactoryError`.
    """
    path = lock_path(device_id)
    thread = threading.get_ident()
    with _guard:
        if _held.get(str(path)) == thread:
            raise FactoryError(f"this thread holds the lock {path} already")
    descriptor = open_lock(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _log.warning("another evaluation holds this machine (%s); waiting for it", path)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        with _guard:
            _held[str(path)] = thread
        try:
            yield
        finally:
            with _guard:
                del _held[str(path)]
    finally:
        os.close(descriptor)


@contextmanager
def precedence() -> Iterator[None]:
    """Let this thread, and the processes that it starts, be scheduled before ordinary programs; without the right to it nothing changes.

    A worker that waits for a core behind somebody else's program is the largest noise on a shared machine.
    """
    before = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, min(before, PRECEDENCE))
    except PermissionError:
        _log.debug("no right to a higher priority than %d", before)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)
