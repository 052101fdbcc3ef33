"""What the bot's checks say: on a commit with specs, on a judged head, on the winner. Pure functions of what is known."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from bot.campaign.ports import Release
from bot.campaign.state import Order, Outcome
from bot.comments import reproduction, told
from bot.dashboard.markdown import code, document, escape, one_line
from bot.hosting import Annotation, Conclusion
from bot.specs import Survey
from runner.result import Result
from runner.verdict import Verdict

MAX_ANNOTATIONS = 50
# A summary may have 65,535 bytes.
MAX_LISTED = 40_000
# `file:line:column: what is wrong`, as policy and compilers say it; a folder before the file is the machine's own.
_PLACE = re.compile(r"^(?:\S*/)?(?P<file>[\w.-]+):(?P<line>\d{1,6})(?::(?P<column>\d{1,5}))?:\s*(?P<text>\S.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Check:
    """A finished check: its conclusion, title, summary in Markdown, and remarks on lines."""

    conclusion: Conclusion
    title: str
    summary: str
    annotations: Sequence[Annotation] = ()


def verdict_check(order: Order, outcome: Outcome, result: Result | None, message: str, files: Collection[str]) -> Check:
    """The check on a lineage's or a person's head: success only where it was accepted in full. `files` are the kernel's."""
    measured = f" {outcome.speedup:.3f}×" if outcome.speedup is not None else ""
    conclusion: Conclusion = "success" if outcome.verdict is Verdict.ACCEPTED else "failure"
    if outcome.entry.tier == "screening":
        conclusion = "neutral"
    title = f"{outcome.verdict or 'not evaluated'}{measured} ({outcome.entry.tier})"
    parts = [told(message), reproduction(result) if result is not None else ""]
    summary = document("\n\n".join(part for part in parts if part)) or title
    folder = f"kernel-specs/{order.spec}/kernel"
    return Check(conclusion, title, summary, _remarks(folder, message, files) if conclusion == "failure" else ())


def winner_check(release: Release) -> Check:
    """The check on the winner's head."""
    low, high = release.winner.interval
    title = f"accepted {release.winner.speedup:.3f}× ({low:.3f}–{high:.3f})"
    return Check("success", title, f"Kernel tree {code(release.winner.kernel_tree)}, confirmed in fresh processes.")


def spec_check(survey: Survey) -> Check:
    """The check on a commit whose specs were read: valid, or every fault at its line."""
    faults = survey.faults
    if not faults:
        title = f"{len(survey.specs)} valid" if len(survey.specs) != 1 else "valid"
        return Check("success", title, _listed([f"- {code(spec.spec.id)} {escape(spec.spec.title)}" for spec in survey.specs]))
    notes = [Annotation(one.file, one.line, one.column, one_line(one.message, 2000)) for one in faults[:MAX_ANNOTATIONS]]
    lines = [f"- {code(f'{one.file}:{one.line}:{one.column}')} {escape(one.message, 300)}" for one in faults]
    return Check("failure", f"{len(faults)} faults" if len(faults) > 1 else "1 fault", _listed(lines), notes)


def unjudged_check(specs: Sequence[str]) -> Check:
    """The check on a pull request that brings kernels of these specs together with something else, and so is not judged."""
    folders = ", ".join(code(f"kernel-specs/{spec}/kernel") for spec in specs)
    title = "a kernel that is not judged"
    return Check("failure", title, f"This changes {folders} and more. A kernel is judged where a pull request changes nothing but it.")


def _listed(lines: Sequence[str]) -> str:
    """As many lines as there is room for, and how many more there are."""
    kept: list[str] = []
    room = MAX_LISTED
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            return "\n".join([*kept, f"- … and {len(lines) - len(kept)} more"])
        kept.append(line)
    return "\n".join(kept)


def _remarks(folder: str, message: str, files: Collection[str]) -> list[Annotation]:
    """The places that a message names in the kernel's own files, each once."""
    found: dict[tuple[str, int, int], Annotation] = {}
    for match in _PLACE.finditer(message[:100_000]):
        place = (match["file"], int(match["line"]), int(match["column"] or 1))
        if match["file"] in files and place[1] > 0:
            found.setdefault(place, Annotation(f"{folder}/{place[0]}", place[1], max(place[2], 1), one_line(match["text"], 1000)))
    return list(found.values())[:MAX_ANNOTATIONS]
