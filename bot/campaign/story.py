"""What is told of a finished campaign: the summary for programs, and the story for people. Pure text from the evidence."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bot.campaign.journal import over_baseline
from bot.campaign.session import Report
from bot.campaign.state import CHAMPION
from bot.evidence.experiment import Experiment
from runner.result import Result

LESSONS_TOLD = 5


def summary(report: Report) -> dict[str, object]:
    """The content of `--json`: how the campaign ended, in numbers."""
    ending, order = report.ending, report.order
    winner = ending.winner
    verdicts = Counter(str(experiment.verdict) for experiment in report.experiments)
    return {
        "campaign": order.campaign,
        "spec": order.spec,
        "status": ending.status,
        "stop": str(ending.stop),
        "reason": ending.reason,
        "rounds": ending.rounds,
        "evaluations": len(report.experiments),
        "verdicts": dict(sorted(verdicts.items())),
        "lineages": [{"agent": agent.name, "best": _best(report.experiments, agent.name)} for agent in order.agents],
        "left_out": [{"agent": one.agent, "why": one.why} for one in report.left_out],
        "winner": {
            "agent": winner.agent,
            "kernel_tree": winner.kernel_tree,
            "speedup": winner.speedup,
            "interval": list(winner.interval),
        }
        if winner is not None
        else None,
        "files": list(ending.files),
        "seconds": ending.seconds,
    }


def story(report: Report) -> str:
    """What was tried, the verdicts, the winner's table, the lessons, the files, and what to do next."""
    ending, order = report.ending, report.order
    counts = Counter(str(experiment.verdict) for experiment in report.experiments)
    lines = [
        f"Campaign {order.campaign}: {_headline(report)}",
        "",
        f"  {_counted(ending.rounds, 'round')}, {_counted(len(report.experiments), 'evaluation')} in {ending.seconds / 60:.1f} minutes",
        "  verdicts: " + (", ".join(f"{number} {verdict}" for verdict, number in counts.most_common()) or "none"),
    ]
    champion = next((one for one in report.experiments if one.agent == CHAMPION), None)
    if champion is not None:
        lines.append(f"  the champion: {champion.verdict}{_measured(champion)}")
    for agent in order.agents:
        best = _best_experiment(report.experiments, agent.name)
        lines.append(f"  {agent.name} ({agent.kind}): " + (f"best{_measured(best)}, {best.tier}" if best is not None else "nothing timed"))
    lines += [f"  {one.agent} was left out: {one.why}" for one in report.left_out]
    if ending.winner is not None:
        lines += ["", *table(report.store.result(ending.winner.result))]
    if report.lessons:
        lines += ["", "Lessons:", *(f"  - {lesson.statement}" for lesson in report.lessons[:LESSONS_TOLD])]
    if ending.files:
        lines += ["", "Written:", *(f"  {_near(Path(file))}" for file in ending.files)]
    return "\n".join([*lines, "", *_next(report)])


def table(result: Result) -> list[str]:
    """A result's timed workloads as lines of text: times in milliseconds, the speed-up with its interval, the share of the roofline."""
    rows = [("workload", "kernel ms", "baseline ms", "speed-up", "interval", "roofline")]
    for row in result.rows:
        low, high = row.interval
        cells = (
            f"{row.median_ms:.4f}",
            f"{row.baseline.median_ms:.4f}",
            f"{row.speedup:.3f}",
            f"{low:.3f}–{high:.3f}",
            f"{row.roofline:.0%}",
        )
        rows.append((row.workload, *cells))
    if result.geomean is not None:
        low, high = result.geomean.interval
        rows.append(("geomean", "", "", f"{result.geomean.speedup:.3f}", f"{low:.3f}–{high:.3f}", ""))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if not column else cell.rjust(width) for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def _headline(report: Report) -> str:
    ending = report.ending
    if ending.winner is None:
        return f"no winner. {_sentence(ending.reason)}"
    low, high = ending.winner.interval
    told = f"{ending.winner.agent} made a kernel {ending.winner.speedup:.3f}× as fast as the best baseline ({low:.3f}–{high:.3f})"
    if ending.winner.over_champion is not None:
        over, (low, high) = ending.winner.over_champion
        told += f" and {over:.3f}× as fast as the champion ({low:.3f}–{high:.3f})"
    outcome = "accepted" if ending.status == "accepted" else "accepted by the judge, but not published"
    return f"{outcome}. {told}. {_sentence(ending.reason)}"


def _next(report: Report) -> list[str]:
    ending, folder = report.ending, _near(report.spec.folder)
    again = f"  kernel-factory campaign {folder}"
    if ending.status == "accepted" and ending.files:
        result = next((file for file in ending.files if file.endswith(".json")), "")
        return ["Next:", f"  git diff {folder}", f"  kernel-runner reproduce {_near(Path(result))}", again]
    if ending.winner is not None:
        kept = _near(report.store.candidate_folder(ending.winner.kernel_tree))
        return ["Next:", f"  diff -r {folder}/kernel {kept}", f"  kernel-runner evaluate {folder} --candidate {kept}", again]
    return ["Next:", again]


def _best_experiment(experiments: Sequence[Experiment], agent: str) -> Experiment | None:
    """A lineage's best: of those judged in full, or of those screened while none was."""
    timed = [one for one in over_baseline(experiments) if one.agent == agent and one.speedup is not None]
    full = [one for one in timed if one.tier == "full"]
    return max(full or timed, key=lambda one: one.speedup or 0.0, default=None)


def _best(experiments: Sequence[Experiment], agent: str) -> float | None:
    best = _best_experiment(experiments, agent)
    return best.speedup if best is not None else None


def _measured(experiment: Experiment) -> str:
    if experiment.speedup is None:
        return f" ({experiment.message.splitlines()[0][:160]})" if experiment.message else ""
    interval = f" ({experiment.interval[0]:.3f}–{experiment.interval[1]:.3f})" if experiment.interval is not None else ""
    return f" {experiment.speedup:.3f}×{interval}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _near(path: Path) -> str:
    """A path as a person would type it here."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
