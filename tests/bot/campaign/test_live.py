"""What a person sees of a running campaign: a panel on a terminal, lines elsewhere."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import pytest
from rich.console import Console

from bot.campaign.live import Terminal
from bot.campaign.ports import Suspended
from bot.campaign.state import LeftOut, Lineage, Order, Plan
from bot.evidence.experiment import Experiment
from runner.spec.models import Accept, AgentSpec, Budget
from runner.verdict import Verdict

AGENT = AgentSpec(name="tpe", kind="search")
PLAN = Plan(
    lineages=(Lineage(agent=AGENT, start="a" * 40),),
    left_out=(LeftOut(agent="writer", why="no server"),),
    device="A CPU [2 cores]",
    harness="h",
)
ORDER = Order(
    campaign="c-1",
    number=1,
    spec="c",
    spec_hash="h",
    champion="a" * 40,
    seed=1,
    accept=Accept(),
    budget=Budget(rounds=3, candidates=20, device_minutes=5.0),
    agents=(AGENT,),
    publish=True,
    started="2026-11-30T12:00:00+00:00",
)
Make = Callable[..., Experiment]


def shown(*, terminal: bool, make: Make, until: Callable[[Terminal], None] = lambda _: None) -> str:
    """What was written while a campaign opened, screened two points and judged one in full."""
    output = io.StringIO()
    watch = Terminal(Console(file=output, force_terminal=terminal, width=120, highlight=False, soft_wrap=not terminal))
    with watch:
        watch.opened(ORDER, PLAN, ())
        watch.doing(1, "screening")
        watch.detail("a detail of the point before")
        watch.lost("run 7 ended as [red]failure[/red]")
        watch.recorded(make(0, 1.2, knobs={"unroll": 4}))
        watch.recorded(make(1, message="it wrote [red]past[/red] the end\nsecond line", verdict=Verdict.LAUNCH_ERROR))
        watch.recorded(make(2, 1.1, tier="full", seconds=60.0))
        watch.detail("timing large, 3 of 10")
        until(watch)
    return output.getvalue()


def test_elsewhere_each_event_is_a_line(make_experiment: Make) -> None:
    lines = shown(terminal=False, make=make_experiment).splitlines()
    assert lines == [
        "campaign c-1 begins on A CPU [2 cores]: tpe (search)",
        "writer is left out: no server",
        "round 1: screening",
        "round 1: lost: run 7 ended as [red]failure[/red]",
        "c1/1/tpe/0 screening slower 1.200× (1.188–1.212) over the baseline unroll=4",
        "c1/1/tpe/1 screening launch_error it wrote [red]past[/red] the end",
        "c1/1/tpe/2 full slower 1.100× (1.089–1.111) over the baseline",
    ]


def test_on_a_terminal_a_panel_is_kept_current(make_experiment: Make) -> None:
    def refreshed(watch: Terminal) -> None:
        assert watch._live is not None
        watch._live.refresh()

    text = shown(terminal=True, make=make_experiment, until=refreshed)
    assert re.search(r"round +1 of 3", text)
    assert re.search(r"now +screening: timing large, 3 of 10 \(\d+ s\)", text)
    assert "2 slower, 1 launch_error" in text
    # What was judged in full is surer than what only screened better.
    assert "1.100× (1.089–1.111) over the baseline, full by tpe" in text
    assert "17 of 20 candidates, 4.0 of 5 device minutes" in text


def test_a_continued_campaign_shows_what_it_has_already(make_experiment: Make) -> None:
    watch = Terminal(Console(file=io.StringIO()))
    watch.opened(ORDER, PLAN, [make_experiment(0, 1.2, round=2)])
    assert (watch.board.round, watch.board.left()) == (2, "19 of 20 candidates, 5.0 of 5 device minutes")
    best = watch.board.best()
    assert best is not None
    assert best.speedup == 1.2


def test_what_was_measured_over_the_champion_is_not_the_best(make_experiment: Make) -> None:
    watch = Terminal(Console(file=io.StringIO()))
    watch.opened(ORDER, PLAN, [make_experiment(0, 1.2, tier="full"), make_experiment(1, 1.9, tier="full", against="champion")])
    best = watch.board.best()
    assert best is not None
    assert best.speedup == 1.2


def test_a_stop_is_heard_at_the_next_chance() -> None:
    watch = Terminal(Console(file=io.StringIO()))
    watch.interrupted()
    watch.stop()
    with pytest.raises(Suspended, match="interrupted"):
        watch.interrupted()
