"""Lessons: short statements that later rounds and campaigns are given, each naming the experiments behind it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Lesson:
    """`statement` in one or two sentences; `experiments` are ids in the notebook; `value` ranks it (the log of the effect seen)."""

    statement: str
    experiments: tuple[str, ...]
    value: float
