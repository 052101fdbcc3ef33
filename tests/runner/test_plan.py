"""Which workloads are checked and timed, and that hidden ones reach every table row that public ones use."""

from __future__ import annotations

from pathlib import Path

import pytest
from specs import LAUNCH, SPEC, write_kernel, write_spec

from runner.candidate import Candidate, read_candidate
from runner.contestant import row_for
from runner.errors import FactoryError
from runner.plan import make_plan
from runner.spec.load import LoadedSpec
from runner.verdict import Rejected

KNOBS = "knobs: {unroll: [1, 2, 4]}\nbuild: {defines: {UNROLL: unroll}}\n"


def with_table(loaded: LoadedSpec, folder: Path, *rows: str) -> Candidate:
    table = "table:\n" + "".join(f'  - {{when: "{row}", unroll: {1 << index}}}\n' for index, row in enumerate(rows))
    return read_candidate(write_kernel(folder, launch=LAUNCH + KNOBS + table), loaded.spec.policy)


def names(plan: object) -> list[str]:
    assert isinstance(plan, tuple)
    return [workload.name for workload in plan]


def test_a_full_evaluation_checks_everything_and_times_what_is_public(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path)
    plan = make_plan(loaded, read_candidate(loaded.folder / "kernel", loaded.spec.policy), "full", 1, (), {})
    assert set(names(plan.checked)) == {"small", "large", "no rows", "odd", "offset", "hidden-any-0", "hidden-any-1"}
    assert names(plan.timed) == ["small", "large"]
    assert [workload.bytes for workload in plan.checked] == sorted(workload.bytes for workload in plan.checked)


def test_screening_takes_the_spec_s_choice_and_a_few_edges(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path)
    plan = make_plan(loaded, read_candidate(loaded.folder / "kernel", loaded.spec.policy), "screening", 1, (), {})
    assert names(plan.timed) == ["small"]
    assert len(plan.checked) == 4


def test_hidden_workloads_differ_between_evaluations(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path)
    champion = read_candidate(loaded.folder / "kernel", loaded.spec.policy)
    plans = [make_plan(loaded, champion, "full", seed, (), {}) for seed in range(5)]
    drawn = {tuple(tuple(one.axes.values()) for one in plan.checked if one.kind == "hidden") for plan in plans}
    assert len(drawn) == 5


@pytest.mark.parametrize(
    "rows",
    [
        ("cols <= 300 and rows <= 64", "true"),  # the second row is reached by the public workload `large` alone
        ("cols == 1024 and rows == 1024", "true"),  # made for one public workload and nothing else
        ("rows >= 1000 and rows < 1030", "true"),
    ],
)
def test_every_row_that_is_used_is_reached_by_a_hidden_workload(tmp_path: Path, rows: tuple[str, ...]) -> None:
    loaded = write_spec(tmp_path)
    candidate = with_table(loaded, tmp_path / "candidate", *rows)
    plan = make_plan(loaded, candidate, "full", 3, (), {})
    used = {row_for(candidate, workload) for workload in plan.checked if workload.kind == "public"}
    reached = {row_for(candidate, workload) for workload in plan.checked if workload.kind == "hidden"}
    assert used == {0, 1}
    assert used <= reached


def test_the_workload_for_a_wide_row_is_not_the_public_one(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path)
    candidate = with_table(loaded, tmp_path / "candidate", "cols <= 300 and rows <= 64", "true")
    near = [workload for workload in make_plan(loaded, candidate, "full", 3, (), {}).checked if workload.name == "hidden-row-1"]
    assert [dict(workload.axes) for workload in near] != [{"rows": 1024, "cols": 1024}]


def test_a_table_without_a_row_for_a_workload_is_refused(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path)
    with pytest.raises(Rejected, match="no row of the table holds for rows = 1024, cols = 1024"):
        make_plan(loaded, with_table(loaded, tmp_path / "candidate", "cols <= 300"), "full", 1, (), {})


def test_a_selection_is_just_that(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path)
    champion = read_candidate(loaded.folder / "kernel", loaded.spec.policy)
    plan = make_plan(loaded, champion, "full", 1, ("odd", "large"), {})
    assert (names(plan.checked), names(plan.timed)) == (["odd", "large"], ["large"])
    other = make_plan(loaded, champion, "full", 1, ("odd",), {"cols": 5}).checked[0]
    assert (other.name, dict(other.axes)) == ("odd", {"rows": 3, "cols": 5})
    with pytest.raises(FactoryError, match="no workload is called 'none'; there are small, large, no rows"):
        make_plan(loaded, champion, "full", 1, ("none",), {})
    with pytest.raises(FactoryError, match="allowed: between 1 and 100000"):
        make_plan(loaded, champion, "full", 1, ("odd",), {"cols": 0})


def test_a_spec_without_hidden_workloads_gets_one_a_row(tmp_path: Path) -> None:
    hidden = SPEC[SPEC.index("  hidden:") : SPEC.index("  screening:")]
    loaded = write_spec(tmp_path, SPEC.replace(hidden, ""))
    champion = read_candidate(loaded.folder / "kernel", loaded.spec.policy)
    assert "hidden-row-0" in names(make_plan(loaded, champion, "full", 1, (), {}).checked)
