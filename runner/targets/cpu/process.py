"""A worker's process: started in the sandbox, named by its pid outside, stopped and continued, and seen to die."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from runner import sandbox
from runner.errors import FactoryError
from runner.targets.cpu import clock
from runner.targets.cpu.clock import Outcome

STILL_SECONDS = 10.0
REAP_SECONDS = 10.0
LAST_WORDS = 400


class SandboxedProcess:
    """One program in its own sandbox, with `fd` inherited. Its messages go to a pipe that holds 64 KiB and never blocks it."""

    def __init__(self, view: sandbox.View, program: Sequence[str], environment: Mapping[str, str], fd: int) -> None:
        info, info_end = os.pipe()
        self._messages, messages_end = os.pipe()
        fcntl.fcntl(messages_end, fcntl.F_SETFL, os.O_NONBLOCK)
        self.pidfd = -1
        try:
            line = sandbox.command(view, program, environment, info_fd=info_end)
            self._process = subprocess.Popen(
                line,
                stdin=subprocess.DEVNULL,
                stdout=messages_end,
                stderr=messages_end,
                env={},
                pass_fds=(info_end, fd),
                start_new_session=True,
            )
        except OSError as error:
            os.close(self._messages)
            raise FactoryError(f"the sandbox cannot be started: {error}") from None
        finally:
            os.close(info_end)
            os.close(messages_end)
        try:
            self.pid = sandbox.child_pid(info)
            self.pidfd = os.pidfd_open(self.pid)
            # Should memory run out, this process goes first. Best effort: the process may have ended already.
            with contextlib.suppress(OSError):
                Path(f"/proc/{self.pid}/oom_score_adj").write_text("1000")
        except (FactoryError, OSError):
            words = self._end()
            raise FactoryError(f"the sandbox did not start: {words or 'it said nothing'}") from None
        finally:
            os.close(info)

    def stop(self) -> None:
        """Stop every thread, and wait until they stand still."""
        clock.stop(self.pidfd)
        self.stand_still()

    def stand_still(self) -> None:
        """Wait until every thread stands still; a process that can't be stopped is killed."""
        if clock.stand_still(self.pid, self.pidfd, STILL_SECONDS) is Outcome.TIMEOUT:
            self.kill()

    def kill(self) -> None:
        """End it."""
        if self.pidfd < 0:
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def died(self) -> tuple[int, str]:
        """For a process that ended: its status (128 + the signal, where one ended it) and its last words (untrusted, made plain)."""
        words = self._end()
        return self._process.returncode, words

    def _end(self) -> str:
        """Reap it (killing what is left), and return its last words."""
        self._reap()
        words = b""
        if self._messages >= 0:
            os.set_blocking(self._messages, False)
            with contextlib.suppress(BlockingIOError):
                words = os.read(self._messages, 1 << 16)
        return plain(words)

    def _reap(self) -> None:
        """Wait for bubblewrap, which reaps its child and then ends with the child's status; end it by force if it does not."""
        try:
            self._process.wait(timeout=REAP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """End the process, reap it, and give up its files. Safe to call twice."""
        self.kill()
        self._reap()
        for fd in (self.pidfd, self._messages):
            if fd >= 0:
                os.close(fd)
        self.pidfd = self._messages = -1


def plain(words: bytes) -> str:
    """The last of what a process said, on one line, printable ASCII only."""
    text = " ".join(words.decode("ascii", errors="replace").split())
    return "".join(letter if " " <= letter <= "~" else "?" for letter in text)[-LAST_WORDS:]
