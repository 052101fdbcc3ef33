"""How a budget is shared out, and that it never is exceeded."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.campaign.budget import affordable, count, reserve, share
from bot.campaign.state import Count
from bot.evidence.experiment import Experiment
from runner.spec.models import Budget


def test_every_experiment_costs_one_candidate_and_its_seconds(make_experiment: Callable[..., Experiment]) -> None:
    spent = count(
        [make_experiment(0, 1.2, seconds=3.5), make_experiment(1, seconds=0.0), make_experiment(2, 1.1, tier="full", seconds=40.0)]
    )
    assert spent == Count(candidates=3, device_seconds=43.5)


def test_a_round_gets_an_even_share_and_the_first_lineages_the_rest() -> None:
    part = share(Budget(rounds=2, candidates=20), Count(candidates=1, device_seconds=0), reserve(1, 0), 0, 0, ("a", "b", "c"))
    assert part is not None
    # 18 for two rounds: 9 each, one of them for the full judgement.
    assert part.trials == {"a": 3, "b": 3, "c": 2}


def test_what_is_too_little_for_all_rounds_is_enough_for_one() -> None:
    part = share(Budget(rounds=3, candidates=5), Count(candidates=1, device_seconds=0), reserve(1, 0), 0, 0, ("a", "b"))
    assert part is not None
    assert part.trials == {"a": 1, "b": 0}


@pytest.mark.parametrize("candidates", [1, 2, 3])
def test_a_round_without_room_for_a_trial_and_its_judgement_is_not_played(candidates: int) -> None:
    assert share(Budget(rounds=3, candidates=candidates), Count(candidates=1, device_seconds=0), reserve(1, 0), 0, 0, ("a",)) is None


def test_device_time_for_the_judgements_is_kept_back() -> None:
    budget, kept = Budget(rounds=3, candidates=60, device_minutes=2), reserve(1, 30.0)
    part = share(budget, Count(candidates=1, device_seconds=30), kept, 30.0, 0, ("a",))
    assert part is not None
    assert part.device_seconds == pytest.approx(120 - 30 - 2 * 1.25 * 30)
    assert share(budget, Count(candidates=1, device_seconds=46), kept, 30.0, 0, ("a",)) is None


def test_a_confirmation_needs_candidates_and_time() -> None:
    budget = Budget(rounds=3, candidates=10, device_minutes=1)
    assert affordable(budget, Count(candidates=8, device_seconds=59), 2)
    assert not affordable(budget, Count(candidates=9, device_seconds=59), 2)
    assert not affordable(budget, Count(candidates=1, device_seconds=60), 1)


@given(
    rounds=st.integers(1, 8),
    candidates=st.integers(1, 60),
    judgements=st.integers(1, 2),
    lineages=st.integers(1, 4),
)
def test_rounds_played_to_the_full_leave_exactly_the_reserve(rounds: int, candidates: int, judgements: int, lineages: int) -> None:
    """Whatever the budget is, playing every share to its end never spends what is kept for the confirmation."""
    budget = Budget(rounds=rounds, candidates=candidates, device_minutes=1000)
    agents = tuple("abcd"[:lineages])
    spent, turns = 1, 0
    while part := share(budget, Count(candidates=spent, device_seconds=0), reserve(judgements, 0), 0, turns, agents):
        spent += sum(part.trials.values()) + 1
        turns += 1
        assert spent + judgements <= candidates
    assert turns <= rounds
    # Nothing that would have been enough for another round is left over before the last one.
    assert turns == rounds or candidates - spent - judgements < 2
