"""Renders a result for people (Markdown) and for programs (JSON): pure functions of the result.

Names come from specs and candidates, so everything that is shown is escaped: it can neither break the table nor mention anybody.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from runner.decision import interval_text
from runner.result import CheckRow, Result, TimingRow
from runner.verdict import Verdict

MAX_CELL = 200
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&$!])")
_REFERENCE = re.compile(r"(@|#(?=\d)|\bGH-(?=\d)|:(?=//)|\bwww(?=\.))", re.IGNORECASE)


def markdown(result: Result, where: str = "result.json", more: Sequence[str] = (), again: str = "") -> str:
    """The whole report. `where` names the result's file in the command that measures it again, `more` are further words of that command;
    or `again` is that command, where the result's file is kept nowhere."""
    again = again or shlex.join(["kernel-runner", "reproduce", where, *more])
    parts = [
        f"## {text(result.spec)}: {text(result.verdict)}",
        prose(result.message),
        _table(result) if result.rows else "",
        _geomean(result),
        _checks(result),
        _failure(result),
        _facts(result),
        f"Measured again by {code(again)}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def as_json(result: Result) -> dict[str, Any]:
    """What programs read: the figures of the table, no samples."""
    return {
        "spec": result.spec,
        "device": result.device,
        "harness": result.identity.harness,
        "geomean": None if result.geomean is None else {"speedup": result.geomean.speedup, "interval": list(result.geomean.interval)},
        "rows": [_json_row(row) for row in result.rows],
    }


def _json_row(row: TimingRow) -> dict[str, Any]:
    return {
        "workload": row.workload,
        "axes": row.axes,
        "dtype": row.dtype,
        "verdict": row.verdict.value,
        "error": row.error,
        "median_ms": row.median_ms,
        "baseline": row.baseline.model_dump(),
        "speedup": row.speedup,
        "interval": list(row.interval),
        "roofline": row.roofline,
        "copy": None if row.copy_ is None else row.copy_.model_dump(),
    }


def text(value: object) -> str:
    """A word for a table cell or heading: one line, short, with every character that Markdown or HTML would take for its own escaped."""
    line = " ".join(str(value).split())
    line = line if len(line) <= MAX_CELL else line[: MAX_CELL - 1] + "…"
    return _escaped(line)


def code(value: str) -> str:
    """A code span that holds any text: fenced by more backticks than it contains in a row."""
    line = " ".join(value.split())
    longest = max((len(run) for run in re.findall(r"`+", line)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def prose(value: str) -> str:
    """A message of one or more lines, such as a compiler's: a code block when it has lines, else escaped text."""
    if "\n" not in value.strip():
        return _escaped(value.strip())
    body = value.strip("\n")
    longest = max((len(run) for run in re.findall(r"`+", body)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{body}\n{fence}"


def _escaped(line: str) -> str:
    """Forges look for mentions, issues and links in the rendered text, where escapes are gone: a zero-width joiner keeps them apart."""
    return _SPECIAL.sub(r"\\\1", _REFERENCE.sub("\\1\u200d", line))


def _table(result: Result) -> str:
    head = ["workload", "error", "median", "baseline", "speed-up", "of copy", "of roofline", ""]
    lines = ["| " + " | ".join(head) + " |", "|---|--:|--:|---|--:|--:|--:|---|"]
    lines += ["| " + " | ".join(_cells(row)) + " |" for row in result.rows]
    return "\n".join(lines)


def _cells(row: TimingRow) -> list[str]:
    marks = []
    if row.verdict is not Verdict.ACCEPTED:
        marks.append("behind" if row.verdict is Verdict.SLOWER else row.verdict.value)
    if row.noisy:
        marks.append(f"noisy (A/A {row.aa:.3f})")
    baseline = f"{text(row.baseline.name)} {milliseconds(row.baseline.median_ms)}"
    copy = "" if row.copy_ is None else f"{100 * row.copy_.share:.0f} % ({text(row.copy_.name)})"
    return [
        text(row.workload),
        "" if row.error is None else f"{row.error:.1e}",
        milliseconds(row.median_ms),
        baseline,
        f"{row.speedup:.3f} {interval_text(row.interval)}",
        copy,
        f"{100 * row.roofline:.0f} %",
        ", ".join(marks),
    ]


def milliseconds(value: float) -> str:
    """A time with three digits: `8.91 ms`, `431 µs`."""
    if value >= 0.9995:
        return f"{value:.{max(0, 2 - len(str(int(value))) + 1)}f} ms"
    micro = value * 1e3
    return f"{micro:.{max(0, 2 - len(str(int(micro))) + 1)}f} µs"


def _geomean(result: Result) -> str:
    if result.geomean is None:
        return ""
    against = "" if result.against == "baseline" else f" against {text(result.against)}"
    only = f" on {len(result.rows)} selected workloads only" if result.selection else ""
    found = result.geomean
    return f"Geomean speed-up{against}{only}: **{found.speedup:.3f} {interval_text(found.interval)}** (A/A {found.aa:.4f})"


def _checks(result: Result) -> str:
    if not result.checks:
        return ""
    passed = [check for check in result.checks if check.verdict is Verdict.ACCEPTED]
    counts = ", ".join(f"{_count(passed, kind)}/{_count(result.checks, kind)} {kind}" for kind in ("public", "edge", "hidden"))
    worst = max((check.max_ulp for check in passed if check.max_ulp is not None), default=None)
    return f"Checked against the float64 oracle: {counts} workloads right" + ("" if worst is None else f", at most {worst:.3g} ulp off")


def _count(checks: Sequence[CheckRow], kind: str) -> int:
    return sum(check.kind == kind for check in checks)


def _failure(result: Result) -> str:
    small = result.reproduction
    if small is None:
        return ""
    axes = ", ".join(f"{text(name)} = {length}" for name, length in small.axes.items())
    lines = [f"The failure made small ({text(small.workload)}, {axes}): {code(small.command)}"]
    if small.actual is not None:
        at = "" if small.index is None else "[" + ", ".join(map(str, small.index)) + "]"
        lines.append(f"there {code(f'{small.output}{at}')} is {code(small.actual)}, expected {code(small.expected or '')}")
    return "; ".join(lines)


def _facts(result: Result) -> str:
    identity = result.identity
    rows = [
        ("kernel tree", identity.kernel_tree),
        ("spec", f"{result.spec} {identity.spec_hash}"),
        ("harness", identity.harness),
        ("device", result.device),
        ("tier", f"{result.tier}, seed {result.seed}, {result.seconds:.1f} s from {result.started}{_timed(result)}"),
    ]
    rows += [
        ("knobs" if len(result.knobs) == 1 else f"knobs of table row {index}", _pairs(row)) for index, row in enumerate(result.knobs) if row
    ]
    rows += [(name, str(value)) for name, value in sorted(result.environment.items())]
    body = "\n".join(f"| {text(name)} | {text(value)} |" for name, value in rows)
    return f"<details><summary>Identity and environment</summary>\n\n| | |\n|---|---|\n{body}\n\n</details>"


def _timed(result: Result) -> str:
    """How much of an evaluation the timed calls took."""
    seconds = result.facts.get("seconds for timed calls")
    return "" if seconds is None else f", {seconds} s of them in timed calls"


def _pairs(row: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in row.items())
