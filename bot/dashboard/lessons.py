"""`lessons.md`: what a spec's experiments taught, for people and for the next campaign."""

from __future__ import annotations

from collections.abc import Sequence

from bot.dashboard.markdown import code, escape
from bot.evidence.lessons import Lesson
from runner.spec.models import Spec

NAMED = 6  # how many experiments a lesson names in the page; the notebook has them all


def lessons_markdown(spec: Spec, lessons: Sequence[Lesson]) -> str:
    """The page: one entry a lesson, the most valuable first, each with the experiments behind it."""
    lines = [f"# Lessons: {escape(spec.title)}", ""]
    if not lessons:
        lines += ["No lesson stands on enough experiments yet.", ""]
        return "\n".join(lines)
    lines += [
        "Computed from the notebook of experiments, and given to the agents of later rounds and campaigns. "
        "Ratios are of speed, with 95 % intervals.",
        "",
    ]
    for number, lesson in enumerate(lessons, start=1):
        lines += [f"{number}. {escape(lesson.statement)}  ", f"   Evidence: {_evidence(lesson.experiments)}."]
    return "\n".join([*lines, ""])


def _evidence(identifiers: Sequence[str]) -> str:
    named = ", ".join(code(identifier, 160) for identifier in identifiers[:NAMED])
    more = len(identifiers) - NAMED
    return f"{named} and {more} more" if more > 0 else named
