"""Memory files that judge and worker share, used again for the next worker: giving pages to a new file takes longer than a block.

A file is cleared before it is used again, so that no worker sees anything of an earlier one's, and it is given back only when the
process that had it has ended.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import threading

import numpy as np

from runner.errors import FactoryError

KEPT_BYTES = min(1536 << 20, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8)
"""How much is kept for later workers: two sides of the largest workload that is common."""
SMALL_BYTES = 8 << 20


class SharedMemory:
    """A sealed memory file of `size` bytes with the judge's view of it, as bytes and as a tensor."""

    def __init__(self, size: int) -> None:
        import torch  # here, since a build imports this module and needs no PyTorch

        self.size = size
        self.fd = os.memfd_create("kernel-factory", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, size)
            # The worker can't shrink it under the judge's feet.
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
            self._map = mmap.mmap(self.fd, size, mmap.MAP_SHARED | mmap.MAP_POPULATE, mmap.PROT_READ | mmap.PROT_WRITE)
        except OSError as error:
            os.close(self.fd)
            raise FactoryError(f"{size >> 20} MiB of memory for a worker can't be had: {error.strerror}") from None
        self.bytes = np.frombuffer(self._map, np.uint8)
        self.tensor = torch.frombuffer(self._map, dtype=torch.uint8)

    def close(self) -> None:
        """Give up the file; its pages go when the last view of them does."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


_kept: list[SharedMemory] = []
_guard = threading.Lock()


def take(size: int) -> SharedMemory:
    """A file of at least `size` bytes, all of it zero: the smallest kept one that is large enough and not much larger, else a new one."""
    with _guard:
        fitting = [memory for memory in _kept if size <= memory.size <= 2 * size + SMALL_BYTES]
        found = min(fitting, key=lambda memory: memory.size, default=None)
        if found is not None:
            _kept.remove(found)
    if found is None:
        return SharedMemory(size)
    found.bytes[:] = 0
    return found


def give(memory: SharedMemory) -> None:
    """Keep a file for a later worker. Smaller ones make room for it; one that is too large by itself is given up."""
    with _guard:
        _kept.append(memory)
        while sum(kept.size for kept in _kept) > KEPT_BYTES:
            smallest = min(_kept, key=lambda kept: kept.size)
            _kept.remove(smallest)
            smallest.close()
