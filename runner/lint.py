"""Finds every fault in spec folders and the kernels in them, without running anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from runner.candidate import read_candidate
from runner.errors import FactoryError, Fault, FaultsError
from runner.spec.load import SPEC_NAME, LoadedSpec, load_spec
from runner.targets.registry import target_for


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
        messages = target_for(spec.spec).check(spec, candidate)
    except FaultsError as error:
        yield from error.faults
        return
    except FactoryError as error:
        yield Fault(str(folder), 1, 1, str(error).removeprefix(f"{folder}: "))
        return
    yield from (_placed(folder, message) for message in messages)


def _placed(folder: Path, text: str) -> Fault:
    """A target's `file:line:column: message` as a fault of a file in this folder."""
    place, _, message = text.partition(": ")
    name, line, column = (*place.rsplit(":", 2), "", "")[:3]
    if line.isdecimal() and column.isdecimal():
        return Fault(str(folder / name), int(line), int(column), message)
    return Fault(str(folder), 1, 1, text)
