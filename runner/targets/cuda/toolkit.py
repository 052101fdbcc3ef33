"""Where the CUDA toolkit's parts are on this machine: headers, the disassembler, the driver's library and its device nodes."""

from __future__ import annotations

import importlib.util
import os
import shutil
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from runner.errors import FactoryError

REMEDY = "`pip install 'kernel-factory[cuda]'`"
_HEADERS = ("cuda_bf16.h", "cooperative_groups.h")


@lru_cache(maxsize=1)
def include_folders() -> tuple[Path, ...]:
    """Folders with CUDA's own headers and with `cuda/std`. Raises `FactoryError` where there are none."""
    candidates = [Path(folder) / "include" for folder in _wheel_folders()]
    candidates += [Path(home) / "include" for home in (os.environ.get("CUDA_HOME", ""), "/usr/local/cuda") if home]
    for folder in candidates:
        if not (folder / "cuda_bf16.h").is_file():
            continue
        library = next((place for place in (folder / "cccl", folder) if (place / "cuda" / "std" / "cstdint").is_file()), None)
        if library is not None:
            return tuple(dict.fromkeys((folder, library)))
    raise FactoryError(f"CUDA's headers ({', '.join(_HEADERS)}, cuda/std) are not here: {REMEDY}")


def _wheel_folders() -> list[str]:
    """The folders of NVIDIA's wheels, such as `site-packages/nvidia/cu13`."""
    package = importlib.util.find_spec("nvidia")
    places = list(package.submodule_search_locations or ()) if package else []
    return [str(folder) for place in places for folder in sorted(Path(place).glob("cu1*"), reverse=True)]


def compiler_version() -> str:
    """NVRTC's version as it is installed. Raises `FactoryError` where it isn't."""
    for name in ("nvidia-cuda-nvrtc",):
        try:
            return f"NVRTC {version(name)}, cuda-bindings {version('cuda-bindings')}"
        except PackageNotFoundError:
            continue
    raise FactoryError(f"NVRTC is not installed: {REMEDY}")


@lru_cache(maxsize=1)
def disassembler() -> Path | None:
    """`nvdisasm` of the wheel, of the toolkit, or from PATH; None where there is none: SASS facts are then left out."""
    for folder in _wheel_folders():
        if os.access(Path(folder) / "bin" / "nvdisasm", os.X_OK):
            return Path(folder) / "bin" / "nvdisasm"
    found = shutil.which("nvdisasm", path=f"{os.environ.get('PATH', '')}:/usr/local/cuda/bin")
    return Path(found) if found else None


def driver_folders() -> tuple[Path, ...]:
    """Folders outside the system's own in which the loader is told to look, among them the driver's on some machines."""
    return tuple(Path(place) for place in os.environ.get("LD_LIBRARY_PATH", "").split(":") if place and Path(place).is_dir())


def device_nodes() -> tuple[str, ...]:
    """The GPUs' device nodes, control nodes too."""
    return tuple(sorted(str(node) for node in Path("/dev").glob("nvidia*") if not node.is_dir()))
