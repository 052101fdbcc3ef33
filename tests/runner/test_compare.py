"""`kernel-runner compare`: two kernels in one run, each checked, each with its interval. Really run, on target cpu."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from specs import RIGHT, write_kernel, write_spec
from typer.testing import CliRunner

from runner.cli import app
from runner.compare import Compared, compare_named, spec_of
from runner.errors import FactoryError
from runner.progress import silent
from runner.spec.load import LoadedSpec
from runner.statistics import typical
from runner.targets.registry import target_for
from runner.verdict import Rejected, Verdict

THRICE = "            for (volatile int i = 0; i < 3; i = i + 1)\n    " + RIGHT
WRONG = RIGHT.replace("+ shift", "- shift")


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNEL_FACTORY_STATE", str(tmp_path / "state"))


def compared(loaded: LoadedSpec, first: str, second: str, *selection: str) -> Compared:
    return compare_named(loaded, target_for(loaded.spec), (first, second), "screening", 4, selection, silent)


def test_the_faster_kernel_is_named_with_both_intervals(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path)
    slow = write_kernel(tmp_path / "scale-cpu" / "seeds" / "thrice", THRICE)
    out = tmp_path / "compared.json"
    line = ["compare", str(loaded.folder / "kernel"), str(slow), "--tier", "screening", "--seed", "4", "--out", str(out)]
    ran = CliRunner().invoke(app, line)
    assert ran.exit_code == 0, ran.output
    found = Compared.model_validate_json(out.read_text())
    assert [row.workload for row in found.rows] == ["small"]
    (row,) = found.rows
    assert row.speedup > 1  # the second does the same three times
    for side in (row.first, row.second):
        assert 0 < side.interval[0] <= side.ms <= side.interval[1]
    assert row.interval[0] <= row.speedup <= row.interval[1]
    assert len(row.samples.candidate) == len(row.samples.baseline) == 1
    assert found.trees[0] != found.trees[1]
    assert "| small | " in ran.output
    assert "over" in ran.output.splitlines()[0]
    assert json.loads(out.read_text())["schema"] == "kernel-comparison/v1"


def test_each_side_must_be_right(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path)
    right, wrong = str(loaded.folder / "kernel"), str(write_kernel(tmp_path / "wrong", WRONG))
    for pair in ((right, wrong), (wrong, right)):
        with pytest.raises(Rejected, match=r"wrong is incorrect: .*y\[0, 0\]") as refused:
            compared(loaded, *pair)
        assert refused.value.verdict is Verdict.INCORRECT


def test_the_refused_side_is_named(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path)
    broken = str(write_kernel(tmp_path / "broken", "            y[row] = nothing;"))
    with pytest.raises(Rejected, match=r"broken is refused \(build_error\): scale.cpp: ") as refused:
        compared(loaded, str(loaded.folder / "kernel"), broken)
    assert refused.value.verdict is Verdict.BUILD_ERROR


def test_only_what_is_timed_can_be_compared(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path)
    with pytest.raises(FactoryError, match="none of the named workloads is public"):
        compared(loaded, "champion", "champion", "odd")


def test_the_spec_is_the_one_around_both_kernels(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path / "one")
    other = write_spec(tmp_path / "other")
    mine, theirs = str(loaded.folder / "kernel"), str(other.folder / "kernel")
    assert spec_of((mine, mine), None) == loaded.folder
    assert spec_of((mine, theirs), other.folder) == other.folder
    with pytest.raises(FactoryError, match=r"not clear .*they belong to"):
        spec_of((mine, theirs), None)
    with pytest.raises(FactoryError, match="there is no spec around them"):
        spec_of((str(tmp_path), str(tmp_path)), None)


def test_a_side_s_interval_holds_its_typical_time_about_as_often_as_was_asked() -> None:
    """Processes with luck of their own, blocks with noise: 2 ms is in most of the intervals, and they are not wide for nothing."""
    random = np.random.default_rng(5)
    held, widths = 0, []
    for seed in range(150):
        luck = random.normal(0, 0.01, (3, 1))
        times = 2e-3 * np.exp(luck + random.normal(0, 0.01, (3, 6)))
        seconds, (low, high) = typical(times.tolist(), 0.95, seed)
        assert low <= seconds <= high
        held += low <= 2e-3 <= high
        widths.append(high / low - 1)
    assert held / 150 > 0.88
    assert float(np.median(widths)) < 0.15
