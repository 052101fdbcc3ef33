"""What the kernel says about this machine's processors: identity, model, caches. It needs nothing but the standard library."""

from __future__ import annotations

import hashlib
import os
import re
from functools import lru_cache
from pathlib import Path

DEFAULT_CACHE = 32 << 20
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def cpuinfo() -> dict[str, str]:
    """The first processor's lines of /proc/cpuinfo."""
    found: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
        if not line.strip():
            break
        name, _, value = line.partition(":")
        found[name.strip()] = value.strip()
    return found


def sockets() -> int:
    """The number of CPU packages that the kernel reports, at least 1."""
    ids = set(re.findall(r"^physical id\s*:\s*(\d+)", Path("/proc/cpuinfo").read_text(errors="replace"), re.MULTILINE))
    return max(1, len(ids))


@lru_cache(maxsize=1)
def last_level_cache() -> int:
    """The bytes of the largest cache that the kernel reports for one core; a guess where it reports none."""
    sizes = []
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = index.read_text().strip()
        if text[:-1].isdigit() and text[-1] in _UNITS:
            sizes.append(int(text[:-1]) * _UNITS[text[-1]])
    return max(sizes, default=DEFAULT_CACHE)


def all_cache_bytes() -> int:
    """The bytes of every cache of the machine together (each shared cache once): what a call could at best find in caches."""
    seen: dict[tuple[str, str], int] = {}
    for index in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cache/index*"):
        try:
            level = (index / "level").read_text().strip()
            kind = (index / "type").read_text().strip()
            shared = (index / "shared_cpu_map").read_text().strip()
            text = (index / "size").read_text().strip()
        except OSError:
            continue
        if kind != "Instruction" and text[:-1].isdigit() and text[-1] in _UNITS:
            seen[level, shared] = int(text[:-1]) * _UNITS[text[-1]]
    return sum(seen.values()) or DEFAULT_CACHE


def machine_id() -> str:
    """A stable name of this machine that doesn't reveal the system's own id: it names the lock."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id", "/sys/class/dmi/id/product_uuid"):
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        if text:
            return "cpu-" + hashlib.sha256(f"kernel-factory:{text}".encode()).hexdigest()[:16]
    return "cpu-" + hashlib.sha256(f"kernel-factory:{os.uname().nodename}".encode()).hexdigest()[:16]
