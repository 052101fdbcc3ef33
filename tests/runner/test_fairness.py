"""The clock is fair: what is compared with itself is as fast as itself. Takes times, so it runs alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from specs import BRIEF, SPEC, state_in, write_spec

from runner.baseline import find_baseline
from runner.candidate import read_candidate
from runner.decision import decide
from runner.judge import judge
from runner.measure import geomean_of
from runner.reproduce import find_subject, reproduce
from runner.result import Result, load_result
from runner.spec.load import LoadedSpec
from runner.targets.registry import target_for
from runner.verdict import Verdict

# So confident that a fair clock fails these tests once in some thousand runs only.
CONFIDENT = SPEC.replace("min_workload_speedup: 0.9", "min_workload_speedup: 0.9, confidence: 0.9995")
# With a bound that the kernel is far from, so that noise cannot turn its verdict.
FAR = BRIEF.replace("min_workload_speedup: 0.9", "min_workload_speedup: 0.9, confidence: 0.9995").replace("speedup: 1.02", "speedup: 500")

pytestmark = pytest.mark.measures


@pytest.fixture(scope="module", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with state_in(tmp_path_factory.mktemp("state")):
        yield


@pytest.fixture(scope="module")
def confident(tmp_path_factory: pytest.TempPathFactory) -> LoadedSpec:
    return write_spec(tmp_path_factory.mktemp("confident"), CONFIDENT)


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> LoadedSpec:
    return write_spec(tmp_path_factory.mktemp("far"), FAR)


@pytest.fixture(scope="module")
def then(far: LoadedSpec) -> Result:
    """A true result on the spec with the far bound."""
    return judge(far, read_candidate(far.folder / "kernel", far.spec.policy), target_for(far.spec))


def test_the_baseline_as_a_candidate_is_as_fast_as_the_baseline(confident: LoadedSpec) -> None:
    found = judge(confident, find_baseline(confident, "torch"), target_for(confident.spec))
    assert found.verdict is Verdict.SLOWER
    assert found.geomean is not None
    low, high = found.geomean.interval
    assert low <= 1 <= high
    assert all(row.copy_ is not None for row in found.rows)


def test_the_champion_is_as_fast_as_itself(confident: LoadedSpec) -> None:
    champion = read_candidate(confident.folder / "kernel", confident.spec.policy)
    found = judge(confident, champion, target_for(confident.spec), against="champion")
    assert found.geomean is not None
    low, high = found.geomean.interval
    assert low <= 1 <= high


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[1] / "data" / "fairness").glob("*.json")), ids=lambda path: path.stem)
def test_the_kept_comparisons_with_itself_hold_1(path: Path) -> None:
    """The interval is computed anew from the kept samples."""
    result = load_result(path)
    assert result.geomean is not None
    found = geomean_of(result.rows, 0.95, 1)
    assert found.speedup == pytest.approx(result.geomean.speedup)
    assert found.interval == pytest.approx(result.geomean.interval, abs=0.01)
    assert found.interval[0] <= 1 <= found.interval[1]


def test_an_honest_result_holds_when_it_is_measured_again(far: LoadedSpec, then: Result) -> None:
    found = reproduce(then, far, find_subject(then, far, None), target_for(far.spec))
    assert found.holds, found.differences
    assert found.again is not None
    assert found.again.seed != then.seed


def test_times_that_were_edited_do_not_hold(far: LoadedSpec, then: Result) -> None:
    """The candidate's times, and all that follows from them, divided by so much that no interval, however wide, meets the true one."""
    by = 400
    rows = []
    for row in then.rows:
        faster = tuple(tuple(time / by for time in process) for process in row.samples.candidate)
        rows.append(
            row.model_copy(
                update={
                    "samples": row.samples.model_copy(update={"candidate": faster}),
                    "median_ms": row.median_ms / by,
                    "speedup": row.speedup * by,
                    "interval": (row.interval[0] * by, row.interval[1] * by),
                }
            )
        )
    assert then.geomean is not None
    low, high = then.geomean.interval
    mean = then.geomean.model_copy(update={"speedup": then.geomean.speedup * by, "interval": (low * by, high * by)})
    verdict, message = decide(far.spec.accept, tuple(rows), mean)
    edited = then.model_copy(update={"rows": tuple(rows), "geomean": mean, "verdict": verdict, "message": message})
    found = reproduce(edited, far, find_subject(then, far, None), target_for(far.spec))
    assert not found.holds
    assert any(difference.startswith("the geomean was") for difference in found.differences), found.differences
