"""`RESULTS.md`: what a campaign's winner reaches, how it was found, and the command that measures it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from bot.dashboard.markdown import code, escape
from bot.evidence.experiment import Experiment
from runner.manifest import KnobValue
from runner.result import Fact, Result, TimingRow
from runner.spec.models import Spec

RESULT_PATH = "results/result.json"


def results_markdown(
    spec: Spec, result: Result, experiments: Sequence[Experiment], convergence_link: str, *, result_path: str = RESULT_PATH
) -> str:
    """The page. `experiments` are the campaign's own; the addresses of the plot and of `result.json` are relative to the page."""
    parts = [
        f"# {escape(spec.title)}",
        _verdict(spec, result),
        _table(result.rows),
        "## How it was found",
        _provenance(result, experiments),
        f"![How the best speed-up grew with the evaluations spent]({convergence_link})",
        _lineages(experiments),
        "## The kernel",
        _identity(result),
        _knobs(result.knobs),
        "## Measured on",
        _environment(result.device, result.environment),
        "## Measure it again",
        f"Every raw sample is in [{result_path}]({result_path}). This measures both sides anew and says whether the result holds:",
        f"```\nkernel-runner reproduce kernel-specs/{spec.id}/{result_path}\n```",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _verdict(spec: Spec, result: Result) -> str:
    if result.geomean is None:
        return f"**{escape(result.verdict)}**: {escape(result.message)}"
    low, high = result.geomean.interval
    return (
        f"**{escape(result.verdict)}**: {result.geomean.speedup:.3f}× the speed of the best baseline "
        f"({spec.accept.confidence:.0%} interval {low:.3f}–{high:.3f}, geometric mean over {len(result.rows)} workloads); "
        f"to be accepted the lower end had to clear {spec.accept.min_speedup:g}×. {escape(result.message)}"
    ).rstrip()


def _table(rows: Sequence[TimingRow]) -> str:
    if not rows:
        return ""
    lines = [
        "| workload | error | kernel | baseline | speed-up | interval | roofline | copy |",
        "|---|--:|--:|---|--:|--:|--:|---|",
    ]
    for row in rows:
        error = "" if row.error is None else f"{row.error:.1e}"
        copy = "" if row.copy_ is None else f"{escape(row.copy_.name)} {row.copy_.share:.0%}"
        baseline = f"{escape(row.baseline.name)} {row.baseline.median_ms:.4g} ms"
        name = f"{escape(row.workload)}{' (noisy)' if row.noisy else ''}"
        interval = f"{row.interval[0]:.3f}–{row.interval[1]:.3f}"
        lines.append(
            f"| {name} | {error} | {row.median_ms:.4g} ms | {baseline} | {row.speedup:.3f}× | {interval} | {row.roofline:.0%} | {copy} |"
        )
    return "\n".join(lines)


def _provenance(result: Result, experiments: Sequence[Experiment]) -> str:
    counts = Counter(experiment.verdict for experiment in experiments)
    verdicts = ", ".join(f"{count} {escape(verdict)}" for verdict, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    tiers = Counter(experiment.tier for experiment in experiments)
    rounds = len({experiment.round for experiment in experiments})
    lines = [
        f"- {rounds} {_plural(rounds, 'round')}, {len(experiments)} {_plural(len(experiments), 'evaluation')} "
        f"({tiers['screening']} screened, {tiers['full']} judged in full): {verdicts or 'none'}.",
    ]
    winner = next((experiment for experiment in experiments if experiment.kernel_tree == result.identity.kernel_tree), None)
    if winner is not None:
        origin = {"seed": "a kernel written by hand", "search": "a search over knobs", "model": "a model", "person": "a person"}[
            winner.kind
        ]
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


def _identity(result: Result) -> str:
    identity = result.identity
    return "\n".join(
        [
            f"- kernel tree {code(identity.kernel_tree)}",
            f"- spec {code(identity.spec_hash)}",
            f"- harness {code(identity.harness)}",
            f"- measured {escape(result.started)}, in {result.seconds:.0f} s, against {escape(result.against)}",
        ]
    )


def _knobs(rows: Sequence[Mapping[str, KnobValue]]) -> str:
    rows = [row for row in rows if row]
    return "\n".join("- " + ", ".join(code(f"{name} = {value}") for name, value in row.items()) for row in rows)


def _environment(device: str, environment: Mapping[str, Fact]) -> str:
    lines = ["| | |", "|---|---|", f"| device | {escape(device)} |"]
    lines += [f"| {escape(name)} | {escape(str(value))} |" for name, value in environment.items()]
    return "\n".join(lines)


def _plural(number: int, word: str) -> str:
    return word if number == 1 else f"{word}s"
