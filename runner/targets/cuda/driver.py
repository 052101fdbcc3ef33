"""The CUDA driver's calls that judge and worker share, with errors as exceptions: a context, and physical memory that both map.

Memory is made by the judge, exported as a file descriptor, and mapped by the worker at places of its own; both see the same bytes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from cuda.bindings import driver as d


class DriverError(Exception):
    """A driver call failed. `name` is the driver's name for it, such as `CUDA_ERROR_ILLEGAL_ADDRESS`."""

    def __init__(self, name: str, what: str) -> None:
        self.name = name
        self.what = what
        super().__init__(f"{what}: {name}")


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """The value of a driver call (a tuple where there are several, None where there is none). Raises `DriverError`."""
    status, *values = function(*arguments)
    if int(status) != 0:
        raise DriverError(status.name if hasattr(status, "name") else str(status), function.__name__)
    return values[0] if len(values) == 1 else tuple(values) if values else None


def start(index: int = 0) -> Any:
    """Make the primary context of a device current in this thread, and return the device."""
    try:
        call(d.cuInit, 0)
    except RuntimeError:  # what the bindings raise where they find no driver to load
        raise DriverError("the NVIDIA driver is not installed", "cuInit") from None
    device = call(d.cuDeviceGet, index)
    call(d.cuCtxSetCurrent, call(d.cuDevicePrimaryCtxRetain, device))
    return device


def attribute(device: Any, name: str) -> int:
    """A device's attribute by the driver's name without its prefix."""
    return int(call(d.cuDeviceGetAttribute, getattr(d.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), device))


@lru_cache(maxsize=1)
def _properties() -> Any:
    properties = d.CUmemAllocationProp()
    properties.type = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = 0
    properties.requestedHandleTypes = _DESCRIPTOR
    return properties


_DESCRIPTOR = d.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR


@lru_cache(maxsize=1)
def granularity() -> int:
    """Bytes of which physical memory is a multiple."""
    return int(call(d.cuMemGetAllocationGranularity, _properties(), d.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM))


class Mapping:
    """Physical memory mapped into this process, alone in its reserved addresses: whatever lies before and after it faults."""

    def __init__(self, handle: Any, size: int, hint: int = 0) -> None:
        self._handle = handle
        self.size = size
        margin = granularity()
        self._room = size + 2 * margin
        self._reserved = call(d.cuMemAddressReserve, self._room, 0, hint, 0)
        self.address = int(self._reserved) + margin
        call(d.cuMemMap, self.address, size, 0, handle, 0)
        access = d.CUmemAccessDesc()
        access.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = 0
        access.flags = d.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        call(d.cuMemSetAccess, self.address, size, [access], 1)

    def export(self) -> int:
        """A file descriptor by which another process maps the same memory."""
        return int(call(d.cuMemExportToShareableHandle, self._handle, _DESCRIPTOR, 0))

    def close(self) -> None:
        """Unmap; the memory is given back when no process has it any more. Safe to call twice."""
        if self.size:
            call(d.cuMemUnmap, self.address, self.size)
            call(d.cuMemAddressFree, self._reserved, self._room)
            call(d.cuMemRelease, self._handle)
            self.size = 0


# Where a worker's memory is mapped: addresses that no kernel can guess from those that it was given.
FIRST_ADDRESS, LAST_ADDRESS, ADDRESS_UNIT = 1 << 43, 1 << 46, 1 << 25


def somewhere() -> int:
    """An address to map memory at, drawn anew each time."""
    return random.SystemRandom().randrange(FIRST_ADDRESS, LAST_ADDRESS, ADDRESS_UNIT)


def allocate(size: int, hint: int = 0) -> Mapping:
    """Fresh physical memory of `size` bytes (a multiple of the granularity), mapped near the address `hint` if it is free."""
    return Mapping(call(d.cuMemCreate, size, _properties(), 0), size, hint)


def adopt(descriptor: int, size: int, hint: int) -> Mapping:
    """Memory that another process exported, mapped near the address `hint` if it is free."""
    return Mapping(call(d.cuMemImportFromShareableHandle, descriptor, _DESCRIPTOR), size, hint)
