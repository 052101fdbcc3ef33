"""The table of targets: which `hardware.target` of a spec is judged by which module."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from runner.errors import FactoryError
from runner.spec.models import Spec
from runner.targets.protocol import Target


@lru_cache(maxsize=1)
def _cpu() -> Target:
    from runner.targets.cpu.target import CpuTarget

    return CpuTarget()


def _cuda(name: str) -> Callable[[], Target]:
    @lru_cache(maxsize=1)
    def make() -> Target:
        try:
            from runner.targets.cuda.target import CudaTarget
        except ImportError as error:
            raise FactoryError(f"the target {name} needs more packages ({error}): `pip install 'kernel-factory[cuda]'`") from None
        return CudaTarget(name)

    return make


_TARGETS: dict[str, Callable[[], Target]] = {"cpu": _cpu, "sm_90a": _cuda("sm_90a"), "sm_100a": _cuda("sm_100a")}


def target_for(spec: Spec) -> Target:
    """The target that judges this spec. Raises `FactoryError` naming those that exist."""
    return target_named(spec.hardware.target)


def target_named(name: str) -> Target:
    """The target of this name; `cuda` is that of this machine's GPU. Raises `FactoryError` naming those that exist."""
    if name == "cuda":
        from runner.targets.cuda.device import architecture, this_device

        name = architecture(this_device())
    make = _TARGETS.get(name)
    if make is None:
        raise FactoryError(f"no target `{name}` is built into this version; there is: {', '.join(_TARGETS)}")
    return make()
