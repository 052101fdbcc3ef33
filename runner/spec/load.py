"""Reads a spec folder: `spec.yaml` and the Python files beside it, with every fault at its place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runner.errors import FactoryError, FaultsError
from runner.identity import spec_hash
from runner.spec.models import Spec
from runner.validation import validate
from runner.yaml_source import read_yaml

SPEC_NAME = "spec.yaml"


@dataclass(frozen=True)
class LoadedSpec:
    """A valid spec with its folder. `spec_hash` covers `spec.yaml` and the Python files beside it: what decides a verdict."""

    spec: Spec
    folder: Path
    spec_hash: str


def load_spec(folder: Path) -> LoadedSpec:
    """Read and validate `folder/spec.yaml`. Raises `FaultsError` with all faults."""
    path = folder / SPEC_NAME
    try:
        source = read_yaml(path.read_bytes(), str(path))
    except OSError as error:
        raise FactoryError(f"{path}: the spec can't be read: {error.strerror}") from None
    spec, faults = validate(Spec, source)
    if spec is None or faults or source.faults:
        raise FaultsError([*source.faults, *faults])
    return LoadedSpec(spec, folder, spec_hash(folder))
