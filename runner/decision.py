"""From measured rows to a verdict by the spec's acceptance: pure, and the only place where `accepted` is said."""

from __future__ import annotations

from collections.abc import Sequence

from runner.result import Geomean, Interval, TimingRow
from runner.spec.models import Accept
from runner.verdict import Verdict


def decide(accept: Accept, rows: Sequence[TimingRow], geomean: Geomean) -> tuple[Verdict, str]:
    """`implausible` if any row is; `accepted` when the geomean's interval clears `min_speedup` and no row is behind; else `slower`."""
    impossible = [row for row in rows if row.verdict is Verdict.IMPLAUSIBLE]
    if impossible:
        return Verdict.IMPLAUSIBLE, f"faster than the device can be on {', '.join(row.workload for row in impossible)}"
    behind = [row for row in rows if is_behind(accept, row.interval)]
    shown = f"{geomean.speedup:.3f} {interval_text(geomean.interval)}"
    reasons = []
    if not geomean.interval[0] > accept.min_speedup:
        reasons.append(f"the geomean speed-up {shown} does not clear {accept.min_speedup:g}")
    if behind:
        rows_text = ", ".join(f"{row.workload} ({row.speedup:.3f} {interval_text(row.interval)})" for row in behind)
        reasons.append(f"behind on {rows_text}: a workload's interval must not lie wholly under {accept.min_workload_speedup:g}")
    if reasons:
        return Verdict.SLOWER, "; ".join(reasons)
    return Verdict.ACCEPTED, f"the geomean speed-up {shown} clears {accept.min_speedup:g}, and no workload is behind"


def is_behind(accept: Accept, interval: Interval) -> bool:
    """Whether a workload's whole interval lies under the spec's bound."""
    return interval[1] < accept.min_workload_speedup


def interval_text(interval: Interval) -> str:
    return f"[{interval[0]:.3f}, {interval[1]:.3f}]"
