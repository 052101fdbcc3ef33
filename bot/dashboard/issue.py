"""The text of a campaign's dashboard issue: where it stands, what is left of the budget, its lineages, the end. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.campaign.ports import Closing
from bot.campaign.state import Order
from bot.comments import tried
from bot.dashboard.markdown import code, escape
from bot.evidence.experiment import Experiment
from bot.evidence.remark import Remark
from bot.hosting import PullRequest
from runner.result import Result
from runner.spec.models import Budget

LESSONS = 10
RUNS = 30
REMARKS = 4
MAX_LINEAGES = 60


@dataclass(frozen=True)
class Run:
    """A run on the benchmark machine: its address, and why nothing came of it where that is so."""

    url: str
    lost: str = ""


@dataclass(frozen=True)
class More:
    """What a dashboard tells besides the experiments: the budget with what people added to it, the best one's full result, the campaign's
    runs in their order, and the changes that people asked for."""

    budget: Budget | None = None
    best: Result | None = None
    runs: Sequence[Run] = ()
    remarks: Sequence[Remark] = ()


NO_MORE = More()


def dashboard_title(order: Order) -> str:
    return f"Campaign {order.campaign}"


def dashboard_body(
    order: Order,
    state: str,
    experiments: Sequence[Experiment],
    pulls: Sequence[PullRequest],
    plot: str | None,
    winner: int | None = None,
    more: More = NO_MORE,
) -> str:
    """`state` is what is being done, with the pull request `winner` where there is one; `plot` is the picture's address."""
    standing = f"Spec {code(order.spec)}: **{escape(state)}**" + (f", #{winner}" if winner is not None else "")
    return _parts([standing, *_middle(order, experiments, pulls, plot, more)])


def dashboard_end(
    closing: Closing, experiments: Sequence[Experiment], pulls: Sequence[PullRequest], plot: str | None, more: More = NO_MORE
) -> str:
    """The same at the end, with the reason and the lessons."""
    order, lessons = closing.order, [escape(lesson.statement, 500) for lesson in closing.lessons[:LESSONS]]
    return _parts([*_ending(closing), *_middle(order, experiments, pulls, plot, more), _listed("Lessons", lessons)])


def best_of(experiments: Sequence[Experiment], remarks: Sequence[Remark]) -> Experiment | None:
    """The best so far that may still win: of those judged in full, or of those screened while none was."""
    refused = {remark.kernel_tree for remark in remarks}
    timed = [one for one in experiments if one.speedup is not None and one.round > 0 and one.kernel_tree not in refused]
    full = [one for one in timed if one.tier == "full"]
    return max(full or timed, key=lambda one: one.interval[0] if one.interval else 0.0, default=None)


def _parts(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part)


def _listed(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"### {title}", "", *(f"- {line}" for line in lines)]) if lines else ""


def _ending(closing: Closing) -> list[str]:
    ending, spec = closing.ending, code(closing.order.spec)
    why = f"Why it ended: {escape(ending.reason, 1000)}."
    if ending.merged is None:
        return [f"Spec {spec}: **ended without a merge**", why]
    merged, reached = ending.merged, ""
    if ending.winner is not None:
        low, high = ending.winner.interval
        reached = f", {ending.winner.speedup:.3f}× ({low:.3f}–{high:.3f}) of {code(ending.winner.agent)}"
    by = f", approved by {escape(merged.approved_by, 100)}" if merged.approved_by else ""
    return [f"Spec {spec}: **merged** #{merged.number}{reached}{by}, as {code(merged.sha[:12])}", why]


def _middle(order: Order, experiments: Sequence[Experiment], pulls: Sequence[PullRequest], plot: str | None, more: More) -> list[str]:
    return [
        _best(experiments, more),
        f"![How the best speed-up grew](<{plot}>)" if plot else "",
        _lineages(experiments, pulls),
        _budget(more.budget or order.budget, experiments),
        _listed("Changes that were asked for", [_remark(one) for one in more.remarks[-REMARKS:]]),
        f"### What was tried\n\n{tried(experiments)}" if experiments else "",
        _runs(more.runs),
    ]


def _budget(budget: Budget, experiments: Sequence[Experiment]) -> str:
    played = max((one.round for one in experiments), default=0)
    minutes = sum(one.seconds for one in experiments) / 60
    rows = [
        ("rounds", f"{played}", budget.rounds, budget.rounds - played),
        ("candidates", f"{len(experiments)}", budget.candidates, budget.candidates - len(experiments)),
        ("device minutes", f"{minutes:.1f}", budget.device_minutes, round(budget.device_minutes - minutes, 1)),
    ]
    lines = ["| budget | spent | of | left |", "|---|--:|--:|--:|"]
    lines += [f"| {name} | {spent} | {of:g} | {max(left, 0):g} |" for name, spent, of, left in rows]
    return "\n".join(lines)


def _best(experiments: Sequence[Experiment], more: More) -> str:
    best = best_of(experiments, more.remarks)
    if best is None:
        return "Nothing is timed yet."
    interval = f" ({best.interval[0]:.3f}–{best.interval[1]:.3f})" if best.interval is not None else ""
    tier = "judged in full" if best.tier == "full" else "screened"
    shares = sorted(round(100 * row.roofline) for row in more.best.rows) if more.best is not None else []
    between = "–".join(str(share) for share in dict.fromkeys((*shares[:1], *shares[-1:])))
    roofline = f", {between} % of the roofline" if shares else ""
    reached = f"Best so far: **{best.speedup:.3f}×**{interval}{roofline}"
    return f"{reached}; {tier}, {escape(best.verdict)}, by {code(best.agent)} in round {best.round}."


def _lineages(experiments: Sequence[Experiment], pulls: Sequence[PullRequest]) -> str:
    agents = list(dict.fromkeys(one.agent for one in experiments))
    lines = ["| lineage | evaluated | best screened | best judged in full | pull request |", "|---|--:|--:|--:|---|"] if agents else []
    for agent in agents[:MAX_LINEAGES]:
        mine = [one for one in experiments if one.agent == agent]
        number = next((one.number for one in reversed(pulls) if one.branch.endswith(f"/{agent}")), None)
        shown = f"#{number}" if number is not None else ""
        lines.append(f"| {code(agent, cell=True)} | {len(mine)} | {_top(mine, 'screening')} | {_top(mine, 'full')} | {shown} |")
    if len(agents) > MAX_LINEAGES:
        lines += ["", f"{len(agents) - MAX_LINEAGES} more lineages are left out here."]
    return "\n".join(lines)


def _top(experiments: Sequence[Experiment], tier: str) -> str:
    best = max((one.speedup for one in experiments if one.speedup is not None and one.tier == tier), default=None)
    return f"{best:.3f}×" if best is not None else "–"


def _remark(remark: Remark) -> str:
    said = f": {escape(remark.text, 400)}" if remark.text.strip() else ""
    return f"{escape(remark.by, 100)}, of the kernel {code(remark.kernel_tree[:12])}{said}"


def _runs(runs: Sequence[Run]) -> str:
    """The last of the campaign's runs, by their places in it."""
    shown = list(enumerate(runs, start=1))[-RUNS:]
    links = [f"[{number}](<{run.url}>)" + (f" (lost: {escape(run.lost, 200)})" if run.lost else "") for number, run in shown]
    return f"Runs on the benchmark machine: {', '.join(links)}" if links else ""
