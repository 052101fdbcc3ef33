"""Lessons say what is true of the experiments: planted effects are found, and where there are none nothing is said."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from bot.evidence.effects import find_effects
from bot.evidence.failures import find_causes
from bot.evidence.lessons import MOST, learn
from bot.evidence.remark import Remark
from runner.verdict import Verdict

SPACE: dict[str, list[Any]] = {
    "isa": ["x86-64-v2", "x86-64-v3", "x86-64-v4"],
    "width": [4, 8, 16],
    "unroll": [1, 2, 4, 8],
    "stream": [0, 65536, 1 << 62],
    "prefetch": [0, 256, 1024, 4096],
    "threads": [1, 2, 4],
}


def no_effect(point: dict[str, Any]) -> float:
    return 0.0


def planted(point: dict[str, Any]) -> float:
    isa = {"x86-64-v2": 0.0, "x86-64-v3": 0.3, "x86-64-v4": 0.3}[point["isa"]]
    return isa + {1: 0.0, 2: 0.6, 4: 0.5}[point["threads"]]


def drawn(truth: Callable[[dict[str, Any]], float], count: int, seed: int, *, adaptive: bool, noise: float = 0.05):
    """Distinct points with the logs of their speed-ups. `adaptive` draws most of them near the best so far, as a search does."""
    generator = random.Random(seed)
    points: list[dict[str, Any]] = []
    logs: list[float] = []
    while len(points) < count:
        if adaptive and points and generator.random() < 0.8:
            point = dict(points[max(range(len(points)), key=lambda row: logs[row])])
            for knob in generator.sample(list(SPACE), generator.choice([1, 2])):
                point[knob] = generator.choice(SPACE[knob])
        else:
            point = {knob: generator.choice(values) for knob, values in SPACE.items()}
        if point not in points:
            points.append(point)
            logs.append(truth(point) + generator.gauss(0, noise))
    return points, logs


@pytest.mark.parametrize("adaptive", [False, True])
def test_planted_effects_are_found_with_their_size_and_hardly_anything_else(adaptive):
    found, wrong, covered, contrasts = {"isa": 0, "threads": 0}, 0, 0, 0
    for seed in range(40):
        effects, _ = find_effects(*drawn(planted, 32, seed, adaptive=adaptive))
        for effect in effects:
            if effect.knob not in found:
                wrong += 1
                continue
            found[effect.knob] += 1
            for contrast in effect.contrasts:
                base = {"isa": "x86-64-v2", "threads": 1}
                true = planted({**base, effect.knob: contrast.better}) - planted({**base, effect.knob: contrast.other})
                contrasts += 1
                covered += math.log(contrast.interval[0]) <= true <= math.log(contrast.interval[1])
    assert found["isa"] >= 36
    assert found["threads"] >= 38
    assert wrong <= 4
    assert covered >= 0.9 * contrasts


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("count", [10, 24, 60])
def test_where_no_knob_matters_false_finds_are_rare(count, adaptive):
    sets = 60
    false = sum(find_effects(*drawn(no_effect, count, seed, adaptive=adaptive)) != ([], []) for seed in range(sets))
    # At 2 % each, 5 or more of 60 happen less than once in a hundred times.
    assert false <= 4


def test_an_interaction_is_found_where_two_knobs_act_together_only():
    def together(point: dict[str, Any]) -> float:
        return planted(point) + (0.5 if point["isa"] == "x86-64-v3" and point["threads"] == 2 else 0.0)

    found = [find_effects(*drawn(together, 60, seed, adaptive=False))[1] for seed in range(10)]
    apart = [find_effects(*drawn(planted, 60, seed, adaptive=False))[1] for seed in range(10)]
    assert sum(len(one) for one in found) >= 9
    assert all(set(one.knobs) == {"isa", "threads"} and "x86-64-v3" in one.values and one.ratio > 1.1 for some in found for one in some)
    assert sum(len(one) for one in apart) <= 1


def test_a_cause_is_found_and_chance_is_not_blamed():
    found = false = 0
    for seed in range(40):
        generator = random.Random(seed)
        points, _ = drawn(no_effect, 24, seed, adaptive=False)
        causes = find_causes(points, [point["isa"] == "x86-64-v4" for point in points])
        found += [(cause.knob, cause.value, cause.failed == cause.tried) for cause in causes] == [("isa", "x86-64-v4", True)]
        false += bool(find_causes(points, [generator.random() < 0.25 for _ in points]))
    assert found == 40
    assert false <= 3


def test_two_causes_are_both_found():
    points, _ = drawn(no_effect, 48, 1, adaptive=False)
    causes = find_causes(points, [point["isa"] == "x86-64-v4" or point["width"] == 16 for point in points])
    assert {(cause.knob, cause.value) for cause in causes} == {("isa", "x86-64-v4"), ("width", 16)}


def test_neither_everything_failing_nor_one_failure_has_a_cause():
    points, _ = drawn(no_effect, 24, 1, adaptive=False)
    assert find_causes(points, [True] * 24) == []
    assert find_causes(points, [True] + [False] * 23) == []
    assert find_causes([], []) == []


def screened(make_experiment, count: int, seed: int, truth=planted, fails=lambda point: False, **other: Any):
    points, logs = drawn(truth, count, seed, adaptive=False)
    message = "the kernel died: it needs AVX-512, which this CPU has not"
    return [
        make_experiment(index, None if fails(point) else math.exp(log), knobs=point, message=message if fails(point) else "", **other)
        for index, (point, log) in enumerate(zip(points, logs, strict=True))
    ]


def test_lessons_say_what_was_planted_and_name_experiments_that_show_it(make_experiment):
    experiments = screened(make_experiment, 40, 3, fails=lambda point: point["isa"] == "x86-64-v4")
    lessons = learn(experiments)
    by_id = {experiment.id: experiment for experiment in experiments}
    isa = next(lesson for lesson in lessons if lesson.statement.startswith("isa: "))
    assert re.fullmatch(r"isa: x86-64-v3 is 1\.\d\d× \(1\.\d\d–1\.\d\d\) as fast as x86-64-v2, other knobs equal\.", isa.statement)
    assert {by_id[name].knobs["isa"] for name in isa.experiments} == {"x86-64-v2", "x86-64-v3"}
    threads = next(lesson for lesson in lessons if lesson.statement.startswith("threads: "))
    assert "as fast as 1, " in threads.statement
    died = next(lesson for lesson in lessons if "launch_error" in lesson.statement)
    assert died.statement.startswith("isa=x86-64-v4 always ends in launch_error (all ")
    assert "it needs AVX-512" in died.statement
    assert {by_id[name].knobs["isa"] for name in died.experiments} == {"x86-64-v4"}
    assert [lesson.value for lesson in lessons] == sorted((lesson.value for lesson in lessons), reverse=True)


def test_without_effects_only_facts_are_left(make_experiment):
    for seed in range(8):
        lessons = learn(screened(make_experiment, 24, seed, truth=no_effect))
        assert [lesson for lesson in lessons if not lesson.statement.startswith("The best so far")] == []


def test_the_same_experiments_give_the_same_lessons_in_any_order(make_experiment):
    experiments = screened(make_experiment, 40, 3)
    assert learn(experiments) == learn(random.Random(1).sample(experiments, 40))


def test_nothing_teaches_nothing(make_experiment):
    assert learn([]) == []
    assert learn([make_experiment(0, None, verdict=Verdict.EVALUATION_LOST)]) == []
    assert learn([make_experiment(0, 0.9)]) == []


def test_the_best_is_the_one_whose_interval_ends_highest(make_experiment):
    experiments = [
        make_experiment(0, 1.50, interval=(1.10, 1.90), tier="full", knobs={"unroll": 1}),
        make_experiment(1, 1.40, interval=(1.38, 1.42), tier="full", knobs={"unroll": 4}, verdict="accepted"),
        make_experiment(2, 1.80, interval=(1.79, 1.81)),
        make_experiment(3, 1.90, interval=(1.89, 1.91), tier="full", against="champion"),
    ]
    (best,) = learn(experiments)
    assert best.experiments == (experiments[1].id,)
    assert best.statement.startswith("The best so far is 1.400× (1.380–1.420) as fast as the baseline, judged in full: kernel 000000000000")
    assert "unroll=4" in best.statement


def test_workloads_behind_the_baseline_are_named(make_experiment):
    experiments = [
        make_experiment(
            0, 1.2, tier="full", workloads={"64x1024": 0.90, "8192x4096": 1.5, "32x8192": 0.85}, knobs={"unroll": 4, "isa": "v3"}
        ),
        make_experiment(
            1, 1.1, tier="full", workloads={"64x1024": 1.10, "8192x4096": 1.1, "32x8192": 0.93}, knobs={"unroll": 1, "isa": "v3"}
        ),
    ]
    statements = [lesson.statement for lesson in learn(experiments)]
    assert (
        "Workload 64x1024 is behind the baseline in the best kernel (0.90×), but another reaches 1.10× there with unroll=1." in statements
    )
    assert "Workload 32x8192 stays behind the baseline: none of 2 evaluations beats it, the nearest reaches 0.93×." in statements
    assert not any("8192x4096" in statement for statement in statements)


def test_an_idea_of_a_model_is_judged_against_its_parent_when_the_intervals_tell(make_experiment):
    parent = make_experiment(0, 1.0, tier="full", interval=(0.99, 1.01))
    helped = make_experiment(
        1, 1.2, tier="full", interval=(1.19, 1.21), kind="model", parent=parent.kernel_tree, hypothesis="Keep the row in\nregisters."
    )
    unclear = make_experiment(2, 1.03, tier="full", interval=(0.9, 1.2), kind="model", parent=parent.kernel_tree, hypothesis="Unclear.")
    hurt = make_experiment(3, 0.8, tier="full", interval=(0.79, 0.81), kind="model", parent=parent.kernel_tree, hypothesis="Spill.")
    statements = [lesson.statement for lesson in learn([parent, helped, unclear, hurt])]
    assert any(text.startswith("The idea “Keep the row in registers.” helped: 1.20× (1.1") for text in statements)
    assert any(text.startswith("The idea “Spill.” hurt: 0.80× (0.") for text in statements)
    assert not any("Unclear" in text for text in statements)


def test_what_people_asked_to_change_stands_first_the_last_of_it_before_the_rest(make_experiment):
    experiments = screened(make_experiment, 40, 3)
    said = [("Too many knobs.\n\nPlease fewer.", experiments[0]), ("", experiments[1])]
    remarks = [
        Remark(campaign="c1", spec="a-spec", review=number, by="ada", text=text, kernel_tree=one.kernel_tree)
        for number, (text, one) in enumerate(said)
    ]
    last, first = learn(experiments, remarks)[:2]
    assert first.statement == f"ada asked for changes to kernel {experiments[0].kernel_tree[:12]}: “Too many knobs. Please fewer.”."
    assert (first.experiments, last.experiments) == ((experiments[0].id,), (experiments[1].id,))
    assert last.statement == f"ada asked for changes to kernel {experiments[1].kernel_tree[:12]}, and said no more."
    assert learn(experiments, remarks)[2:] == learn(experiments)[: MOST - 2]


def test_lessons_are_few_and_short_whatever_they_quote(make_experiment):
    experiments = [
        make_experiment(0, 1.2, tier="full", workloads={f"workload {number} {'x' * 500}": 0.5 + number / 100 for number in range(30)}),
        *[make_experiment(index, None, message="m" * 10_000, knobs={"unroll": index}, verdict="build_error") for index in range(1, 5)],
    ]
    lessons = learn(experiments)
    assert len(lessons) == MOST
    assert max(len(lesson.statement) for lesson in lessons) < 500


def test_evidence_under_an_earlier_spec_says_so(make_experiment):
    earlier = screened(make_experiment, 40, 3, spec_hash="0" * 64)
    now = make_experiment(0, 1.1, campaign="c2", created="2027-01-01T00:00:00.000+00:00")
    statements = [lesson.statement for lesson in learn([*earlier, now])]
    assert any("under an earlier version of the spec" in text for text in statements if text.startswith("threads"))
    assert [text for text in statements if text.startswith("The best")] == [
        "The best so far is 1.100× (1.089–1.111) as fast as the baseline, screened only: kernel 000000000000."
    ]


def test_a_point_measured_twice_counts_once(make_experiment):
    once = screened(make_experiment, 40, 3)
    again = [one.model_copy(update={"id": one.id.replace("c1", "c2"), "campaign": "c2"}) for one in once]
    first, second = (next(one for one in learn(some) if one.statement.startswith("threads")) for some in (once, once + again))
    assert first.statement == second.statement
    assert len(second.experiments) == 2 * len(first.experiments)
