"""What a person sees while a campaign runs: a panel that is kept current on a terminal, or a line an event elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from bot.campaign.budget import count
from bot.campaign.ports import Suspended
from bot.campaign.state import Order, Plan
from bot.evidence.experiment import Experiment
from runner.verdict import Verdict


class Board:
    """What is known of the running campaign. Everything on it comes from the notebook, so a continued campaign shows the same."""

    def __init__(self) -> None:
        self.order: Order | None = None
        self.plan: Plan | None = None
        self.round = 0
        self.doing = "starting"
        self.detail = ""
        self.since = time.monotonic()
        self.experiments: dict[str, Experiment] = {}

    def best(self) -> Experiment | None:
        """The best so far: of those judged in full, or of those screened while none was."""
        timed = [one for one in self.experiments.values() if one.speedup is not None and one.against == "baseline" and one.round > 0]
        full = [one for one in timed if one.tier == "full"]
        return max(full or timed, key=lambda one: one.interval[0] if one.interval else one.speedup or 0.0, default=None)

    def verdicts(self) -> str:
        """The verdicts with their counts, the most frequent first."""
        counts = Counter(one.verdict for one in self.experiments.values())
        return (
            ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
            or "none yet"
        )

    def left(self) -> str:
        """What is left of the budget."""
        if self.order is None:
            return ""
        budget, spent = self.order.budget, count(self.experiments.values())
        minutes = budget.device_minutes - spent.device_seconds / 60
        return (
            f"{budget.candidates - spent.candidates} of {budget.candidates} candidates, "
            f"{max(minutes, 0.0):.1f} of {budget.device_minutes:g} device minutes"
        )


class Terminal:
    """`Watch` on standard error. Use as a context manager: while it is open on a terminal, a panel is drawn there."""

    def __init__(self, console: Console | None = None) -> None:
        # Lines for a log are never broken; a panel that were wider than its terminal could not be redrawn in place.
        self.console = console or Console(file=sys.stderr, highlight=False, soft_wrap=not sys.stderr.isatty())
        self.board = Board()
        self._stop = threading.Event()
        self._live: Live | None = None

    def __enter__(self) -> Terminal:
        if self.console.is_terminal:
            self._live = Live(console=self.console, get_renderable=self._panel, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def opened(self, order: Order, plan: Plan, experiments: Sequence[Experiment]) -> None:
        board = self.board
        begun = "continues" if experiments or board.order is not None else "begins"
        board.order, board.plan = order, plan
        board.experiments = {one.id: one for one in experiments}
        board.round = max((one.round for one in experiments), default=0)
        lineages = ", ".join(f"{lineage.agent.name} ({lineage.agent.kind})" for lineage in plan.lineages)
        self._say(f"campaign {order.campaign} {begun} on {plan.device}: {lineages}")
        for left_out in plan.left_out:
            self._say(f"{left_out.agent} is left out: {left_out.why}")

    def doing(self, round_number: int, what: str) -> None:
        if (round_number, what) != (self.board.round, self.board.doing):
            self.board.round, self.board.doing, self.board.detail = round_number, what, ""
            self.board.since = time.monotonic()
            self._plain(f"round {round_number}: {what}")

    def detail(self, what: str) -> None:
        self.board.detail = what

    def lost(self, why: str) -> None:
        self._say(f"round {self.board.round}: lost: {why}")

    def recorded(self, experiment: Experiment) -> None:
        self.board.experiments[experiment.id] = experiment
        self.board.detail, self.board.since = "", time.monotonic()
        self._plain(line(experiment))

    def interrupted(self) -> None:
        if self._stop.is_set():
            raise Suspended(None)

    def stop(self) -> None:
        """Ask the campaign's thread to suspend itself at its next chance."""
        self._stop.set()

    def _say(self, text: str) -> None:
        self.console.print(Text(text))

    def _plain(self, text: str) -> None:
        if self._live is None:
            self._say(text)

    def _panel(self) -> RenderableType:
        board = self.board
        if board.order is None:
            return Text(f"{board.doing} …")
        table = Table.grid(padding=(0, 2))
        table.add_row("round", Text(f"{board.round} of {board.order.budget.rounds}"))
        table.add_row("now", Text(f"{board.doing}{board.detail and ': ' + board.detail} ({time.monotonic() - board.since:.0f} s)"))
        table.add_row("judged", Text(f"{len(board.experiments)}: {board.verdicts()}"))
        best = board.best()
        table.add_row("best", Text(f"{_measured(best)}, {best.tier} by {best.agent}" if best is not None else "nothing timed yet"))
        table.add_row("left", Text(board.left()))
        return Group(table)


def line(experiment: Experiment) -> str:
    knobs = " ".join(f"{name}={value}" for name, value in experiment.knobs.items())
    told = _measured(experiment) if experiment.verdict in (Verdict.ACCEPTED, Verdict.SLOWER) else experiment.message.splitlines()[0:1]
    text = told if isinstance(told, str) else " ".join(told)[:160]
    return " ".join(part for part in (experiment.id, experiment.tier, str(experiment.verdict), text, knobs) if part)


def _measured(experiment: Experiment) -> str:
    if experiment.speedup is None:
        return ""
    interval = f" ({experiment.interval[0]:.3f}–{experiment.interval[1]:.3f})" if experiment.interval is not None else ""
    return f"{experiment.speedup:.3f}×{interval} over the {experiment.against}"
