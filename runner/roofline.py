"""The floor under a workload's time: what no kernel can beat on this device, from the vendor's peaks less what the caches can hold."""

from __future__ import annotations

from runner.spec.workload import Workload
from runner.targets.protocol import Device


def floor_seconds(workload: Workload, device: Device) -> float:
    """The least time of one call. Bytes beyond the cache's size must cross the memory's peak; all bytes the cache's; all
    operations the arithmetic's. A dirty or warm cache can spare a kernel no more than its size, so that no honest time lies below."""
    beyond = max(0.0, workload.bytes - device.cache_bytes)
    return max(beyond / device.peak_bytes_per_s, workload.bytes / device.peak_cache_bytes_per_s, workload.flops / device.peak_flops)


def implausible(workload: Workload, device: Device, seconds: float) -> str | None:
    """Why a measured time cannot be: None when it can."""
    floor = floor_seconds(workload, device)
    if seconds >= floor:
        return None
    return (
        f"{workload.name}: {seconds * 1e6:.3g} µs a call is below the floor of {floor * 1e6:.3g} µs: {workload.bytes:.4g} bytes at most "
        f"{device.peak_bytes_per_s:.3g} bytes/s beyond a cache of {device.cache_bytes} bytes ({device.peak_cache_bytes_per_s:.3g} bytes/s "
        f"within), {workload.flops:.4g} operations at most {device.peak_flops:.3g} a second"
    )
