"""The convergence plot: how the best speed-up grew with the evaluations spent, one line a lineage, failures marked below."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from bot.evidence.experiment import Experiment
from runner.verdict import Verdict

# Okabe and Ito's palette: told apart with every common kind of colour vision, and in grey by the line styles below.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
NAME = 20  # so much of a lineage's name fits into the legend
_STYLES = ("-", "--", "-.", ":")
_INK, _MUTED, _GRID, _FAILED = "#24292f", "#57606a", "#d8dee4", "#cf222e"
_SIGNS = {
    Verdict.POLICY_VIOLATION: "s",
    Verdict.BUILD_ERROR: "+",
    Verdict.LAUNCH_ERROR: "x",
    Verdict.TIMEOUT: "1",
    Verdict.INCORRECT: "^",
    Verdict.IMPLAUSIBLE: "*",
    Verdict.EVALUATION_LOST: ".",
    Verdict.SLOWER: "2",
    Verdict.ACCEPTED: "3",
}


def write_plot(experiments: Sequence[Experiment], path: Path, *, min_speedup: float | None = None, title: str = "") -> None:
    """Write a campaign's convergence as a picture (PNG, or what the path's suffix says), 1,440 × 1,320 pixels.

    It is made to be read in a page's column and on a telephone too: few inches, so that its letters are large, and the legend below.
    Experiments count in the order in which they were made. `min_speedup` draws the bar that a winner must clear.
    """
    ordered = sorted(experiments, key=lambda experiment: (experiment.created, experiment.id))
    figure = Figure(figsize=(6, 5.5), dpi=240, layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    places = {experiment.id: number for number, experiment in enumerate(ordered, start=1)}
    for number, agent in enumerate(dict.fromkeys(experiment.agent for experiment in ordered)):
        mine = [experiment for experiment in ordered if experiment.agent == agent]
        _draw_lineage(axes, plain(agent, NAME), mine, places, number, len(ordered))
    _draw_full(axes, ordered)
    _draw_failures(axes, ordered, places)
    _draw_bars(axes, min_speedup)
    _dress(figure, axes, len(ordered), plain(title))
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        # A title in a script that the font lacks is shown with boxes; that is no reason to fail or to print.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(path, metadata={"Software": None} if path.suffix == ".png" else None)


def plain(text: str, limit: int = 60) -> str:
    """Text for a picture: `$` would begin a formula, and a line has an end."""
    return " ".join(text.split())[:limit].replace("\\", "").replace("$", r"\$")


def _draw_lineage(axes: Axes, agent: str, mine: Sequence[Experiment], places: dict[str, int], number: int, last: int) -> None:
    colour = _COLOURS[number % len(_COLOURS)]
    timed = [(places[experiment.id], experiment.speedup, experiment) for experiment in mine if experiment.speedup is not None]
    screened = [(place, speedup) for place, speedup, experiment in timed if experiment.tier == "screening"]
    axes.scatter([x for x, _ in screened], [y for _, y in screened], s=16, color=colour, alpha=0.45, linewidths=0, zorder=3)
    for place, speedup, experiment in timed:
        if experiment.tier == "full":
            face = colour if experiment.verdict is Verdict.ACCEPTED else "white"
            if experiment.interval is not None:
                axes.vlines(place, *experiment.interval, color=colour, linewidth=1.1, zorder=4)
            axes.scatter(place, speedup, s=44, marker="D", facecolors=face, edgecolors=colour, linewidths=1.4, zorder=5)
    best, steps = 0.0, []
    for place, speedup, _ in timed:
        best = max(best, speedup)
        steps.append((place, best))
    if steps:
        steps.append((last, best))
        style = _STYLES[number % len(_STYLES)]
        xs, ys = [place for place, _ in steps], [speedup for _, speedup in steps]
        label = f"{agent}: best {best:.2f}×"
        axes.step(xs, ys, where="post", color=colour, linestyle=style, linewidth=1.8, label=label, zorder=4)
    else:
        axes.plot([], [], color=colour, label=f"{agent}: nothing timed")


def _draw_full(axes: Axes, ordered: Sequence[Experiment]) -> None:
    """Entries of the legend for what was judged in full: one look for all lineages."""
    full = {experiment.verdict for experiment in ordered if experiment.tier == "full" and experiment.speedup is not None}
    for verdict, face in ((Verdict.ACCEPTED, _MUTED), (Verdict.SLOWER, "white")):
        if verdict in full:
            label = f"judged in full: {verdict}"
            axes.scatter([], [], s=44, marker="D", facecolors=face, edgecolors=_MUTED, linewidths=1.4, label=label)


def _draw_failures(axes: Axes, ordered: Sequence[Experiment], places: dict[str, int]) -> None:
    """Everything that could not be timed stands at the bottom, whatever the scale above it; a sign a verdict."""
    verdicts = sorted({experiment.verdict for experiment in ordered if experiment.speedup is None})
    for verdict in verdicts:
        failed = [places[experiment.id] for experiment in ordered if experiment.speedup is None and experiment.verdict is verdict]
        axes.scatter(
            failed,
            [0.03] * len(failed),
            marker=_SIGNS[verdict],
            s=26,
            linewidths=1.2,
            color=_FAILED,
            transform=axes.get_xaxis_transform(),
            label=f"{verdict} ({len(failed)})",
            zorder=3,
        )


def _draw_bars(axes: Axes, min_speedup: float | None) -> None:
    axes.axhline(1.0, color=_MUTED, linewidth=0.9, zorder=2)
    if min_speedup is not None:
        axes.axhline(min_speedup, color=_MUTED, linewidth=1.0, linestyle=(0, (4, 3)), zorder=2, label=f"to be accepted: {min_speedup:.2f}×")


def _dress(figure: Figure, axes: Axes, evaluations: int, title: str) -> None:
    if title:
        axes.set_title(title, loc="left", color=_INK, fontsize=11.5, fontweight="bold", pad=9)
    axes.set_xlabel("evaluations, in their order", color=_INK, fontsize=11)
    axes.set_ylabel("speed-up over the best baseline", color=_INK, fontsize=11)
    margin = max(0.5, 0.02 * evaluations)
    axes.set_xlim(1 - margin, max(evaluations, 2) + margin)
    low, high = axes.get_ylim()
    # Room below for the failures, so that no point lies on them.
    axes.set_ylim(low - 0.09 * (high - low), high + 0.03 * (high - low))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    axes.grid(True, color=_GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(colors=_MUTED, labelsize=10.5)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(_GRID)
    if axes.get_legend_handles_labels()[0]:
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=10, labelcolor=_INK, columnspacing=1.2)
