"""Searches a candidate's knobs on the machine that judges, in the screening tier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runner.manifest import KnobValue
from runner.verdict import Verdict


@dataclass(frozen=True)
class Trial:
    """One point of the space, screened. `speedup` (geomean over the screening workloads) is None where nothing was timed."""

    knobs: Mapping[str, KnobValue]
    verdict: Verdict
    message: str
    speedup: float | None
    interval: tuple[float, float] | None
    workloads: Mapping[str, float]
    seconds: float
    kernel_tree: str
