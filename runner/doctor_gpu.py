"""What `doctor` looks at on a machine with an NVIDIA GPU: the driver, what kernels can reach, the compiler, the launcher, the lock."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator

from runner.doctor_check import Check
from runner.errors import FactoryError
from runner.lock import lock_path, open_lock
from runner.verdict import Rejected

PACKAGES = "`pip install 'kernel-factory[runner,cuda]'`"
_WANTED = {"torch": "PyTorch built for CUDA", "cuda.bindings": "the driver's bindings"}


def gpu_checks() -> Iterator[Check]:
    """Every check; nothing where the machine has no GPU. One that fails ends them: what follows needs it."""
    from runner.targets.cuda.toolkit import device_nodes

    if not device_nodes():
        return
    for check in (_packages, _gpu, _neighbours, _compiler, _launcher, _lock):
        found = _tried(check)
        yield found
        if not found.ok:
            return


def _tried(check: Callable[[], Check]) -> Check:
    try:
        return check()
    except (FactoryError, Rejected) as error:
        return Check(check.__name__.strip("_").replace("gpu", "GPU"), False, "failed", str(error)[:400])


def _packages() -> Check:
    for name, what in _WANTED.items():
        if importlib.util.find_spec(name.partition(".")[0]) is None or importlib.util.find_spec(name) is None:
            return Check("GPU packages", False, f"{what} is not installed", PACKAGES)
    import torch

    usable = torch.cuda.is_available()
    return Check("GPU packages", usable, f"PyTorch for CUDA {torch.version.cuda}", "install a PyTorch that is built for CUDA")


def _gpu() -> Check:
    from runner.targets.cuda.device import architecture, this_device

    found = this_device()
    return Check("GPU", True, f"{found.name} ({architecture(found)}), {found.id}, driver for CUDA {found.facts['cuda_driver']}, no HMM")


def _neighbours() -> Check:
    from runner.targets.cuda.device import other_processes, this_device

    others = other_processes(this_device())
    return Check("GPU to itself", not others, ", ".join(others) or "no other process uses it", "end them: they disturb what is measured")


def _compiler() -> Check:
    from runner.targets.cuda.device import architecture, this_device
    from runner.targets.cuda.toolkit import compiler_version, disassembler
    from runner.targets.cuda.trusted import binary

    binary(architecture(this_device()))
    reads = "reads machine code" if disassembler() is not None else "no nvdisasm: counts of instructions are left out"
    return Check("GPU compiler", True, f"{compiler_version()}: builds in the sandbox; {reads}")


def _launcher() -> Check:
    from runner.targets.cuda.device import architecture, this_device
    from runner.targets.cuda.launchers import Pool
    from runner.targets.cuda.process import GpuProcess
    from runner.targets.cuda.target import PROGRAM

    pool = Pool(lambda: GpuProcess(PROGRAM), architecture(this_device()))
    try:
        pool.give(pool.take("doctor"), "doctor")
    finally:
        pool.close()
    return Check("GPU launcher", True, "starts in the sandbox, and launches there")


def _lock() -> Check:
    from runner.targets.cuda.device import this_device

    path = lock_path(this_device().id)
    os.close(open_lock(path))
    return Check("GPU lock", True, str(path))
