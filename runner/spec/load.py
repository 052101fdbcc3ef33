"""Reads a spec folder: `spec.yaml` and the Python files beside it, with every fault at its place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runner.errors import FactoryError, FaultsError
from runner.files import read_regular
from runner.identity import spec_hash
from runner.spec.check_files import check_files
from runner.spec.check_workloads import check_draws, check_workloads
from runner.spec.checks import check_meaning
from runner.spec.draft import Draft
from runner.spec.models import Spec
from runner.validation import validate
from runner.yaml_source import MAX_BYTES, read_yaml

SPEC_NAME = "spec.yaml"


@dataclass(frozen=True)
class LoadedSpec:
    """A valid spec with its folder. `spec_hash` covers `spec.yaml` and the Python files beside it: what decides a verdict."""

    spec: Spec
    folder: Path
    spec_hash: str


def load_spec(folder: Path) -> LoadedSpec:
    """Read and validate `folder/spec.yaml`. Raises `FaultsError` with all faults: of form, of meaning, and of the files it names."""
    path = folder / SPEC_NAME
    try:
        source = read_yaml(read_regular(path, MAX_BYTES + 1), str(path))
    except OSError as error:
        raise FactoryError(f"{path}: the spec can't be read: {error.strerror}") from None
    spec, faults = validate(Spec, source)
    found = [*source.faults, *faults]
    if isinstance(source.data, dict):
        draft = Draft(source)
        found += [*check_meaning(draft), *check_workloads(draft), *check_files(draft, folder)]
        if spec is not None and not found:
            found += check_draws(draft, spec)
    if spec is None or found:
        raise FaultsError(list(dict.fromkeys(found)))
    return LoadedSpec(spec, folder, spec_hash(folder))
