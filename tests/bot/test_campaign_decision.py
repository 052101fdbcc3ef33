"""The campaign's decisions, over every way in which a campaign can go on or end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bot.campaign.state import Count, Course, Entry, LeftOut, Lineage, Objection, Order, Outcome, Plan, StopReason, Turn
from bot.decision import Move, active, confirmation_reserve, decide, lineage_best, to_judge, winner
from runner.spec.models import Accept, AgentSpec, Budget
from runner.verdict import Verdict

AGENTS = (AgentSpec(name="tpe", kind="search"), AgentSpec(name="writer", kind="author"))
PLAN = Plan(lineages=tuple(Lineage(agent=agent, start="s" * 40) for agent in AGENTS), left_out=(), device="d", harness="h")
NOTHING_SPENT = Count(candidates=1, device_seconds=10.0)


def order(**budget: float) -> Order:
    return Order(
        campaign="c-1",
        number=1,
        spec="c",
        spec_hash="h",
        champion="0" * 40,
        seed=1,
        accept=Accept(min_speedup=1.1),
        budget=Budget.model_validate({"rounds": 3, "candidates": 30, "device_minutes": 10.0, **budget}),
        agents=AGENTS,
        publish=True,
        started="2026-11-30T12:00:00+00:00",
    )


def outcome(
    tree: str,
    speedup: float | None,
    *,
    verdict: Verdict | None = Verdict.ACCEPTED,
    agent: str = "tpe",
    round_number: int = 1,
    against: str = "baseline",
    fresh: bool = False,
    low: float | None = None,
) -> Outcome:
    entry = Entry(
        campaign="c-1",
        round=round_number,
        agent=agent,
        first=0,
        tree=tree,
        kind="search",
        parent=None,
        hypothesis="",
        tier="full",
        against="champion" if against == "champion" else "baseline",
        fresh=fresh,
    )
    interval = None if speedup is None else (speedup * 0.98 if low is None else low, speedup * 1.02)
    return Outcome(entry=entry, experiments=1, tree=tree, verdict=verdict, speedup=speedup, interval=interval, seconds=20.0, result="r")


def course(
    *judged: Outcome | None,
    champion: Outcome | None = None,
    confirmations: Sequence[Outcome] = (),
    idle: Sequence[str] = (),
) -> Course:
    """A course in which each round's judged candidate screened as it was judged."""
    turns = tuple(
        Turn(
            round=number,
            screened=(one,) if one is not None else (),
            idle=tuple(LeftOut(agent=agent, why="nothing new") for agent in idle),
            judged=one,
        )
        for number, one in enumerate(judged, start=1)
    )
    known = champion or outcome("0" * 40, 0.8, verdict=Verdict.SLOWER)
    return Course(champion=known, turns=turns, confirmations=tuple(confirmations))


def test_the_first_round_is_played_with_its_share() -> None:
    decision = decide(order(), PLAN, course(), NOTHING_SPENT)
    assert decision.move is Move.PLAY
    assert decision.share is not None
    # 30 less the champion less one kept for the confirmation is 28: 9 a round, one of them the full judgement.
    assert decision.share.trials == {"tpe": 4, "writer": 4}


def test_the_best_accepted_candidate_is_confirmed_after_the_last_round() -> None:
    played = course(outcome("a", 1.2), outcome("b", 1.5), outcome("c", 1.6, verdict=Verdict.SLOWER))
    decision = decide(order(), PLAN, played, Count(candidates=28, device_seconds=60))
    assert (decision.move, decision.candidate and decision.candidate.tree) == (Move.CONFIRM, "b")


def test_a_surer_candidate_is_better_than_a_luckier_one() -> None:
    played = course(outcome("lucky", 2.0, low=1.11), outcome("sure", 1.5, low=1.45), None)
    decision = decide(order(), PLAN, played, NOTHING_SPENT)
    assert (decision.move, decision.candidate and decision.candidate.tree) == (Move.CONFIRM, "sure")


def test_a_confirmed_candidate_wins_with_the_confirmations_numbers() -> None:
    played = course(outcome("a", 1.5), confirmations=[outcome("a", 1.4, fresh=True)])
    decision = decide(order(), PLAN, played, NOTHING_SPENT)
    assert (decision.move, decision.stop) == (Move.STOP, StopReason.CONFIRMED)
    best = winner(played)
    assert best is not None
    assert (best.kernel_tree, best.speedup, best.over_champion) == ("a", 1.4, None)


def test_a_refused_confirmation_makes_room_for_the_next_best() -> None:
    refused = outcome("b", 1.0, verdict=Verdict.SLOWER, fresh=True)
    played = course(outcome("a", 1.2), outcome("b", 1.5), None, confirmations=[refused])
    decision = decide(order(), PLAN, played, NOTHING_SPENT)
    assert (decision.move, decision.candidate and decision.candidate.tree) == (Move.CONFIRM, "a")


def test_no_confirmation_begins_without_budget_for_it() -> None:
    refused = outcome("b", 1.0, verdict=Verdict.SLOWER, fresh=True)
    played = course(outcome("a", 1.2), outcome("b", 1.5), None, confirmations=[refused])
    decision = decide(order(), PLAN, played, Count(candidates=30, device_seconds=60))
    assert (decision.move, decision.stop) == (Move.STOP, StopReason.NOT_CONFIRMED)
    assert "no room for another confirmation" in decision.reason


def test_a_candidate_that_no_confirmation_upholds_is_no_winner() -> None:
    refused = outcome("a", 1.0, verdict=Verdict.SLOWER, fresh=True)
    decision = decide(order(), PLAN, course(outcome("a", 1.2), None, None, confirmations=[refused]), NOTHING_SPENT)
    assert (decision.move, decision.stop) == (Move.STOP, StopReason.NOT_CONFIRMED)
    assert "a was slower 1.000 (0.980–1.020)" in decision.reason


def test_two_rounds_without_improvement_end_the_search() -> None:
    played = course(outcome("a", 1.05, verdict=Verdict.SLOWER), outcome("b", 1.051, verdict=Verdict.SLOWER), outcome("c", 1.04))
    played = played.model_copy(update={"turns": played.turns[:3]})
    decision = decide(order(rounds=10), PLAN, played, NOTHING_SPENT)
    assert decision.move is Move.CONFIRM
    stuck = course(*(outcome(name, 0.79, verdict=Verdict.SLOWER) for name in "ab"))
    decision = decide(order(rounds=10), PLAN, stuck, NOTHING_SPENT)
    assert (decision.move, decision.stop) == (Move.STOP, StopReason.NO_IMPROVEMENT)
    assert "the best reached 0.790 (0.774–0.806)" in decision.reason


def test_rounds_that_timed_nothing_do_not_count_as_no_improvement() -> None:
    assert decide(order(rounds=10), PLAN, course(None, None, None), NOTHING_SPENT).move is Move.PLAY


@pytest.mark.parametrize(
    ("budget", "spent", "stop"),
    [
        ({"rounds": 1}, NOTHING_SPENT, StopReason.ROUNDS),
        ({}, Count(candidates=28, device_seconds=10), StopReason.CANDIDATES),
        ({}, Count(candidates=5, device_seconds=590), StopReason.DEVICE_TIME),
    ],
)
def test_every_budget_ends_the_search_with_its_reason(budget: dict[str, float], spent: Count, stop: StopReason) -> None:
    decision = decide(order(**budget), PLAN, course(outcome("a", 0.9, verdict=Verdict.SLOWER)), spent)
    assert (decision.move, decision.stop) == (Move.STOP, stop)
    assert "no candidate was accepted: the best reached 0.900" in decision.reason


def test_lineages_with_nothing_new_end_the_search_and_say_why() -> None:
    once = course(None, idle=["tpe", "writer"])
    # A search that is done is done; a model may have another idea once.
    assert active(PLAN, once) == ("writer",)
    decision = decide(order(), PLAN, course(None, None, idle=["tpe", "writer"]), NOTHING_SPENT)
    assert (decision.move, decision.stop) == (Move.STOP, StopReason.EXHAUSTED)
    assert "tpe: nothing new" in decision.reason


def test_a_champion_that_meets_the_bar_must_be_beaten() -> None:
    champion = outcome("0" * 40, 1.3)
    assert confirmation_reserve(course(champion=champion)).candidates == 2
    slower = course(outcome("a", 1.25), None, None, champion=champion)
    decision = decide(order(), PLAN, slower, NOTHING_SPENT)
    assert (decision.move, decision.stop) == (Move.STOP, StopReason.ROUNDS)
    assert "the champion already meets the acceptance with 1.300" in decision.reason
    faster = course(outcome("a", 1.4), None, None, champion=champion)
    assert decide(order(), PLAN, faster, NOTHING_SPENT).move is Move.CONFIRM


@pytest.mark.parametrize(("over", "wins"), [(1.08, True), (1.01, False)])
def test_the_champion_is_beaten_only_when_the_whole_interval_is_above_one(over: float, wins: bool) -> None:
    champion = outcome("0" * 40, 1.3)
    confirmations = [outcome("a", 1.4, fresh=True), outcome("a", over, fresh=True, against="champion", verdict=Verdict.SLOWER)]
    played = course(outcome("a", 1.4), champion=champion, confirmations=confirmations)
    best = winner(played)
    assert (best is not None) == wins
    if best is not None:
        assert best.over_champion is not None
        assert best.over_champion[0] == over


def test_only_what_screened_better_than_before_is_judged_in_full() -> None:
    played = course(outcome("a", 1.2))
    assert to_judge(played, (outcome("b", 1.19), outcome("c", 1.1))) is None
    best = to_judge(played, (outcome("b", 1.3), outcome("c", 1.4), outcome("d", None, verdict=Verdict.INCORRECT)))
    assert best is not None
    assert best.tree == "c"


@pytest.mark.parametrize("tree", ["a", "0" * 40])
def test_neither_the_champion_nor_a_judged_candidate_is_judged_again(tree: str) -> None:
    assert to_judge(course(outcome("a", 1.2)), (outcome(tree, 1.9),)) is None


def test_a_lineages_best_is_its_own() -> None:
    played = course(outcome("a", 1.2), outcome("b", 1.4, agent="writer"), outcome("c", 1.3))
    best = lineage_best(played, "tpe")
    assert best is not None
    assert best.tree == "c"
    assert lineage_best(played, "nobody") is None


def objected(played: Course, tree: str, by: str = "ada", text: str = "too clever") -> Course:
    """The course after a person asked for changes to the winner `tree`."""
    objection = Objection(review=1, by=by, text=text, tree=tree, turns=len(played.turns), confirmations=len(played.confirmations))
    return played.model_copy(update={"objections": (*played.objections, objection)})


def test_a_request_for_changes_brings_another_round_though_everything_was_spent() -> None:
    won = course(outcome("a", 1.5), outcome("b", 1.4), outcome("c", 1.3), confirmations=[outcome("a", 1.5, fresh=True)])
    spent = Count(candidates=30, device_seconds=500)
    assert decide(order(), PLAN, won, spent).stop is StopReason.CONFIRMED
    asked = objected(won, "a")
    assert winner(asked) is None
    decision = decide(order(), PLAN, asked, spent)
    assert decision.move is Move.PLAY
    assert decision.share is not None
    assert sum(decision.share.trials.values()) >= 1


def test_after_the_other_round_the_best_that_nobody_objected_to_is_confirmed() -> None:
    won = course(outcome("a", 1.5), outcome("b", 1.4), outcome("c", 1.3), confirmations=[outcome("a", 1.5, fresh=True)])
    asked = objected(won, "a")
    another = asked.model_copy(update={"turns": (*asked.turns, Turn(round=4, screened=(), idle=(), judged=outcome("d", 1.2)))})
    decision = decide(order(), PLAN, another, Count(candidates=36, device_seconds=500))
    assert (decision.move, decision.candidate and decision.candidate.tree) == (Move.CONFIRM, "b")


def test_where_nothing_else_was_accepted_the_objection_is_the_reason() -> None:
    won = course(outcome("a", 1.5), confirmations=[outcome("a", 1.5, fresh=True)])
    asked = objected(won, "a")
    another = asked.model_copy(update={"turns": (*asked.turns, Turn(round=2, screened=(), idle=(), judged=None))})
    decision = decide(order(), PLAN, another, NOTHING_SPENT)
    assert (decision.move, decision.stop) == (Move.STOP, StopReason.REFUSED)
    assert decision.reason.startswith("ada asked for changes: too clever; nothing else was accepted")


def test_a_persons_kernel_that_was_accepted_is_confirmed_like_any_other() -> None:
    alone = order().model_copy(update={"agents": ()})
    nobody = PLAN.model_copy(update={"lineages": ()})
    entered = course().model_copy(update={"entered": (outcome("p", 1.3, agent="pr-7", round_number=0),)})
    decision = decide(alone, nobody, entered, NOTHING_SPENT)
    assert (decision.move, decision.candidate and decision.candidate.tree) == (Move.CONFIRM, "p")
    wrong = course().model_copy(update={"entered": (outcome("p", None, verdict=Verdict.INCORRECT, agent="pr-7"),)})
    assert decide(alone, nobody, wrong, NOTHING_SPENT).stop is StopReason.EXHAUSTED
