"""The machine lock: one holder at a time, between processes and between threads, and safe against what others may put in its place."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner import lock
from runner.errors import FactoryError


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(lock, "FOLDERS", (Path("/run/lock"), Path("/tmp")))
    name = f"test-{os.getpid()}"
    yield name
    lock.lock_path(name).unlink(missing_ok=True)


def test_the_lock_lies_where_every_user_may_write(device: str) -> None:
    path = lock.lock_path(device)
    assert path.parent in lock.FOLDERS
    with lock.device_lock(device):
        assert path.stat().st_mode & 0o777 == 0o666


def test_names_cannot_leave_the_folder() -> None:
    assert lock.lock_path("../../etc/x").parent in lock.FOLDERS


def test_another_process_waits(device: str) -> None:
    script = "import sys\nfrom runner.lock import device_lock\nwith device_lock(sys.argv[1]): print('held', flush=True)"
    with lock.device_lock(device):
        other = subprocess.Popen([sys.executable, "-c", script, device], stdout=subprocess.PIPE, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            other.communicate(timeout=1)
    assert other.communicate(timeout=30)[0] == "held\n"


def test_another_thread_waits_and_says_so(device: str, caplog: pytest.LogCaptureFixture) -> None:
    order: list[str] = []

    def hold() -> None:
        with lock.device_lock(device):
            order.append("other")

    with lock.device_lock(device):
        thread = threading.Thread(target=hold)
        thread.start()
        time.sleep(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "other"]
    assert "another evaluation holds this machine" in caplog.text


def test_the_same_thread_is_told_that_it_would_wait_for_ever(device: str) -> None:
    with lock.device_lock(device), pytest.raises(FactoryError, match="already"), lock.device_lock(device):
        pass
    with lock.device_lock(device):
        pass


def test_a_link_in_its_place_is_refused(device: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("keep")
    lock.lock_path(device).symlink_to(victim)
    with pytest.raises(FactoryError, match="cannot be opened"), lock.device_lock(device):
        pass
    assert victim.stat().st_mode & 0o777 != 0o666


def test_a_lock_file_of_another_user_can_be_held(device: str) -> None:
    """In a sticky folder Linux refuses `O_CREAT` on a file of another user, so an existing file is opened without it."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to make a file of another user")
    path = lock.lock_path(device)
    path.touch(0o666)
    os.chown(path, 65534, 65534)
    path.chmod(0o666)
    with lock.device_lock(device):
        pass


def test_precedence_is_asked_for_and_given_back() -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with lock.precedence():
        inside = os.getpriority(os.PRIO_PROCESS, 0)
        child = subprocess.run(
            [sys.executable, "-c", "import os; print(os.getpriority(os.PRIO_PROCESS, 0))"], capture_output=True, check=True
        )
    assert inside == int(child.stdout) == (min(before, lock.PRECEDENCE) if os.geteuid() == 0 else before)
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
