"""The judge's side of the baseline sandbox: one for each spec folder, started when first needed, ended with the judge."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import shutil
import signal
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runner import sandbox
from runner.errors import FactoryError
from runner.python_view import python_path, python_view
from runner.state import made
from runner.targets.cpu import clock
from runner.targets.cpu.clock import Outcome
from runner.targets.cpu.compiler import serve_library
from runner.targets.cpu.launching import worker_environment
from runner.targets.cpu.process import STILL_SECONDS, SandboxedProcess, plain

MESSAGE = 1 << 20


class Forked:
    """A process that the zygote forked for one request: its pid as the judge sees it, and the socket on which it answers."""

    def __init__(self, answers: socket.socket, log: Path) -> None:
        self._answers = answers
        self._log = log
        self.pid = -1
        self.pidfd = -1

    def receive(self, seconds: float) -> dict[str, Any]:
        """The next answer. Raises `FactoryError` when the process reports an error, ends, or says nothing for `seconds`."""
        ready, _, _ = select.select([self._answers], [], [], seconds)
        if not ready:
            raise FactoryError(f"no answer within {seconds:g} s")
        data, ancillary, _flags, _address = self._answers.recvmsg(MESSAGE, socket.CMSG_SPACE(struct.calcsize("3i")))
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS and self.pid < 0 and data:
                self.pid = struct.unpack("3i", content[: struct.calcsize("3i")])[0]
                try:
                    self.pidfd = os.pidfd_open(self.pid)
                except ProcessLookupError:
                    # It has ended already. What it said last says why.
                    return self.receive(seconds)
        if not data:
            raise FactoryError(f"it ended without an answer: {self.last_words()}")
        answer: dict[str, Any] = json.loads(data)
        if "error" in answer:
            raise FactoryError(str(answer["error"]))
        return answer

    def send(self, request: Mapping[str, Any]) -> None:
        """Give it another request (a preparing process takes many). Raises `FactoryError` when it ended."""
        try:
            self._answers.send(json.dumps(request).encode())
        except OSError:
            raise FactoryError(f"it ended: {self.last_words()}") from None

    def last_words(self) -> str:
        """The end of what was printed inside."""
        return plain(self._log.read_bytes()[-2000:])

    def stop(self) -> None:
        """See `runner.targets.cpu.worker.Process`."""
        clock.stop(self.pidfd)
        self.stand_still()

    def stand_still(self) -> None:
        """See `runner.targets.cpu.worker.Process`."""
        if clock.stand_still(self.pid, self.pidfd, STILL_SECONDS) is Outcome.TIMEOUT:
            self._kill()

    def died(self) -> tuple[int, str]:
        """Its status isn't known (the zygote is its parent); its last words are."""
        return 1, self.last_words()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def close(self) -> bool:
        """End it; whether it is surely gone (its memory serves another worker next). Safe to call twice."""
        gone = False
        if self.pidfd >= 0:
            self._kill()
            # The descriptor is readable once the process has ended; the zygote reaps it.
            gone = bool(select.select([self.pidfd], [], [], STILL_SECONDS)[0])
            os.close(self.pidfd)
            self.pidfd = -1
        self._answers.close()
        return gone


class Zygote:
    """The sandboxed Python process that has PyTorch loaded. It sees interpreter, compiler and spec folder; it writes `cache`."""

    def __init__(self, spec_folder: Path, cache: Path) -> None:
        made(cache / "tmp")
        self._log = cache / "baseline.log"
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = [sys.executable, "-m", "runner.targets.cpu.baselines.inside", str(theirs.fileno())]
        try:
            self._process = SandboxedProcess(_view(spec_folder, cache), program, _environment(), theirs.fileno(), self._log)
        finally:
            theirs.close()
        self._requests = ours
        self._preparing: Forked | None = None
        atexit.register(self.close)

    def alive(self) -> bool:
        """Whether it can take requests."""
        return self._process.alive()

    def ask(self, request: Mapping[str, Any], descriptors: Sequence[int] = ()) -> Forked:
        """Have a fresh process forked for a request. Raises `FactoryError` when there is none."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        forked = Forked(ours, self._log)
        try:
            socket.send_fds(self._requests, [json.dumps(request).encode()], [theirs.fileno(), *descriptors])
        except OSError:
            theirs.close()
            forked.close()
            raise FactoryError(f"the baseline process ended: {forked.last_words()}") from None
        theirs.close()
        try:
            # The first request waits until PyTorch is imported.
            forked.receive(seconds=120)
        except FactoryError:
            forked.close()
            raise
        return forked

    def prepare(self, request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Have a request answered by the one process that prepares. Raises `FactoryError` when it fails, and forgets the process then."""
        try:
            if self._preparing is None:
                self._preparing = self.ask(request)
            else:
                self._preparing.send(request)
            return self._preparing.receive(seconds)
        except FactoryError:
            if self._preparing is not None:
                self._preparing.close()
                self._preparing = None
            raise

    def close(self) -> None:
        """End it and everything that it forked. Safe to call twice."""
        atexit.unregister(self.close)
        if self._preparing is not None:
            self._preparing.close()
            self._preparing = None
        self._requests.close()
        self._process.close()


def _view(spec_folder: Path, cache: Path) -> sandbox.View:
    """The system's programs, the Python installation, this package, the spec; `/cache` is writable."""
    return python_view({"/spec": spec_folder.resolve(), "/serve.so": serve_library()}, {"/cache": cache.resolve()})


def _environment() -> dict[str, str]:
    return {
        **worker_environment(),
        "PATH": "/usr/bin:/bin",
        "HOME": "/tmp",
        "USER": "factory",
        "LC_ALL": "C.UTF-8",
        # Inductor keeps its precompiled header, the slowest part of compiling, below the temporary folder.
        "TMPDIR": "/cache/tmp",
        "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "1" if shutil.which("openssl", path="/usr/bin:/bin") else "0",
        "PYTHONPATH": python_path(),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TORCHINDUCTOR_CACHE_DIR": "/cache/inductor",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


_zygotes: dict[tuple[Path, Path], Zygote] = {}


def zygote(spec_folder: Path, cache: Path) -> Zygote:
    """The living zygote of a spec folder, started if need be."""
    key = (spec_folder.resolve(), cache.resolve())
    found = _zygotes.get(key)
    if found is None or not found.alive():
        if found is not None:
            found.close()
        found = _zygotes[key] = Zygote(spec_folder, cache)
    return found
