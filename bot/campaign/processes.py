"""Ends what this process started, when it must end before its work is done."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def end_descendants() -> int:
    """Kill every process below this one, whatever session it is in or signal it ignores. Returns how many there were."""
    killed: set[int] = set()
    # A process may start another one while it is looked at: look again until nothing new is found.
    while found := descendants(os.getpid()) - killed:
        for process in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        killed |= found
    return len(killed)


def descendants(root: int) -> set[int]:
    """The ids of all living processes below `root`."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # The command's name stands in brackets and may hold anything: the fields after it are state and parent.
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if state != "Z":
                    children.setdefault(int(parent), []).append(int(entry.name))
    found: set[int] = set()
    waiting = [root]
    while waiting:
        new = [process for process in children.get(waiting.pop(), ()) if process not in found]
        found.update(new)
        waiting += new
    return found
