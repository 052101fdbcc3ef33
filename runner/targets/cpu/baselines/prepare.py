"""Opens a baseline for a workload: captured once (compiled for its exact shapes) and served natively, or called through Python."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from runner.errors import FactoryError
from runner.spec.load import LoadedSpec
from runner.spec.models import Baseline
from runner.spec.workload import Workload
from runner.state import made, state_folder
from runner.targets.cpu import shim
from runner.targets.cpu.baselines.zygote import zygote
from runner.targets.cpu.compiler import compiler_version
from runner.targets.cpu.features import cpu_flags
from runner.targets.cpu.launching import Program, make_arena, open_worker, twins, worker_environment
from runner.targets.cpu.worker import NativeWorker
from runner.targets.protocol import Placement

PREPARE_SECONDS = 300.0
START_SECONDS = 120.0


@dataclass(frozen=True)
class Plan:
    """How a baseline is called on a workload. `library`, a file beside the plan, is None where Python is called; `config` is for people."""

    library: str | None
    config: str


def plan_for(baseline: Baseline, loaded: LoadedSpec, workload: Workload) -> Plan:
    """The plan, made when it isn't there yet. Raises `FactoryError` when the baseline can't be prepared."""
    torch_version = _torch_version()
    folder = made(state_folder() / "plans")
    key = _key(baseline, loaded, workload, torch_version)
    record = folder / f"{key}.json"
    if record.exists():
        return Plan(**json.loads(record.read_text()))
    made_plan = _compiled(baseline, loaded, workload, folder, key, torch_version)
    part = folder / f"{key}.part"
    part.write_text(json.dumps(asdict(made_plan)))
    part.replace(record)
    return made_plan


def open_baseline(baseline: Baseline, loaded: LoadedSpec, workload: Workload, slots: int) -> NativeWorker:
    """See the Protocol's `Target.open_baseline`."""
    plan = plan_for(baseline, loaded, workload)
    call = shim.Call(tuple(shim.workload_blocks(workload)), (), ())
    names = (*workload.inputs, *workload.outputs)
    lost = f"the baseline {baseline.name} on {workload.name}"
    if plan.library is not None:
        program = Program(state_folder() / "plans" / plan.library, shim.ENTRY, replace(call, arguments=names))
        layouts = (workload.inputs, workload.outputs)
        return open_worker(NativeWorker, program, *layouts, slots, Placement.SPACED, start_seconds=START_SECONDS, lost=lost)
    # Python is told the number of the set only; the places of its tensors go with the request.
    arena = make_arena(call, slots * twins(call, slots, Placement.SPACED), Placement.SPACED)
    places = [[slot[name].start for name in names] for slot in arena.plan.slots]
    request = {**_request("serve", baseline, workload), "places": places, "compile": baseline.autotune == "fresh"}
    try:
        forked = zygote(loaded.folder, _cache(_torch_version())).ask(request, [arena.fd])
    except BaseException:
        arena.close(again=False)
        raise
    try:
        forked.receive(START_SECONDS)
    except BaseException as error:
        arena.close(again=forked.close())
        if isinstance(error, FactoryError):
            raise FactoryError(f"{lost}: {error}") from None
        raise
    return NativeWorker(
        arena,
        forked,
        workload.inputs,
        workload.outputs,
        lambda ready: np.arange(len(ready.plan.slots), dtype=np.uint64)[:, None],
        slots=slots,
        start_seconds=START_SECONDS,
        lost=lost,
    )


def _compiled(baseline: Baseline, loaded: LoadedSpec, workload: Workload, folder: Path, key: str, torch_version: str) -> Plan:
    called = f"torch {torch_version}, {worker_environment()['OMP_NUM_THREADS']} threads"
    if baseline.autotune == "none":
        return Plan(None, f"{called}, called through Python")
    cache = _cache(torch_version)
    try:
        answer = zygote(loaded.folder, cache).prepare(_request("prepare", baseline, workload), PREPARE_SECONDS)
    except FactoryError as error:
        raise FactoryError(f"the baseline {baseline.name} can't be prepared for {workload.name}: {error}") from None
    if "reason" in answer:
        return Plan(None, f"{called}, compiled for this shape, called through Python ({answer['reason']})")
    library = f"{key}.so"
    # A name from inside the sandbox: taken only as a file of the cache.
    source = (cache / str(answer["library"])).resolve()
    if not source.is_relative_to(cache.resolve()):
        raise FactoryError(f"the baseline {baseline.name} names a library outside its cache")
    shutil.copyfile(source, folder / library)
    return Plan(library, f"{called}, compiled for this shape: {answer['text']}")


def _request(kind: str, baseline: Baseline, workload: Workload) -> dict[str, Any]:
    layouts = [*workload.inputs.values(), *workload.outputs.values()]
    tensors = [{"name": layout.name, "dtype": layout.dtype, "shape": list(layout.shape)} for layout in layouts]
    return {"kind": kind, "entry": baseline.entry, "tensors": tensors, "scalars": dict(workload.scalars)}


def _key(baseline: Baseline, loaded: LoadedSpec, workload: Workload, torch_version: str) -> str:
    """What a plan depends on: versions, CPU, threads, the spec's Python files, the entry, the shapes, and how capturing works."""
    request = _request("prepare", baseline, workload)
    sources = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(loaded.folder.glob("*.py"))}
    ours = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(Path(__file__).parent.glob("*.py"))}
    content = [torch_version, compiler_version(), sorted(cpu_flags()), worker_environment(), sources, ours, baseline.autotune, request]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:40]


def _torch_version() -> str:
    try:
        return version("torch")
    except PackageNotFoundError:
        raise FactoryError("PyTorch isn't installed, so there is no baseline: `pip install torch`") from None


def _cache(torch_version: str) -> Path:
    """What the baseline sandbox may write: inductor's cache. No candidate's process ever sees it."""
    return made(state_folder() / "inductor" / torch_version)
