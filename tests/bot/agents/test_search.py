"""The search agent uses what the notebook knows, and stops when there is nothing new to try."""

from __future__ import annotations

import dataclasses

import pytest

from bot.agents.search import SearchAgent
from bot.evidence.remark import Remark
from runner.candidate import candidate_from_files
from runner.identity import source_hash
from runner.manifest import KnobValue
from runner.verdict import Verdict


def row(candidate) -> dict[str, KnobValue]:
    (only,) = candidate.manifest.table
    return {name: value for name, value in only.items() if name != "when"}


def test_without_experience_the_kernel_is_proposed_as_it_is_with_a_search(make_brief, seed_kernel):
    (proposal,) = SearchAgent("tpe", "tpe").propose(make_brief())
    assert proposal.candidate == seed_kernel
    assert proposal.tuning is not None
    assert (proposal.tuning.strategy, proposal.tuning.trials, proposal.tuning.seed, proposal.tuning.prior) == ("tpe", 8, 7, ())
    assert (proposal.provenance.agent, proposal.provenance.kind, proposal.provenance.parent) == ("tpe", "search", seed_kernel.tree)


def test_the_same_brief_gives_the_same_proposal(make_brief, make_point):
    points = [make_point(index, 1 + index / 10, {"unroll": [1, 2, 4, 8][index]}) for index in range(4)]
    agent = SearchAgent("local", "local")
    assert agent.propose(make_brief(points)) == agent.propose(make_brief(points[::-1]))


def test_the_best_of_earlier_campaigns_is_measured_first_and_the_rest_is_the_prior(make_brief, make_point):
    points = [make_point(index, speedup, {"unroll": unroll}) for index, (unroll, speedup) in enumerate([(1, 1.1), (2, 1.5), (4, 1.3)])]
    points.append(make_point(3, None, {"unroll": 8}))
    (proposal,) = SearchAgent("tpe", "tpe").propose(make_brief(points))
    assert row(proposal.candidate) == points[1].knobs
    assert [dict(trial.knobs)["unroll"] for trial in proposal.tuning.prior] == [8, 1, 4]


def test_a_point_measured_several_times_counts_by_its_mean(make_brief, make_point):
    points = [
        make_point(0, 1.6, {"unroll": 1}),
        make_point(1, 1.2, {"unroll": 1}),
        make_point(2, 1.5, {"unroll": 2}),
    ]
    (proposal,) = SearchAgent("tpe", "tpe").propose(make_brief(points))
    assert row(proposal.candidate)["unroll"] == 2


def test_lineages_on_the_same_kernel_measure_different_points_again(make_brief, make_point):
    points = [make_point(index, 1 + index / 10, {"unroll": unroll}) for index, unroll in enumerate([1, 2, 4])]
    proposals = [SearchAgent(name, "tpe").propose(make_brief(points, agent=name))[0] for name in ("tpe", "local")]
    assert [row(proposal.candidate)["unroll"] for proposal in proposals] == [4, 2]


def test_what_this_campaign_measured_is_not_measured_again(make_brief, make_point):
    points = [make_point(0, 1.5, {"unroll": 4}), make_point(0, 1.49, {"unroll": 4}, campaign="c2"), make_point(1, 1.2, {"unroll": 2})]
    (proposal,) = SearchAgent("tpe", "tpe").propose(make_brief(points, round=2))
    assert proposal.candidate.manifest.table == ()
    assert len(proposal.tuning.prior) == 3


def test_an_earlier_point_that_still_promises_more_is_measured_in_a_later_round(make_brief, make_point):
    points = [make_point(0, 1.5, {"unroll": 4}), make_point(0, 1.3, {"unroll": 4}, campaign="c2"), make_point(1, 1.4, {"unroll": 2})]
    (proposal,) = SearchAgent("tpe", "tpe").propose(make_brief(points, round=2))
    assert row(proposal.candidate)["unroll"] == 2


def refusal(candidate):
    return Remark(campaign="c1", spec="rmsnorm-cpu", review=7, by="ada", text="Not this one.", kernel_tree=candidate.tree)


def test_a_point_that_a_person_refused_is_not_measured_again(make_brief, make_point):
    points = [make_point(0, 1.5, {"unroll": 4}), make_point(1, 1.4, {"unroll": 2})]
    agent = SearchAgent("tpe", "tpe")
    (first,) = agent.propose(make_brief(points))
    assert row(first.candidate)["unroll"] == 4
    (second,) = agent.propose(make_brief(points, remarks=[refusal(first.candidate)]))
    assert row(second.candidate)["unroll"] == 2
    assert len(second.tuning.prior) == 1


@pytest.mark.parametrize(
    "other",
    [{"device": "another"}, {"spec_hash": "0" * 64}, {"source": "0" * 64}, {"tier": "full"}, {"verdict": Verdict.EVALUATION_LOST}],
)
def test_what_is_not_comparable_is_no_prior(other, make_brief, make_point):
    (proposal,) = SearchAgent("tpe", "tpe").propose(make_brief([make_point(0, 1.5, **other)]))
    assert proposal.candidate.manifest.table == ()
    assert proposal.tuning.prior == ()


def small(knobs: str):
    files = {
        "k.cpp": b'extern "C" void k(float* y) { *y = A; }\n',
        "launch.yaml": f"sources: [k.cpp]\nknobs: {knobs}\nlaunches: [{{function: k, args: [y]}}]\n".encode(),
    }
    return candidate_from_files(files, "kernel")


def test_an_exhausted_space_gives_nothing_new(make_brief, make_point):
    start = small("{a: [1, 2]}")
    points = [make_point(index, 1.5 - index, source=source_hash(start), campaign="c2") for index in (0, 1)]
    points = [point.model_copy(update={"knobs": {"a": index + 1}}) for index, point in enumerate(points)]
    agent = SearchAgent("tpe", "tpe")
    (proposal,) = agent.propose(make_brief(points[:1], start=start))
    assert proposal.tuning.trials == 1
    assert agent.note == ""
    assert agent.propose(make_brief(points, start=start)) == ()
    assert agent.note == "all 2 points of the space were tried"
    # A later campaign has only what the earlier one found to measure again.
    (proposal,) = agent.propose(make_brief(points, start=start, campaign="c3"))
    assert (row(proposal.candidate), proposal.tuning.trials) == ({"a": 1}, 1)


def test_without_evaluations_left_nothing_is_proposed(make_brief):
    agent = SearchAgent("tpe", "tpe")
    assert agent.propose(make_brief(trials=0)) == ()
    assert agent.note == "no evaluations are left for this round"


def test_a_kernel_without_knobs_is_proposed_once(make_brief, make_point, champion):
    agent = SearchAgent("tpe", "tpe")
    start = dataclasses.replace(champion)
    (proposal,) = agent.propose(make_brief(start=start))
    assert (proposal.candidate, proposal.tuning, proposal.provenance.kind) == (champion, None, "seed")
    judged = make_point(0, 0.8, kernel_tree=champion.tree, tier="full", campaign="c2")
    assert agent.propose(make_brief([judged], start=start)) == ()
    assert agent.note == "the kernel has no knobs and was judged already"
    assert agent.propose(make_brief(start=start, remarks=[refusal(champion)])) == ()
    assert agent.note == "the kernel has no knobs, and a person asked for changes to it"
    earlier = make_point(0, 0.8, kernel_tree=champion.tree, tier="full")
    assert len(agent.propose(make_brief([earlier], start=start))) == 1
