"""Reads a spec folder: `spec.yaml` and the Python files beside it, with every fault at its place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runner.spec.models import Spec


@dataclass(frozen=True)
class LoadedSpec:
    """A valid spec with its folder. `spec_hash` covers `spec.yaml` and the Python files beside it: what decides a verdict."""

    spec: Spec
    folder: Path
    spec_hash: str


def load_spec(folder: Path) -> LoadedSpec:
    """Read and validate `folder/spec.yaml`. Raises `FaultsError` with all faults."""
    raise NotImplementedError
