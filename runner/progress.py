"""What the judge says while it works, for a person at a terminal or for the campaign."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Stage = Literal["policy", "build", "correctness", "sanitizers", "baseline", "timing", "copies"]


@dataclass(frozen=True)
class Step:
    """One step: `done` of `total` in this stage. `ratio` is the running speed-up of the workload, once there is one."""

    stage: Stage
    workload: str
    done: int
    total: int
    ratio: float | None = None


Progress = Callable[[Step], None]


def silent(step: Step) -> None:
    """Progress that nobody watches."""
