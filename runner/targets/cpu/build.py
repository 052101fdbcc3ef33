"""Builds a candidate: g++ in the sandbox, once for each content, with a message that an agent can act on."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from runner import sandbox
from runner.candidate import Candidate
from runner.errors import FactoryError
from runner.manifest import Build, KnobValue
from runner.spec.expressions import evaluate
from runner.spec.models import Spec
from runner.state import made, state_folder
from runner.targets.cpu import diagnostics, features, shim
from runner.targets.cpu.compiler import compiler, compiler_version
from runner.targets.protocol import Binary
from runner.verdict import Rejected, Verdict

MEMORY = 4 << 30
_SAFE = re.compile(r"[A-Za-z0-9_.+-]{1,64}")
_CLASSES = {
    "zmm": rb"%zmm",
    "ymm": rb"%ymm",
    "xmm": rb"%xmm",
    "streaming_stores": rb"\bv?movnt",
    "fused_multiply_adds": rb"\bvf(?:n?m)(?:add|sub)",
}


def architecture(build: Build, knobs: Mapping[str, KnobValue]) -> str:
    """The `-march` name that the manifest asks for. `Rejected` (build_error) when it isn't one of those allowed on this kind of machine."""
    allowed = features.architectures()
    if build.arch is None:
        return "native"
    name: object = build.arch
    if build.arch not in allowed:
        try:
            name = evaluate(build.arch, knobs)
        except FactoryError as error:
            raise Rejected(Verdict.BUILD_ERROR, f"launch.yaml: build.arch: {error}") from None
    if not isinstance(name, str) or name not in allowed:
        raise Rejected(Verdict.BUILD_ERROR, f"launch.yaml: build.arch is `{name}`; allowed on this kind of machine: {', '.join(allowed)}")
    return name


def require_runnable(name: str) -> None:
    """`Rejected` (launch_error) when this CPU lacks what code for `name` may use."""
    lacking = features.missing(name)
    if lacking:
        message = f"{name} needs {', '.join(lacking)}, which this CPU lacks; allowed here: {', '.join(features.runnable())}"
        raise Rejected(Verdict.LAUNCH_ERROR, message)


def flags(spec: Spec, build: Build, knobs: Mapping[str, KnobValue]) -> list[str]:
    """The compiler's options, from the manifest's `build`."""
    if build.fast_math and not spec.policy.fast_math:
        raise Rejected(Verdict.POLICY_VIOLATION, "launch.yaml: build.fast_math is true, and the spec's policy does not allow it")
    line = [
        f"-std={build.std}",
        f"-march={architecture(build, knobs)}",
        "-O3",
        "-ffp-contract=fast",
        "-fopenmp",
        "-fPIC",
        "-fvisibility=hidden",
        "-Wall",
    ]
    line.append("-ffast-math" if build.fast_math else "-fno-fast-math")
    for name, value in build.defines.items():
        try:
            result = value if isinstance(value, int) else evaluate(value, knobs)
        except FactoryError as error:
            raise Rejected(Verdict.BUILD_ERROR, f"launch.yaml: build.defines.{name}: {error}") from None
        text = str(int(result)) if isinstance(result, bool) else str(result)
        if not _SAFE.fullmatch(text):
            raise Rejected(Verdict.BUILD_ERROR, f"launch.yaml: build.defines.{name} is `{text[:80]}`; allowed: numbers and plain words")
        line.append(f"-D{name}={text}")
    return line


def build(spec: Spec, candidate: Candidate, knobs: Mapping[str, KnobValue]) -> Binary:
    """See the Protocol's `Target.build`. The same content is built once; its files lie where no worker can write."""
    manifest = candidate.manifest
    options = flags(spec, manifest.build, knobs)
    require_runnable(architecture(manifest.build, knobs))
    units = [name for name in manifest.sources if name.endswith(".cpp")]
    if not units:
        raise Rejected(Verdict.BUILD_ERROR, "launch.yaml: `sources` names no .cpp file")
    for name in candidate.files:
        if Path(name).name != name or name in (".", ".."):
            raise Rejected(Verdict.BUILD_ERROR, "a file's name leaves the candidate's folder")
    missing = [name for name in manifest.sources if name not in candidate.files]
    if missing:
        raise Rejected(Verdict.BUILD_ERROR, f"launch.yaml: `sources` names {', '.join(missing)}, which the candidate doesn't have")
    texts = {"declarations.hpp": shim.declarations(spec, manifest), "entry.cpp": shim.entry(spec, manifest)}
    key = _key(candidate, options, units, texts)
    folder = made(state_folder() / "binaries") / key[:2] / key
    if not (folder / "binary.json").exists():
        _compile(spec, candidate, options, units, texts, folder)
    record = json.loads((folder / "binary.json").read_text())
    return Binary(folder / "kernel.so", record["sha256"], dict(knobs), record["facts"], record["log"])


def _key(candidate: Candidate, options: list[str], units: list[str], texts: Mapping[str, str]) -> str:
    native = sorted(features.cpu_flags()) if "-march=native" in options else []
    files = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(candidate.files.items())}
    content = json.dumps([compiler_version(), options, units, texts, files, native], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _view(sources: Path, trusted: Path, output: Path) -> sandbox.View:
    view = sandbox.system_view(scratch_bytes=1 << 30, extra={"/src": sources, "/factory": trusted, **_compiler_home()})
    return sandbox.View(view.read_only, {"/out": output}, view.links, view.scratch_bytes, proc=False, devices=True)


def _compiler_home() -> dict[str, Path]:
    """Where the compiler isn't the system's own, the folders of its installation."""
    prefix = compiler().parent.parent
    if prefix == Path("/usr"):
        return {}
    return {str(prefix / name): prefix / name for name in ("bin", "lib", "lib64", "libexec", "include") if (prefix / name).is_dir()}


def _compile(spec: Spec, candidate: Candidate, options: list[str], units: list[str], texts: Mapping[str, str], folder: Path) -> None:
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        place = Path(temporary)
        sources, trusted, output, done = (place / name for name in ("src", "factory", "out", "done"))
        for made_folder in (sources, trusted, output, done):
            made_folder.mkdir()
        for name, data in candidate.files.items():
            (sources / name).write_bytes(data)
        for name, text in texts.items():
            (trusted / name).write_text(text)
        view = _view(sources, trusted, output)
        program = [str(compiler()), *options, "-shared", "-s", "-Wl,-z,defs", "-Wl,--build-id=none", "-frandom-seed=kernel"]
        program += [
            "-fdiagnostics-color=never",
            "-fno-diagnostics-show-option",
            "-fmax-errors=20",
            "-include",
            "/factory/declarations.hpp",
            "-I",
            "/src",
        ]
        program += ["-o", "/out/kernel.so", *(f"/src/{unit}" for unit in units), "/factory/entry.cpp"]
        environment = {"PATH": f"{compiler().parent}:/usr/bin:/bin", "LC_ALL": "C", "TMPDIR": "/tmp"}
        began = time.monotonic()
        ended = sandbox.run(view, program, environment=environment, folder="/src", seconds=spec.policy.build_seconds, memory_bytes=MEMORY)
        seconds = time.monotonic() - began
        log = diagnostics.readable(ended.errors.decode(errors="replace"), set(candidate.files))
        built = output / "kernel.so"
        if ended.timed_out or ended.status in (128 + signal.SIGKILL, 128 + signal.SIGXCPU):
            raise Rejected(
                Verdict.BUILD_ERROR, f"the compiler did not finish within {spec.policy.build_seconds} s (the spec's policy.build_seconds)"
            )
        if ended.status != 0 or not built.is_file() or built.is_symlink():
            raise Rejected(
                Verdict.BUILD_ERROR, log or f"g++ ended with status {ended.status} and no message about the candidate's own files"
            )
        shutil.copyfile(built, done / "kernel.so")
        facts: dict[str, int | float] = {"binary_bytes": built.stat().st_size, "build_seconds": round(seconds, 2)}
        facts.update(_instructions(view, environment))
        digest = hashlib.sha256(built.read_bytes()).hexdigest()
        (done / "binary.json").write_text(json.dumps({"sha256": digest, "facts": facts, "log": log}))
        try:
            done.rename(folder)
        except OSError:
            # Another process built the same content in the meantime: its result stands.
            if not (folder / "binary.json").exists():
                raise


def _instructions(view: sandbox.View, environment: Mapping[str, str]) -> dict[str, int]:
    """How often the binary uses each class of vector instruction; nothing where there is no objdump."""
    program = ["objdump", "--disassemble", "--no-show-raw-insn", "/out/kernel.so"]
    ended = sandbox.run(view, program, environment=environment, seconds=20, memory_bytes=MEMORY, keep=1 << 26)
    if ended.status != 0:
        return {}
    return {name: len(re.findall(pattern, ended.output)) for name, pattern in _CLASSES.items()}
