"""This machine's processors: identity, caches, and peaks that no honest kernel can beat.

The peaks decide what is `implausible`, so each errs on the high side: a table of vendors' figures for memory where the CPU's family
is known, a figure above most sockets where it isn't, and for caches and arithmetic more than the cores can do.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache

from runner.targets.cpu.features import cpu_flags
from runner.targets.cpu.machine import all_cache_bytes, cpuinfo, last_level_cache, machine_id, sockets
from runner.targets.protocol import Device

_GIGA = 1e9

# A CPU whose family is unknown is taken to have twelve channels of DDR5-6400 a socket, and to run at 6 GHz.
DEFAULT_MEMORY = 614.4 * _GIGA
DEFAULT_CLOCK = 6.0e9


@dataclass(frozen=True)
class Family:
    """A CPU family: its name, memory peak a socket in bytes/s (channels × rate × 8, from the vendor's data sheets), highest clock in Hz."""

    name: str
    memory: float
    clock: float


# (vendor, family, models) of /proc/cpuinfo. One model number covers server and workstation parts: the larger figure stands.
_FAMILIES: tuple[tuple[str, int, range, Family], ...] = (
    ("AuthenticAMD", 23, range(0x00, 0x10), Family("Zen (EPYC 7001, Ryzen 1000)", 170.7 * _GIGA, 4.3e9)),
    ("AuthenticAMD", 23, range(0x30, 0x40), Family("Zen 2 (EPYC 7002, Threadripper 3000)", 204.8 * _GIGA, 4.5e9)),
    ("AuthenticAMD", 23, range(0x60, 0xA1), Family("Zen 2 (Ryzen 3000, 4000)", 68.3 * _GIGA, 4.7e9)),
    ("AuthenticAMD", 25, range(0x00, 0x10), Family("Zen 3 (EPYC 7003, Threadripper 5000)", 204.8 * _GIGA, 4.6e9)),
    ("AuthenticAMD", 25, range(0x10, 0x20), Family("Zen 4 (EPYC 9004, Threadripper 7000)", 460.8 * _GIGA, 5.4e9)),
    ("AuthenticAMD", 25, range(0x20, 0x60), Family("Zen 3 (Ryzen 5000, 6000)", 102.4 * _GIGA, 5.0e9)),
    ("AuthenticAMD", 25, range(0x60, 0x80), Family("Zen 4 (Ryzen 7000, 8000)", 120.0 * _GIGA, 5.8e9)),
    ("AuthenticAMD", 25, range(0xA0, 0xB0), Family("Zen 4c (EPYC 9704, 8004)", 460.8 * _GIGA, 4.5e9)),
    ("AuthenticAMD", 26, range(0x00, 0x20), Family("Zen 5 (EPYC 9005)", 614.4 * _GIGA, 5.1e9)),
    ("GenuineIntel", 6, range(0x55, 0x56), Family("Skylake-SP, Cascade Lake, Cooper Lake", 140.8 * _GIGA, 4.8e9)),
    ("GenuineIntel", 6, range(0x6A, 0x6D), Family("Ice Lake-SP", 204.8 * _GIGA, 4.2e9)),
    ("GenuineIntel", 6, range(0x8F, 0x90), Family("Sapphire Rapids", 307.2 * _GIGA, 4.9e9)),
    ("GenuineIntel", 6, range(0xCF, 0xD0), Family("Emerald Rapids", 358.4 * _GIGA, 4.8e9)),
    ("GenuineIntel", 6, range(0xAD, 0xAF), Family("Granite Rapids (MRDIMM-8800)", 844.8 * _GIGA, 4.6e9)),
)


# The Sapphire Rapids that carry their own memory are told by their name only ("Xeon(R) CPU Max 9480").
_WITH_HBM = Family("Sapphire Rapids with HBM", 1640.0 * _GIGA, 4.2e9)


def family(info: dict[str, str]) -> Family | None:
    """The CPU's family from the table, None when it isn't there."""
    try:
        number, model = int(info["cpu family"]), int(info["model"])
    except (KeyError, ValueError):
        return None
    for vendor, wanted, models, found in _FAMILIES:
        if info.get("vendor_id") == vendor and number == wanted and model in models:
            return _WITH_HBM if " CPU Max " in info.get("model name", "") else found
    return None


def _operations_a_cycle() -> int:
    """Operations that a core does in a cycle at most: two fused multiply-adds on full vectors, or a matrix unit's where there is one."""
    flags = cpu_flags()
    lanes = 16 if "avx512f" in flags or os.uname().machine != "x86_64" else 8
    if flags & {"amx_bf16", "amx_int8", "sme"}:
        return 2 * 2 * 16 * 32
    return 2 * 2 * lanes * (4 if flags & {"avx512_bf16", "avx512_vnni", "avx512_fp16", "avx_vnni", "bf16", "i8mm"} else 1)


@lru_cache(maxsize=1)
def this_device() -> Device:
    """The processors that this process may use, as a `Device`."""
    info = cpuinfo()
    known = family(info)
    cores = len(os.sched_getaffinity(0))
    clock = known.clock if known else DEFAULT_CLOCK
    memory = (known.memory if known else DEFAULT_MEMORY) * sockets()
    model = info.get("model name") or info.get("CPU part") or "unknown CPU"
    facts: dict[str, str | int | float] = {
        "cores": cores,
        "family": known.name if known else "unknown (generous defaults)",
        "last_level_cache": last_level_cache(),
        "clock_hz": clock,
    }
    return Device(
        id=machine_id(),
        name=f"{model} ({cores} cores)",
        cache_bytes=all_cache_bytes(),
        peak_bytes_per_s=memory,
        # Two loads of 64 bytes and a store of 64 a cycle and core: more than any first-level cache of the families above gives.
        peak_cache_bytes_per_s=cores * 3 * 64 * clock,
        peak_flops=cores * clock * _operations_a_cycle(),
        facts=facts,
    )
