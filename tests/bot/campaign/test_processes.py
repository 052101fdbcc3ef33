"""Ending what was started, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from bot.campaign.processes import descendants

# A process that ignores polite signals, with a child in a session of its own that is stopped.
STUBBORN = """
import os, signal, subprocess, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
os.kill(child.pid, signal.SIGSTOP)
print(child.pid, flush=True)
time.sleep(600)
"""
ENDS_ALL = """
import subprocess, sys
from bot.campaign.processes import end_descendants
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE, text=True)
print(child.pid, child.stdout.readline().strip(), flush=True)
print(end_descendants(), flush=True)
"""


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def gone(process: int) -> bool:
    """Whether a process is dead, at the latest after some seconds (its parent, or init, may have to collect it)."""
    for _ in range(100):
        try:
            with open(f"/proc/{process}/stat") as file:  # noqa: PTH123 - a plain read of the kernel's table
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


def test_every_descendant_is_ended_and_nobody_else(bystander: subprocess.Popen[bytes]) -> None:
    done = subprocess.run([sys.executable, "-c", ENDS_ALL, STUBBORN], capture_output=True, text=True, check=True, timeout=60)
    first, second = done.stdout.splitlines()
    assert second == "2"
    assert all(gone(int(process)) for process in first.split())
    assert bystander.poll() is None


def test_descendants_are_found_below_a_process_only(bystander: subprocess.Popen[bytes]) -> None:
    assert bystander.pid in descendants(os.getpid())
    assert descendants(bystander.pid) == set()


def test_what_is_dead_already_is_no_descendant() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert process.pid not in descendants(os.getpid())
    process.wait()
    assert signal.SIGKILL == 9
