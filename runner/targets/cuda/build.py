"""Builds a candidate for one choice of knobs: NVRTC in the sandbox, once for each content, for any architecture, with no GPU.

All kernel instances that the spec's written workloads reach on a table row are built together; one that a hidden workload reaches besides
is added when it is met.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runner import sandbox
from runner.candidate import Candidate
from runner.errors import FactoryError
from runner.manifest import Build, KnobValue
from runner.python_view import python_path, python_view
from runner.spec.expressions import evaluate
from runner.spec.models import Policy
from runner.state import made, state_folder
from runner.targets.cuda import diagnostics, sass
from runner.targets.cuda.ptx import Read, read_ptx
from runner.targets.cuda.toolkit import compiler_version, disassembler, include_folders
from runner.targets.protocol import Binary
from runner.verdict import Rejected, Verdict

MEMORY = 16 << 30
CUBIN, RECORD = "kernel.cubin", "binary.json"
_SAFE = re.compile(r"[A-Za-z0-9_.+ -]{1,64}")
_CLOCK_HEADER = "cuda/std/__cuda/chrono.h"
_CLOCK_READ = re.compile(r"asm volatile\([^;]*globaltimer;[^;]*\)(?=;)")


def options(policy: Policy, build: Build, knobs: Mapping[str, KnobValue], arch: str) -> list[str]:
    """The compiler's options, from the manifest's `build`."""
    if build.fast_math and not policy.fast_math:
        raise Rejected(Verdict.POLICY_VIOLATION, "launch.yaml: build.fast_math is true, and the spec's policy does not allow it")
    line = [f"--gpu-architecture={arch}", f"--std={build.std}", "--ptxas-options=-v", "-I/src"]
    line.append("-I/factory/timeless")
    line += [f"-I/include/{index}" for index in range(len(include_folders()))]
    if build.fast_math:
        line.append("--use_fast_math")
    for name, value in build.defines.items():
        try:
            result = value if isinstance(value, int) else evaluate(value, knobs)
        except FactoryError as error:
            raise Rejected(Verdict.BUILD_ERROR, f"launch.yaml: build.defines.{name}: {error}") from None
        text = str(int(result)) if isinstance(result, bool) else str(result)
        if not _SAFE.fullmatch(text):
            raise Rejected(Verdict.BUILD_ERROR, f"launch.yaml: build.defines.{name} is `{text[:80]}`; allowed: numbers and plain words")
        line.append(f"--define-macro={name}={text}")
    return line


def build(policy: Policy, candidate: Candidate, knobs: Mapping[str, KnobValue], names: Sequence[str], arch: str) -> Binary:
    """See the Protocol's `Target.build`; `names` are the kernel instances. The same content is built once."""
    units = [name for name in candidate.manifest.sources if name.endswith(".cu")]
    if not units:
        raise Rejected(Verdict.BUILD_ERROR, "launch.yaml: `sources` names no .cu file")
    request = {"units": units, "names": list(names), "options": options(policy, candidate.manifest.build, knobs, arch)}
    files = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(candidate.files.items())}
    ours = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(Path(__file__).parent.glob("*.py"))}
    content = json.dumps([compiler_version(), request, files, ours, str(disassembler())], sort_keys=True)
    key = hashlib.sha256(content.encode()).hexdigest()
    folder = made(state_folder() / "binaries") / key[:2] / key
    if not (folder / RECORD).exists():
        _compile(policy, candidate, request, folder)
    record = json.loads((folder / RECORD).read_text())
    return Binary(folder / CUBIN, record["sha256"], dict(knobs), record["facts"], record["log"])


def symbols(binary: Binary) -> dict[str, str]:
    """The symbol of each kernel instance in a binary."""
    found: dict[str, str] = json.loads((binary.path.parent / RECORD).read_text())["lowered"]
    return found


def variables(binary: Binary) -> dict[str, int]:
    """The candidate's own global variables in a binary, with their sizes in bytes."""
    found: dict[str, int] = json.loads((binary.path.parent / RECORD).read_text())["variables"]
    return found


def parameters(binary: Binary) -> dict[str, tuple[int, ...]]:
    """The sizes in bytes of each kernel instance's parameters."""
    found = json.loads((binary.path.parent / RECORD).read_text())["parameters"]
    return {name: tuple(sizes) for name, sizes in found.items()}


def _compile(policy: Policy, candidate: Candidate, request: Mapping[str, Any], folder: Path) -> None:
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        place = Path(temporary)
        sources, trusted, output, done = (place / name for name in ("src", "factory", "out", "done"))
        for made_folder in (sources, trusted, output, done):
            made_folder.mkdir()
        for name, data in candidate.files.items():
            (sources / name).write_bytes(data)
        (trusted / "request.json").write_text(json.dumps(request))
        _stop_library_clock(trusted / "timeless" / _CLOCK_HEADER)
        began = time.monotonic()
        ended = _run(sources, trusted, output, policy.build_seconds)
        seconds = time.monotonic() - began
        if ended.timed_out:
            text = f"the compiler did not finish within {policy.build_seconds} s (the spec's policy.build_seconds)"
            raise Rejected(Verdict.BUILD_ERROR, text)
        answer = _answer(output / "answer.json")
        log = diagnostics.readable(answer.get("log", ""), set(candidate.files))
        if not answer.get("built"):
            crash = "the compiler crashed, or used up its memory" if not answer else "NVRTC gave no message about the candidate's own files"
            raise Rejected(Verdict.BUILD_ERROR, log or crash)
        read = read_ptx((output / "kernel.ptx").read_text(errors="replace"))
        if read.faults:
            raise Rejected(Verdict.POLICY_VIOLATION, "\n".join(read.faults))
        cubin = (output / CUBIN).read_bytes()
        (done / CUBIN).write_bytes(cubin)
        record = _record(answer, read, output, cubin, log)
        record["facts"] |= {"build_seconds": round(seconds, 2)}
        (done / RECORD).write_text(json.dumps(record))
        try:
            done.rename(folder)
        except OSError:
            # Another process built the same content in the meantime: its result stands.
            if not (folder / RECORD).exists():
                raise


def _stop_library_clock(place: Path) -> None:
    """The header by which CUDA's own library reads the time, with a clock that stands still, so that `cuda::barrier`, whose waits look
    at it to back off, may be used by kernels that are not to see the time."""
    place.parent.mkdir(parents=True)
    for folder in include_folders():
        header = folder / _CLOCK_HEADER
        if header.is_file():
            place.write_text(_CLOCK_READ.sub("__time = 0", header.read_text()))


def _answer(path: Path) -> dict[str, Any]:
    """The compiler process's answer; empty where it left none that can be read."""
    try:
        answer = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _run(sources: Path, trusted: Path, output: Path, seconds: float) -> sandbox.Ended:
    includes = {f"/include/{index}": folder.resolve() for index, folder in enumerate(include_folders())}
    view = python_view({"/src": sources, "/factory": trusted, **includes}, {"/out": output}, proc=False)
    program = [sys.executable, "-m", "runner.targets.cuda.compiling", "/factory/request.json", "/out"]
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "HOME": "/tmp", "TMPDIR": "/tmp", "PYTHONPATH": python_path()}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return sandbox.run(view, program, environment=environment, folder="/src", seconds=seconds, memory_bytes=MEMORY)


def _record(answer: Mapping[str, Any], read: Read, output: Path, cubin: bytes, log: str) -> dict[str, Any]:
    """What is kept of a build: symbols, parameters, and facts for people and agents."""
    lowered: dict[str, str] = answer["lowered"]
    used = diagnostics.resources(answer["log"])
    code = _disassembled(output)
    facts: dict[str, int | float] = {"binary_bytes": len(cubin), "instances": len(lowered)}
    lines = []
    for name, symbol in lowered.items():
        kernel = used.get(symbol, {}) | code.get(symbol, {})
        lines.append(f"{name}: " + ", ".join(f"{kind} {value}" for kind, value in kernel.items()))
        for kind, value in kernel.items():
            # Of several instances the largest counts.
            facts[kind] = max(facts.get(kind, 0), value)
    parameters = {name: list(read.kernels.get(symbol, ())) for name, symbol in lowered.items()}
    return {
        "sha256": hashlib.sha256(cubin).hexdigest(),
        "lowered": lowered,
        "parameters": parameters,
        "variables": read.variables,
        "facts": facts,
        "log": "\n".join([*([log] if log else []), *lines]),
    }


def _disassembled(output: Path) -> dict[str, dict[str, int]]:
    """Counts of instructions by symbol; nothing where there is no disassembler."""
    tool = disassembler()
    if tool is None:
        return {}
    view = sandbox.system_view(extra={"/tool": tool.resolve()}, scratch_bytes=1 << 28)
    view = sandbox.View({**view.read_only, "/out": output}, {}, view.links, 1 << 28, devices=True)
    ended = sandbox.run(view, ["/tool", "-c", f"/out/{CUBIN}"], seconds=60, memory_bytes=MEMORY, keep=1 << 28)
    return sass.count(ended.output.decode(errors="replace")) if ended.status == 0 else {}


def check_arguments(binary: Binary, kernel: str, sizes: Sequence[int], number: int) -> None:
    """`Rejected` (build_error) where a launch's arguments do not fit the parameters of the kernel as it was built."""
    wanted = parameters(binary)[kernel]
    if len(wanted) != len(sizes):
        message = f"launch {number} passes {len(sizes)} arguments; `{kernel}` has {len(wanted)} parameters"
        raise Rejected(Verdict.BUILD_ERROR, f"launch.yaml: {message}")
    for index, (given, size) in enumerate(zip(sizes, wanted, strict=True)):
        if given != size:
            message = f"launch {number}, argument {index + 1}: {given} bytes are passed; the parameter of `{kernel}` has {size}"
            raise Rejected(Verdict.BUILD_ERROR, f"launch.yaml: {message}")
