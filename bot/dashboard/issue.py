"""The text of a campaign's dashboard issue: where it stands, what is left of the budget, its lineages, the end. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from bot.campaign.ports import Closing
from bot.campaign.state import Order
from bot.comments import tried
from bot.dashboard.markdown import code, escape
from bot.evidence.experiment import Experiment
from bot.hosting import PullRequest

LESSONS = 10
MAX_LINEAGES = 60


def dashboard_title(order: Order) -> str:
    return f"Campaign {order.campaign}"


def dashboard_body(
    order: Order, state: str, experiments: Sequence[Experiment], pulls: Sequence[PullRequest], plot: str | None, winner: int | None = None
) -> str:
    """`plot` is the picture's address, `winner` the pull request that waits for a review."""
    standing = f"Spec {code(order.spec)}: **{escape(state)}**" + (f", #{winner} waits for a review" if winner is not None else "")
    parts = [
        standing,
        _budget(order, experiments),
        _best(experiments),
        f"![How the best speed-up grew](<{plot}>)" if plot else "",
        _lineages(experiments, pulls),
        f"### What was tried\n\n{tried(experiments)}" if experiments else "",
    ]
    return "\n\n".join(part for part in parts if part)


def dashboard_end(closing: Closing, experiments: Sequence[Experiment], pulls: Sequence[PullRequest], plot: str | None) -> str:
    """The same at the end, with the reason and the lessons."""
    ending = closing.ending
    parts = [
        dashboard_body(closing.order, "merged" if ending.merged else "ended without a merge", experiments, pulls, plot),
        f"Merged: #{ending.merged.number} as {code(ending.merged.sha[:12])}." if ending.merged is not None else "",
        f"Why it ended: {escape(ending.reason, 1000)}",
    ]
    if closing.lessons:
        parts.append("### Lessons\n\n" + "\n".join(f"- {escape(lesson.statement, 500)}" for lesson in closing.lessons[:LESSONS]))
    return "\n\n".join(part for part in parts if part)


def _budget(order: Order, experiments: Sequence[Experiment]) -> str:
    budget = order.budget
    played = max((one.round for one in experiments), default=0)
    minutes = sum(one.seconds for one in experiments) / 60
    rows = [
        ("rounds", f"{played}", f"{budget.rounds}"),
        ("candidates", f"{len(experiments)}", f"{budget.candidates}"),
        ("device minutes", f"{minutes:.1f}", f"{budget.device_minutes:g}"),
    ]
    left = (
        max(budget.rounds - played, 0),
        max(budget.candidates - len(experiments), 0),
        max(budget.device_minutes - minutes, 0.0),
    )
    lines = ["| budget | spent | of | left |", "|---|--:|--:|--:|"]
    lines += [f"| {name} | {spent} | {of} | {rest:.4g} |" for (name, spent, of), rest in zip(rows, left, strict=True)]
    return "\n".join(lines)


def _best(experiments: Sequence[Experiment]) -> str:
    """The best so far: of those judged in full, or of those screened while none was."""
    timed = [one for one in experiments if one.speedup is not None and one.round > 0]
    best = max(
        [one for one in timed if one.tier == "full"] or timed, key=lambda one: one.interval[0] if one.interval else 0.0, default=None
    )
    if best is None:
        return "Nothing is timed yet."
    interval = f" ({best.interval[0]:.3f}–{best.interval[1]:.3f})" if best.interval is not None else ""
    tier = "judged in full" if best.tier == "full" else "screened"
    return f"Best so far: **{best.speedup:.3f}×**{interval}, {tier}, {escape(best.verdict)}, by {code(best.agent)} in round {best.round}."


def _lineages(experiments: Sequence[Experiment], pulls: Sequence[PullRequest]) -> str:
    agents = list(dict.fromkeys(one.agent for one in experiments))
    lines = ["| lineage | judged | best | pull request |", "|---|--:|--:|---|"] if agents else []
    for agent in agents[:MAX_LINEAGES]:
        mine = [one for one in experiments if one.agent == agent]
        best = max((one.speedup for one in mine if one.speedup is not None), default=None)
        number = next((one.number for one in reversed(pulls) if one.branch.endswith(f"/{agent}")), None)
        shown = f"#{number}" if number is not None else ""
        lines.append(f"| {code(agent, cell=True)} | {len(mine)} | {f'{best:.3f}×' if best else '–'} | {shown} |")
    if len(agents) > MAX_LINEAGES:
        lines += ["", f"{len(agents) - MAX_LINEAGES} more lineages are left out here."]
    return "\n".join(lines)
