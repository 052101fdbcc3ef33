"""Finds every fault in spec folders and the kernels in them, without running any: kernels for a GPU are built, row by row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from runner.candidate import Candidate, read_candidate
from runner.contestant import rows_of
from runner.errors import FactoryError, Fault, FaultsError
from runner.identity import MANIFEST_NAME
from runner.manifest import row_knobs
from runner.spec.load import SPEC_NAME, LoadedSpec, load_spec
from runner.targets.protocol import Target
from runner.targets.registry import target_for
from runner.verdict import Rejected

_COMPILER = re.compile(r"([\w.-]+\.cuh?):(\d+): (.*)", re.S)


def lint_paths(paths: Sequence[Path]) -> list[Fault]:
    """The faults of the specs at these paths, in the order of files and places; empty when all is well.

    A path is a spec's folder, its `spec.yaml`, or a folder of spec folders. A spec's own kernels (`kernel/`, `seeds/*`) are checked
    too, unless the spec itself has faults. Raises `FactoryError` for a path where no spec is.
    """
    folders = list(dict.fromkeys(folder for path in paths for folder in spec_folders(path)))
    return sorted({fault for folder in folders for fault in _lint_spec(folder)})


def spec_folders(path: Path) -> list[Path]:
    """The spec folders that a path names."""
    if path.name == SPEC_NAME:
        return [path.parent]
    if (path / SPEC_NAME).exists():
        return [path]
    found = sorted(spec.parent for spec in path.glob(f"*/{SPEC_NAME}"))
    if not found:
        raise FactoryError(f"{path}: no spec is here; a spec is a folder with a `{SPEC_NAME}`")
    return found


def _lint_spec(folder: Path) -> Iterator[Fault]:
    try:
        spec = load_spec(folder)
    except FaultsError as error:
        yield from error.faults
        return
    except FactoryError as error:
        yield Fault(str(folder / SPEC_NAME), 1, 1, str(error).removeprefix(f"{folder / SPEC_NAME}: "))
        return
    if not (folder / "kernel").exists():
        yield Fault(str(folder), 1, 1, "the folder `kernel` is missing: a spec starts with a simple, correct kernel as its champion")
    for kernel in [folder / "kernel", *sorted((folder / "seeds").glob("*"))]:
        if kernel.exists():
            yield from _lint_kernel(spec, kernel)


def _lint_kernel(spec: LoadedSpec, folder: Path) -> Iterator[Fault]:
    try:
        candidate = read_candidate(folder, spec.spec.policy)
        target = target_for(spec.spec)
        messages = target.check(spec, candidate) or tuple(_build_faults(target, spec, candidate))
    except FaultsError as error:
        yield from error.faults
        return
    except FactoryError as error:
        yield Fault(str(folder), 1, 1, str(error).removeprefix(f"{folder}: "))
        return
    yield from (_placed(folder, message) for message in messages)


def _build_faults(target: Target, spec: LoadedSpec, candidate: Candidate) -> Iterator[str]:
    """What keeps a row of the table from being built, once for each message. A kernel for a CPU is built where it is judged, with the
    compiler that is there; one that only says what may be searched has no row yet."""
    if spec.spec.hardware.target == "cpu" or (candidate.manifest.knobs and not candidate.manifest.table):
        return
    seen = set()
    for row in range(rows_of(candidate)):
        try:
            target.build(spec, candidate, row_knobs(candidate.manifest, row))
        except Rejected as error:
            if error.message not in seen:
                seen.add(error.message)
                found = _COMPILER.match(error.message)
                yield (
                    f"{found[1]}:{found[2]}:1: {found[3]}"
                    if found
                    else f"{MANIFEST_NAME}:1:1: row {row + 1} can't be built: {error.message}"
                )


def _placed(folder: Path, text: str) -> Fault:
    """A target's `file:line:column: message` as a fault of a file in this folder."""
    place, _, message = text.partition(": ")
    name, line, column = (*place.rsplit(":", 2), "", "")[:3]
    if line.isdecimal() and column.isdecimal():
        return Fault(str(folder / name), int(line), int(column), message)
    return Fault(str(folder), 1, 1, text)
