"""The dashboard issue tells the best that may still win, the budget with what people added, the runs, and what people asked to change."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from bot.campaign.dashboard import Dashboard
from bot.campaign.ports import Closing
from bot.campaign.state import Ending, Merged, Order, StopReason, Winner
from bot.dashboard.issue import More, Run, best_of, dashboard_body, dashboard_end
from bot.decision import enlarged
from bot.evidence.remark import Remark
from bot.hosting import PullRequest
from runner.result import load_result
from runner.spec.models import Accept, Budget

BUDGET = Budget(rounds=2, candidates=12, device_minutes=30)


@pytest.fixture
def order():
    return Order(
        campaign="c1",
        number=1,
        spec="a-spec",
        spec_hash="5" * 64,
        champion="0" * 40,
        seed=1,
        accept=Accept(min_speedup=1.05, approval="required"),
        budget=BUDGET,
        agents=(),
        publish=True,
        started="2026-11-02T10:00:00+00:00",
        commit="c" * 40,
    )


@pytest.fixture
def experiments(make_experiment):
    return [
        make_experiment(0, 0.5, round=0, agent="champion", tier="full", seconds=60.0),
        make_experiment(1, 1.9, seconds=30.0),
        make_experiment(2, 1.4, tier="full", verdict="accepted", seconds=60.0),
        make_experiment(0, 1.2, agent="local", tier="full", round=2, verdict="accepted", seconds=60.0),
        make_experiment(1, None, agent="local", round=2),
    ]


@pytest.fixture
def remark(experiments):
    return partial(Remark, campaign="c1", spec="a-spec", review=7, by="ada", kernel_tree=experiments[2].kernel_tree)


def test_the_best_is_what_was_judged_in_full_and_may_still_win(experiments, remark):
    assert best_of([], ()) is None
    assert best_of(experiments[:1], ()) is None
    assert best_of(experiments[:2], ()) == experiments[1]
    assert best_of(experiments, ()) == experiments[2]
    assert best_of(experiments, [remark(text="No.")]) == experiments[3]


def test_lineages_budget_and_runs_are_tables_and_links(order, experiments):
    pulls = [PullRequest(4, "open", "factory/c1/tpe", "a" * 40, "bot")]
    runs = [Run("https://forge.example/runs/9"), Run("https://forge.example/runs/11", "no machine took it @everyone")]
    body = dashboard_body(order, "round 2: screening", experiments, pulls, "https://forge.example/plot.png", None, More(runs=runs))
    assert "Spec `a-spec`: **round 2: screening**\n" in body
    assert "![How the best speed-up grew](<https://forge.example/plot.png>)" in body
    assert "| `tpe` | 2 | 1.900× | 1.400× | #4 |" in body
    assert "| `local` | 2 | – | 1.200× |  |" in body
    assert "| rounds | 2 | 2 | 0 |\n| candidates | 5 | 12 | 7 |\n| device minutes | 3.5 | 30 | 26.5 |" in body
    assert "[1](<https://forge.example/runs/9>), [2](<https://forge.example/runs/11>) (lost: no machine took it @\u2060everyone)" in body


def test_the_share_of_the_roofline_is_told_where_it_is_known(order, experiments):
    result = load_result(Path(__file__).parents[3] / "tests/data/fairness/2026-12-01-champion-against-itself.json")
    shares = [round(100 * row.roofline) for row in result.rows]
    body = dashboard_body(order, "x", experiments, [], None, None, More(best=result))
    assert f"Best so far: **1.400×** (1.386–1.414), {min(shares)}–{max(shares)} % of the roofline; judged in full" in body


def test_what_people_asked_to_change_enlarges_the_budget_and_is_told_as_data(order, experiments, remark):
    said = remark(text="Too\n\n# many knobs. Closes #1, @everyone")
    more = More(budget=enlarged(BUDGET, 1, 0, 2), remarks=[said])
    body = dashboard_body(order, "x", experiments, [], None, None, more)
    assert "| rounds | 2 | 3 | 1 |\n| candidates | 5 | 18 | 13 |\n| device minutes | 3.5 | 45 | 41.5 |" in body
    assert f"- ada, of the kernel `{said.kernel_tree[:12]}`: Too \\# many knobs. Closes \\#\u20601, @\u2060everyone" in body


def test_the_end_says_what_was_merged_by_whose_word_or_why_nothing_was(order, experiments):
    winner = Winner(agent="tpe", kernel_tree="a" * 40, speedup=1.4, interval=(1.386, 1.414), result="r", found="")
    merged = Merged(merged=True, sha="d" * 40, head="e" * 40, number=4, approved_by="ada", kernel_tree="a" * 40)
    ending = Ending(
        status="accepted", stop=StopReason.CONFIRMED, reason="confirmed", rounds=2, winner=winner, files=(), seconds=9.0, merged=merged
    )
    body = dashboard_end(Closing(order, None, ending, ()), experiments, [], None)
    told = "Spec `a-spec`: **merged** #4, 1.400× (1.386–1.414) of `tpe`, approved by ada, as `dddddddddddd`"
    assert body.startswith(f"{told}\n\nWhy it ended: confirmed.")
    unmerged = ending.model_copy(update={"merged": None, "winner": None, "reason": "all 2 rounds were played"})
    assert dashboard_end(Closing(order, None, unmerged, ()), experiments, [], None).startswith(
        "Spec `a-spec`: **ended without a merge**\n\nWhy it ended: all 2 rounds were played."
    )


def test_a_forks_branch_of_a_lineages_name_is_not_shown_as_the_lineage(order):
    own = PullRequest(3, "open", "factory/c1/tpe", "1" * 40, "kernel-factory[bot]")
    forks = PullRequest(4, "open", "factory/c1/tpe", "2" * 40, "eve", fork=True)
    repository = SimpleNamespace(pull_requests=lambda state: [own, forks])
    assert Dashboard(repository, None, None, None)._pulls(order) == [own]
