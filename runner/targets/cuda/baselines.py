"""Baselines of a target with a GPU: the spec's Python functions, called in a sandboxed process with PyTorch, into given outputs."""

from __future__ import annotations

import os
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from runner.errors import FactoryError
from runner.spec.load import LoadedSpec
from runner.spec.models import Baseline
from runner.spec.workload import Workload
from runner.state import made, state_folder
from runner.targets.cuda.process import GpuProcess
from runner.targets.cuda.toolkit import driver_folders

_PROGRAM = ("-m", "runner.targets.cuda.serve_baseline")
PREPARE_SECONDS = 300.0
"""How long a baseline may compile and tune for a workload."""
_LIBRARY = "libcuda.so.1"
_SYSTEM = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/aarch64-linux-gnu")


def start(folder: Path) -> GpuProcess:
    """A process for the spec's baselines. It sees the spec's folder, and writes what PyTorch and Triton keep of their compiling."""
    cache = made(made(state_folder() / "inductor") / f"cuda-{torch_version()}")
    made(cache / "tmp")
    compilers = [str(Path(found).parent) for name in ("gcc", "ptxas") if (found := shutil.which(name))]
    extra = {"/spec": folder.resolve(), **{place: Path(place) for place in compilers if not place.startswith("/usr/bin")}}
    environment = {
        "PATH": ":".join(dict.fromkeys(["/usr/bin", "/bin", *compilers])),
        "TMPDIR": "/cache/tmp",
        "XDG_CACHE_HOME": "/cache/xdg",
        "TORCHINDUCTOR_CACHE_DIR": "/cache/inductor",
        "TRITON_CACHE_DIR": "/cache/triton",
        "TRITON_LIBCUDA_PATH": _driver_folder(),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "CUDA_CACHE_DISABLE": "0",
        "CUDA_MODULE_LOADING": "LAZY",
    }
    return GpuProcess(_PROGRAM, extra, {"/cache": cache.resolve()}, environment)


def _driver_folder() -> str:
    """Where the driver's library is."""
    places = [*(str(folder) for folder in driver_folders()), *_SYSTEM]
    return next((place for place in places if os.access(f"{place}/{_LIBRARY}", os.R_OK)), _SYSTEM[0])


def fields(baseline: Baseline, loaded: LoadedSpec, workload: Workload) -> dict[str, Any]:
    """What the process is told of a baseline's calls on a workload; tensors that it lacks are named too, and given as None."""
    spec = loaded.spec
    present = {**workload.inputs, **workload.outputs}
    tensors = [
        {"name": name, "dtype": workload.dtypes[name], "shape": list(present[name].shape) if name in present else []}
        for name in (*spec.inputs, *spec.outputs)
    ]
    return {"entry": baseline.entry, "compile": baseline.autotune == "fresh", "tensors": tensors, "scalars": dict(workload.scalars)}


def config(baseline: Baseline) -> str:
    """How a baseline is called, as far as it is known without calling it."""
    mode = "compiled for each shape (max-autotune-no-cudagraphs)" if baseline.autotune == "fresh" else "as written"
    return f"torch {torch_version()}, {mode}"


def torch_version() -> str:
    """PyTorch's version. Raises `FactoryError` where it isn't installed."""
    try:
        return version("torch")
    except PackageNotFoundError:
        raise FactoryError("PyTorch isn't installed, so there is no baseline: `pip install torch`") from None
