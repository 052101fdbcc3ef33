"""Lessons: short statements that later rounds and campaigns are given, each naming the experiments behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bot.evidence.experiment import Experiment
from bot.evidence.space import best


@dataclass(frozen=True)
class Lesson:
    """`statement` in one or two sentences; `experiments` are ids in the notebook; `value` ranks it (the log of the effect seen)."""

    statement: str
    experiments: tuple[str, ...]
    value: float


def learn(experiments: Sequence[Experiment]) -> list[Lesson]:
    """What the experiments of one spec teach, the most valuable first."""
    found: list[Lesson] = []
    winner = best(experiments)
    if winner is not None and winner.speedup is not None:
        found.append(Lesson(f"The best so far reaches {winner.speedup:.3f}×.", (winner.id,), math.log(winner.speedup)))
    return found
