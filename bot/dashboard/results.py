"""`RESULTS.md`: what a campaign's winner reaches, how it was found, and the command that measures it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from urllib.parse import quote

from bot.dashboard.markdown import code, escape, inert
from bot.evidence.experiment import Experiment
from runner import report
from runner.result import Result
from runner.spec.models import Spec

RESULT_PATH = "results/result.json"
_ORIGINS = {"seed": "a kernel written by hand", "search": "a search over knobs", "model": "a model", "person": "a person"}


def results_markdown(
    spec: Spec, result: Result, experiments: Sequence[Experiment], convergence_link: str, *, result_path: str = RESULT_PATH
) -> str:
    """The page. `experiments` are the campaign's own; the addresses of the plot and of `result.json` are relative to the page."""
    parts = [
        f"# {escape(spec.title)}",
        escape(spec.description, 4000),
        _summary(spec, result),
        # The report escapes Markdown; mentions and references are broken here, since this page also travels into pull requests.
        inert(report.markdown(result, f"kernel-specs/{spec.id}/{result_path}").rstrip()),
        f"Every raw sample is in {_link(result_path, result_path)}.",
        "## How it was found",
        _provenance(result, experiments),
        "!" + _link("How the best speed-up grew with the evaluations spent", convergence_link),
        _lineages(experiments),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _summary(spec: Spec, result: Result) -> str:
    if result.geomean is None:
        return ""
    low, high = result.geomean.interval
    return (
        f"**{result.geomean.speedup:.2f}× as fast as the best {escape(result.against)}** ({spec.accept.confidence:.0%} interval "
        f"{low:.3f}–{high:.3f}, geometric mean over {len(result.rows)} workloads). "
        f"To be accepted, the interval's lower end had to clear {spec.accept.min_speedup:g}×."
    )


def _link(text: str, address: str) -> str:
    """A link whose address stays inside it: within angle brackets only these signs could end it."""
    inside = "".join(sign if sign not in "<>\\\n\r" else quote(sign) for sign in address)
    return f"[{escape(text)}](<{inside}>)"


def _provenance(result: Result, experiments: Sequence[Experiment]) -> str:
    counts = Counter(experiment.verdict for experiment in experiments)
    verdicts = ", ".join(f"{count} {escape(verdict)}" for verdict, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    tiers = Counter(experiment.tier for experiment in experiments)
    rounds = len({experiment.round for experiment in experiments} - {0})
    lines = [
        f"- {rounds} {_plural(rounds, 'round')}, {len(experiments)} {_plural(len(experiments), 'evaluation')} "
        f"({tiers['screening']} screened, {tiers['full']} judged in full): {verdicts or 'none'}.",
    ]
    winner = next((experiment for experiment in experiments if experiment.kernel_tree == result.identity.kernel_tree), None)
    if winner is not None:
        origin = _ORIGINS[winner.kind]
        lines.append(f"- First seen as {code(winner.id)}, round {winner.round}, from {origin}, by the lineage {code(winner.agent)}.")
        if winner.parent:
            lines.append(f"- It descends from the kernel tree {code(winner.parent)}.")
        if winner.hypothesis:
            lines.append(f"- Its hypothesis: {escape(winner.hypothesis)}")
    return "\n".join(lines)


def _lineages(experiments: Sequence[Experiment]) -> str:
    agents = dict.fromkeys(experiment.agent for experiment in experiments)
    if not agents:
        return ""
    lines = ["| lineage | evaluations | failed | best screened | best judged in full |", "|---|--:|--:|--:|--:|"]
    for agent in agents:
        mine = [experiment for experiment in experiments if experiment.agent == agent]
        failed = sum(experiment.speedup is None for experiment in mine)
        bests = " | ".join(_best([experiment for experiment in mine if experiment.tier == tier]) for tier in ("screening", "full"))
        lines.append(f"| {code(agent, cell=True)} | {len(mine)} | {failed} | {bests} |")
    return "\n".join(lines)


def _best(experiments: Sequence[Experiment]) -> str:
    speedups = [experiment.speedup for experiment in experiments if experiment.speedup is not None]
    return f"{max(speedups):.3f}×" if speedups else "–"


def _plural(number: int, word: str) -> str:
    return word if number == 1 else f"{word}s"
