"""A sandboxed process with the GPU in reach, and the judge's end of the socket on which it is told what to do.

A message is a JSON object, its answer likewise; descriptors of memory and binaries go with messages. The process is trusted code; what
candidates bring runs on the GPU alone, in this process's address space there.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runner import sandbox
from runner.python_view import python_path, python_view
from runner.targets.cuda.toolkit import device_nodes, driver_folders

MESSAGE = 1 << 22
FEW_DESCRIPTORS = 200


class Ended(Exception):
    """The process ended, or gave no answer in time (`timed_out`). `words` are the last that it printed."""

    def __init__(self, timed_out: bool, words: str) -> None:
        self.timed_out = timed_out
        self.words = words
        super().__init__("no answer in time" if timed_out else f"ended: {words}")


class GpuProcess:
    """A program of this package, started with the descriptor of its socket as last argument. Raises `FactoryError` when it can't start."""

    def __init__(
        self,
        program: Sequence[str],
        extra: Mapping[str, Path] | None = None,
        writable: Mapping[str, Path] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * MESSAGE)
        self._socket = ours
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self._words = ""
        folders = {str(folder): folder for folder in driver_folders()}
        system = {"/sys": Path("/sys")}
        view = python_view({**system, **folders, **(extra or {})}, writable, nodes=device_nodes())
        try:
            self._running = sandbox.Running(
                view,
                [sys.executable, *program, str(theirs.fileno())],
                {**environment(), **(variables or {})},
                self._log.fileno(),
                self._log.fileno(),
                keep=(theirs.fileno(),),
            )
        finally:
            theirs.close()
        self.alive = True

    def ask(self, message: Mapping[str, Any], seconds: float, descriptors: Sequence[int] = ()) -> dict[str, Any]:
        """Send a message and wait for its answer. Raises `Ended`, after which the process is gone."""
        self.tell(message, descriptors)
        return self.answer(seconds)

    def tell(self, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send a message, its descriptors in as many parts as they need."""
        parts = [descriptors[first : first + FEW_DESCRIPTORS] for first in range(0, len(descriptors), FEW_DESCRIPTORS)]
        try:
            for part in parts[:-1]:
                socket.send_fds(self._socket, [b"{}"], list(part))
            socket.send_fds(self._socket, [json.dumps(message).encode()], list(parts[-1]) if parts else [])
        except OSError:
            raise self._ended(False) from None

    def answer(self, seconds: float) -> dict[str, Any]:
        """The next answer. Raises `Ended`."""
        ready, _, _ = select.select([self._socket], [], [], seconds)
        if not ready:
            raise self._ended(True)
        try:
            data = self._socket.recv(MESSAGE)
        except OSError:
            data = b""
        if not data:
            raise self._ended(False)
        answer: dict[str, Any] = json.loads(data)
        return answer

    def _ended(self, timed_out: bool) -> Ended:
        self.close()
        return Ended(timed_out, self._words)

    def close(self) -> None:
        """End it. Safe to call twice."""
        self.alive = False
        self._socket.close()
        self._running.close()
        if not self._log.closed:
            self._words = _end_of(self._log.fileno())
            self._log.close()


def _end_of(log: int) -> str:
    """The end of what was printed inside, made plain."""
    size = os.fstat(log).st_size
    text = os.pread(log, 2000, max(0, size - 2000)).decode(errors="replace")
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())[-600:]


def environment() -> dict[str, str]:
    """The environment of a sandboxed process that uses the GPU."""
    chosen = {name: os.environ[name] for name in ("CUDA_VISIBLE_DEVICES",) if name in os.environ}
    return {
        **chosen,
        "PATH": "/usr/bin:/bin",
        "HOME": "/tmp",
        "USER": "factory",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": python_path(),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LD_LIBRARY_PATH": ":".join(str(folder) for folder in driver_folders()),
        "CUDA_MODULE_LOADING": "EAGER",
        "CUDA_CACHE_DISABLE": "1",
    }
