"""The GPU that judges: identity, caches, and peaks that no honest kernel can beat, from what the driver says of it.

The peaks decide what is `implausible`, so each errs on the high side.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from cuda.bindings import driver as d

from runner.errors import FactoryError
from runner.targets.cuda import driver
from runner.targets.protocol import Device

SLOT_BYTES = 24 << 30
"""The most device memory that one side's slots take: two sides, the oracle's tensors and the pool fit beside each other in 80 GB."""
BLOCK_SECONDS = 1e-3
MOST_SLOTS = 40
QUADS = 2
FAR = 1.5
_CACHE_BYTES_A_CYCLE = 128  # an SM's first-level cache
_OPERATIONS_A_CYCLE = 16384  # an SM's tensor cores, 8-bit and sparse
_QUERY = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu", "clocks_event_reasons.active")


@lru_cache(maxsize=1)
def this_device() -> Device:
    """The first GPU that this process may use. Raises `FactoryError` where there is none, or none that may judge strangers' kernels."""
    try:
        device = driver.start()
        return _described(device)
    except driver.DriverError as error:
        raise FactoryError(f"no GPU can be used here ({error}); a target with a GPU is judged on a machine that has one") from None


def _described(device: Any) -> Device:
    if driver.attribute(device, "PAGEABLE_MEMORY_ACCESS"):
        raise FactoryError(
            "this GPU can address all of its process's host memory (HMM or ATS), so that a kernel could change the launcher: nothing is "
            "judged here. Load the driver's module with `uvm_disable_hmm=1`"
        )
    name = bytes(driver.call(d.cuDeviceGetName, 128, device)).split(b"\0")[0].decode()
    uuid = bytes(driver.call(d.cuDeviceGetUuid, device).bytes).hex()
    sms, clock = driver.attribute(device, "MULTIPROCESSOR_COUNT"), 1e3 * driver.attribute(device, "CLOCK_RATE")
    memory_clock, width = driver.attribute(device, "MEMORY_CLOCK_RATE"), driver.attribute(device, "GLOBAL_MEMORY_BUS_WIDTH")
    major, minor = driver.attribute(device, "COMPUTE_CAPABILITY_MAJOR"), driver.attribute(device, "COMPUTE_CAPABILITY_MINOR")
    version = int(driver.call(d.cuDriverGetVersion))
    return Device(
        id=f"gpu-{uuid[:8]}-{uuid[8:12]}-{uuid[12:16]}-{uuid[16:20]}-{uuid[20:]}",
        name=name,
        cache_bytes=driver.attribute(device, "L2_CACHE_SIZE"),
        # Two transfers a cycle of the memory's clock.
        peak_bytes_per_s=2e3 * memory_clock * width / 8,
        peak_cache_bytes_per_s=sms * clock * _CACHE_BYTES_A_CYCLE,
        peak_flops=sms * clock * _OPERATIONS_A_CYCLE,
        slot_bytes=SLOT_BYTES,
        block_seconds=BLOCK_SECONDS,
        most_slots=MOST_SLOTS,
        quads=QUADS,
        far=FAR,
        facts={
            "capability": f"{major}.{minor}",
            "sms": sms,
            "l2_bytes": driver.attribute(device, "L2_CACHE_SIZE"),
            "sm_clock_mhz": clock / 1e6,
            "memory_clock_mhz": memory_clock / 1e3,
            "cuda_driver": f"{version // 1000}.{version % 1000 // 10}",
        },
    )


def architecture(device: Device) -> str:
    """The architecture of code that this device runs, as a spec's `hardware.target` says it."""
    return "sm_" + str(device.facts["capability"]).replace(".", "") + "a"


def condition(device: Device) -> dict[str, str]:
    """Clocks, power, temperature and why clocks are held down, as `nvidia-smi` says; empty where there is no such program."""
    uuid = "GPU-" + device.id.removeprefix("gpu-")
    line = ["nvidia-smi", f"--id={uuid}", f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader,nounits"]
    found = _said(line)
    if found is None:
        return {}
    others = other_processes(device)
    return {**dict(zip(_QUERY, found.split(", "), strict=False)), "other processes on the GPU": ", ".join(others) or "none"}


def other_processes(device: Device) -> tuple[str, ...]:
    """Programs that use the GPU and were not started by this process, as `name (pid)`; none where `nvidia-smi` does not say."""
    uuid = "GPU-" + device.id.removeprefix("gpu-")
    lines = _said(["nvidia-smi", f"--id={uuid}", "--query-compute-apps=pid,process_name", "--format=csv,noheader"])
    pairs = [line.split(", ", 1) for line in (lines or "").splitlines()]
    return tuple(
        f"{Path(pair[1]).name} ({pair[0]})" for pair in pairs if len(pair) == 2 and pair[0].isdecimal() and not _ours(int(pair[0]))
    )


def _said(line: Sequence[str]) -> str | None:
    try:
        return subprocess.run(line, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _ours(pid: int) -> bool:
    """Whether a process is this one or descends from it."""
    while pid > 1:
        if pid == os.getpid():
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return False
    return False
