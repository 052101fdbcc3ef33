"""Baselines of a target with a GPU: the spec's Python functions, called in a sandboxed process with PyTorch, into given outputs."""

from __future__ import annotations

import hashlib
import json
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
from runner.targets.protocol import Configs, Device

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


def fields(baseline: Baseline, loaded: LoadedSpec, workload: Workload, chosen: str) -> dict[str, Any]:
    """What the process is told of a baseline's calls on a workload; tensors that it lacks are named too, and given as None."""
    spec = loaded.spec
    present = {**workload.inputs, **workload.outputs}
    tensors = [
        {"name": name, "dtype": workload.dtypes[name], "shape": list(present[name].shape) if name in present else []}
        for name in (*spec.inputs, *spec.outputs)
    ]
    compiled = baseline.autotune == "fresh"
    return {"entry": baseline.entry, "compile": compiled, "config": chosen, "tensors": tensors, "scalars": dict(workload.scalars)}


def require(baseline: Baseline) -> None:
    """Raises `FactoryError` where the package that a baseline needs isn't installed."""
    _package(baseline)


def _package(baseline: Baseline) -> str:
    """The package that a baseline needs, with its version; empty where it names none."""
    if not baseline.package:
        return ""
    try:
        return f"{baseline.package} {version(baseline.package)}"
    except PackageNotFoundError:
        raise FactoryError(f"{baseline.package} is not installed: `pip install {baseline.package}`") from None


def config(baseline: Baseline) -> str:
    """How a baseline is called, as far as it is known without calling it."""
    mode = "compiled for each shape (max-autotune-no-cudagraphs)" if baseline.autotune == "fresh" else "as written"
    return ", ".join(part for part in (_package(baseline), f"torch {torch_version()}", mode) if part)


def kept_configs(baseline: Baseline, loaded: LoadedSpec, workload: Workload, device: Device) -> Path:
    """The file in which the configurations for a workload are kept."""
    entry = str(baseline.configs)
    source = hashlib.sha256((loaded.folder / entry.partition(":")[0]).read_bytes()).hexdigest()
    shapes = repr((sorted(workload.axes.items()), sorted(workload.dtypes.items()), sorted(workload.inputs), sorted(workload.outputs)))
    key = "\0".join((device.name, str(device.facts["cuda_driver"]), torch_version(), _package(baseline), entry, source, shapes))
    return state_folder() / "configs" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


def read_configs(path: Path) -> Configs | None:
    """Kept configurations; None where nothing readable was kept."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return Configs(tuple(str(text) for text in kept["texts"]), str(kept["note"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write_configs(path: Path, found: Configs) -> None:
    """Keep configurations."""
    made(path.parent)
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps({"texts": found.texts, "note": found.note}), encoding="utf-8")
    part.replace(path)


def torch_version() -> str:
    """PyTorch's version. Raises `FactoryError` where it isn't installed."""
    try:
        return version("torch")
    except PackageNotFoundError:
        raise FactoryError("PyTorch isn't installed, so there is no baseline: `pip install torch`") from None
