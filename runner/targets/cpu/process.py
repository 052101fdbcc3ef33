"""A process in the sandbox: started, named by its pid outside, stopped and continued, and seen to die."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from runner import sandbox
from runner.errors import FactoryError
from runner.targets.cpu import clock
from runner.targets.cpu.clock import Outcome

STILL_SECONDS = 10.0
REAP_SECONDS = 10.0
LAST_WORDS = 400
JUDGE_FD = "{judge}"
"""Stands in a program's arguments for the number of a descriptor that is readable (at its end) once the judge is gone."""


class SandboxedProcess:
    """One program in its own sandbox, with the descriptor `fd` inherited.

    Its messages go to the file `log`, or to a pipe that holds 64 KiB and never blocks it.
    """

    def __init__(
        self, view: sandbox.View, program: Sequence[str], environment: Mapping[str, str], fd: int, log: Path | None = None
    ) -> None:
        self._messages, messages_end = os.pipe()
        fcntl.fcntl(messages_end, fcntl.F_SETFL, os.O_NONBLOCK)
        judge, self._alive = os.pipe()
        if log is not None:
            os.close(messages_end)
            messages_end = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        words = [str(judge) if word == JUDGE_FD else word for word in program]
        try:
            self._running = sandbox.Running(view, words, environment, messages_end, messages_end, (judge, fd))
        except FactoryError as error:
            raise FactoryError(f"{error}: {self._last_words() or 'it said nothing'}") from None
        finally:
            os.close(messages_end)
            os.close(judge)
        self.pid = self._running.pid
        self.pidfd = self._running.pidfd
        # Should memory run out, this process goes first. Best effort: it may have ended already.
        with contextlib.suppress(OSError):
            Path(f"/proc/{self.pid}/oom_score_adj").write_text("1000")

    def stop(self) -> None:
        """Stop every thread, and wait until they stand still."""
        clock.stop(self.pidfd)
        self.stand_still()

    def stand_still(self) -> None:
        """Wait until every thread stands still; a process that can't be stopped is killed."""
        if clock.stand_still(self.pid, self.pidfd, STILL_SECONDS) is Outcome.TIMEOUT:
            self._running.kill()

    def alive(self) -> bool:
        """Whether it has not ended."""
        return not self._running.ended()

    def died(self) -> tuple[int, str]:
        """For a process that ended: its status (128 + the signal, where one ended it) and its last words (untrusted, made plain)."""
        status = self._running.wait(REAP_SECONDS)
        return 128 + 9 if status is None else status, self._last_words()

    def _last_words(self) -> str:
        """What the pipe holds; the pipe's ends are given up."""
        words = b""
        if self._messages >= 0:
            os.set_blocking(self._messages, False)
            with contextlib.suppress(BlockingIOError):
                words = os.read(self._messages, 1 << 16)
        self._close_pipes()
        return plain(words)

    def close(self) -> bool:
        """End the process, reap it, and give up its files; whether it is surely gone. Safe to call twice."""
        gone = self._running.close()
        self.pidfd = -1
        self._close_pipes()
        return gone

    def _close_pipes(self) -> None:
        for fd in (self._messages, self._alive):
            if fd >= 0:
                os.close(fd)
        self._messages = self._alive = -1


def plain(words: bytes) -> str:
    """The last of what a process said, on one line, printable ASCII only."""
    text = " ".join(words.decode("ascii", errors="replace").split())
    return "".join(letter if " " <= letter <= "~" else "?" for letter in text)[-LAST_WORDS:]
