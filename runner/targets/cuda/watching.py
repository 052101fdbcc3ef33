"""Has a tool of the CUDA toolkit watch a candidate's calls: in the sandbox, made by `runner.targets.cuda.watched`."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from runner import sandbox
from runner.errors import FactoryError
from runner.python_view import python_view
from runner.targets.cuda.launching import Call
from runner.targets.cuda.process import environment
from runner.targets.cuda.toolkit import device_nodes, driver_folders

KEEP = 32 << 20
"""Bytes of a tool's output that are read."""
_PLACES = ("/usr/local/cuda", "/opt/nvidia")


@dataclass(frozen=True)
class Watched:
    """A call to be watched: which binary, how it is launched (`fields` as the launcher is told it), the inputs by name, how often."""

    name: str
    binary: Path
    call: Call
    fields: Mapping[str, Any]
    inputs: Mapping[str, torch.Tensor]
    repeats: int = 1


@dataclass(frozen=True)
class Seen:
    """What a tool printed, calls and all, and how it ended (status None: not within its time)."""

    text: str
    status: int | None


def find(name: str) -> str | None:
    """The tool's program: from PATH or the toolkit's usual place; None where it is in neither."""
    return shutil.which(name) or shutil.which(name, path="/usr/local/cuda/bin")


def watch(tool: Sequence[str], calls: Sequence[Watched], seconds: float) -> Seen:
    """Run the calls under a tool (its program and options). Raises `FactoryError` where the sandbox does not start."""
    sandbox.probe()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
        request = {"calls": [_written(Path(folder), number, one) for number, one in enumerate(calls)]}
        (Path(folder) / "request.json").write_text(json.dumps(request))
        program = [*tool, sys.executable, "-m", "runner.targets.cuda.watched", "/factory/request.json"]
        running = sandbox.Running(_view(Path(folder), tool[0]), program, environment(), output.fileno(), output.fileno())
        try:
            status = running.wait(seconds)
        finally:
            running.close()
        output.seek(0)
        return Seen(output.read(KEEP).decode(errors="replace"), status)


def _written(folder: Path, number: int, one: Watched) -> dict[str, Any]:
    """A call as the watched process reads it, its files beside the request."""
    shutil.copyfile(one.binary, folder / f"{number}.cubin")
    inputs = {}
    for name, tensor in one.inputs.items():
        inputs[name] = f"/factory/{number}-{name}"
        plain = tensor.contiguous().reshape(-1).view(torch.uint8).cpu()
        (folder / f"{number}-{name}").write_bytes(plain.numpy().tobytes())
    return {
        "name": one.name,
        "binary": f"/factory/{number}.cubin",
        "blocks": [(block.name, block.size, block.offset) for block in one.call.blocks],
        "inputs": inputs,
        "call": one.fields["call"],
        "repeats": one.repeats,
    }


def _view(folder: Path, program: str) -> sandbox.View:
    places = {str(place): place for place in (*driver_folders(), *_tool_folders(program))}
    return python_view({"/sys": Path("/sys"), **places, "/factory": folder}, nodes=device_nodes())


def _tool_folders(program: str) -> list[Path]:
    """Where the toolkit's programs are, under the names by which they call each other. Raises `FactoryError` for one that is elsewhere."""
    usual = [Path(place) for place in _PLACES if Path(place).is_dir()]
    found = [*usual, *(place.resolve() for place in usual if place.resolve() != place)]
    within = [Path("/usr/bin"), Path("/usr/lib"), *found]
    if not any(Path(program).is_relative_to(place) for place in within):
        raise FactoryError(f"{program}: a sandbox shows tools of {', '.join(_PLACES)} only; install NVIDIA's packages there")
    return found
