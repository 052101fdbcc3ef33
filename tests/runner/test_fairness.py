"""The clock is fair: what is compared with itself is as fast as itself. Takes times, so it runs alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from specs import SPEC, write_spec

from runner.baseline import find_baseline
from runner.candidate import read_candidate
from runner.decision import decide
from runner.judge import judge
from runner.measure import geomean_of
from runner.reproduce import find_subject, reproduce
from runner.result import load_result
from runner.targets.registry import target_for
from runner.verdict import Verdict

# So confident that a fair clock fails these tests once in some thousand runs only.
CONFIDENT = SPEC.replace("min_workload_speedup: 0.9", "min_workload_speedup: 0.9, confidence: 0.9995")

pytestmark = pytest.mark.measures


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNEL_FACTORY_STATE", str(tmp_path / "state"))


def test_the_baseline_as_a_candidate_is_as_fast_as_the_baseline(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path, CONFIDENT)
    found = judge(loaded, find_baseline(loaded, "torch"), target_for(loaded.spec))
    assert found.verdict is Verdict.SLOWER
    assert found.geomean is not None
    low, high = found.geomean.interval
    assert low <= 1 <= high
    assert all(row.copy_ is not None for row in found.rows)


def test_the_champion_is_as_fast_as_itself(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path, CONFIDENT)
    champion = read_candidate(loaded.folder / "kernel", loaded.spec.policy)
    found = judge(loaded, champion, target_for(loaded.spec), against="champion")
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


def test_an_honest_result_holds_when_it_is_measured_again(tmp_path: Path) -> None:
    """A kernel far from the bounds, so that noise cannot turn its verdict."""
    loaded = write_spec(tmp_path, CONFIDENT.replace("min_speedup: 1.02", "min_speedup: 500"))
    champion = read_candidate(loaded.folder / "kernel", loaded.spec.policy)
    target = target_for(loaded.spec)
    then = judge(loaded, champion, target)
    found = reproduce(then, loaded, find_subject(then, loaded, None), target)
    assert found.holds, found.differences
    assert found.again is not None
    assert found.again.seed != then.seed


def test_times_that_were_edited_do_not_hold(tmp_path: Path) -> None:
    """Every time of the candidate, and all that follows from them, a twentieth of what it was."""
    loaded = write_spec(tmp_path, SPEC.replace("min_speedup: 1.02", "min_speedup: 500"))
    champion = read_candidate(loaded.folder / "kernel", loaded.spec.policy)
    target = target_for(loaded.spec)
    then = judge(loaded, champion, target)
    rows = []
    for row in then.rows:
        faster = tuple(tuple(time / 20 for time in process) for process in row.samples.candidate)
        rows.append(
            row.model_copy(
                update={
                    "samples": row.samples.model_copy(update={"candidate": faster}),
                    "median_ms": row.median_ms / 20,
                    "speedup": row.speedup * 20,
                    "interval": (row.interval[0] * 20, row.interval[1] * 20),
                }
            )
        )
    assert then.geomean is not None
    low, high = then.geomean.interval
    mean = then.geomean.model_copy(update={"speedup": then.geomean.speedup * 20, "interval": (low * 20, high * 20)})
    verdict, message = decide(loaded.spec.accept, tuple(rows), mean)
    edited = then.model_copy(update={"rows": tuple(rows), "geomean": mean, "verdict": verdict, "message": message})
    found = reproduce(edited, loaded, champion, target)
    assert not found.holds
    assert any(difference.startswith("the geomean was") for difference in found.differences), found.differences
