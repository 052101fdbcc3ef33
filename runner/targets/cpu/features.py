"""Which instruction sets a candidate may be built for, and which of them this CPU has."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

_V2 = ("cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")

# g++'s `-march` names with the flags of /proc/cpuinfo that each needs, by machine.
ARCHITECTURES: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {"x86-64": (), "x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4, "native": ()},
    "aarch64": {
        "armv8-a": (),
        "armv8.2-a": ("atomics", "asimdrdm"),
        "armv8.2-a+sve": ("atomics", "asimdrdm", "sve"),
        "armv9-a": ("atomics", "asimdrdm", "sve", "sve2"),
        "native": (),
    },
}


@lru_cache(maxsize=1)
def cpu_flags() -> frozenset[str]:
    """The features that this CPU has, by the kernel's names."""
    for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def architectures() -> dict[str, tuple[str, ...]]:
    """The names allowed on this kind of machine, with what each needs."""
    return ARCHITECTURES.get(os.uname().machine, {"native": ()})


def missing(name: str) -> tuple[str, ...]:
    """The features that code built for `name` needs and this CPU lacks."""
    return tuple(flag for flag in architectures()[name] if flag not in cpu_flags())


def runnable() -> tuple[str, ...]:
    """The names that this CPU can run."""
    return tuple(name for name in architectures() if not missing(name))
