"""A candidate: a kernel folder (sources and `launch.yaml`), read once into memory, and its provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from runner.manifest import Manifest


@dataclass(frozen=True)
class Provenance:
    """Who made a candidate: `seed` (written by hand), `search`, or a `model`; from which kernel tree; and why it should be better."""

    agent: str
    kind: Literal["seed", "search", "model", "person"]
    parent: str | None = None
    hypothesis: str = ""


@dataclass(frozen=True)
class Candidate:
    """Files by name (flat: no folders) with their manifest. `tree` is the git tree hash of exactly these files."""

    files: Mapping[str, bytes]
    manifest: Manifest
    tree: str
