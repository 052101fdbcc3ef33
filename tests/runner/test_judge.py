"""The judge from end to end on a small spec: each verdict with its message, and what is in the result."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from specs import BRIEF, LAUNCH, RIGHT, state_in, write_kernel, write_spec
from test_correctness import whole

from runner.baseline import find_baseline
from runner.candidate import read_candidate
from runner.errors import FactoryError
from runner.judge import judge
from runner.progress import Step
from runner.result import Result
from runner.spec.load import LoadedSpec
from runner.targets.registry import target_for
from runner.tuning import Trial, tune
from runner.verdict import Verdict


@pytest.fixture(scope="module", autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One state folder for all tests, so that they share the process with PyTorch in it; what is kept of baselines is forgotten."""
    folder = tmp_path_factory.mktemp("state")
    with state_in(folder):
        yield folder


@pytest.fixture(autouse=True)
def nothing_kept(state: Path) -> None:
    shutil.rmtree(state / "baselines", ignore_errors=True)


@pytest.fixture(scope="module")
def brief(tmp_path_factory: pytest.TempPathFactory) -> LoadedSpec:
    """The spec of the tests that don't change it."""
    return write_spec(tmp_path_factory.mktemp("brief"), BRIEF)


def judged(
    loaded: LoadedSpec, folder: Path, *, body: str = RIGHT, source: str | None = None, launch: str = LAUNCH, **options: object
) -> Result:
    candidate = read_candidate(write_kernel(folder, body, launch, source), loaded.spec.policy)
    options = {"tier": "screening", "seed": 4, "where": "candidate", **options}
    return judge(loaded, candidate, target_for(loaded.spec), **options)  # type: ignore[arg-type]


def test_a_right_kernel_is_timed_and_everything_is_in_the_result(tmp_path: Path, brief: LoadedSpec) -> None:
    steps: list[Step] = []
    found = judged(brief, tmp_path / "candidate", progress=steps.append)
    assert found.verdict in (Verdict.ACCEPTED, Verdict.SLOWER)
    assert [row.workload for row in found.rows] == ["small"]
    assert found.geomean is not None
    assert found.geomean.speedup == pytest.approx(found.rows[0].speedup)
    assert found.rows[0].baseline.name == "torch"
    assert len(found.checks) == 4
    assert found.identity.kernel_tree == read_candidate(tmp_path / "candidate", brief.spec.policy).tree
    assert found.identity.spec_hash == brief.spec_hash
    assert len(found.identity.binaries) == 1
    assert list(dict.fromkeys(step.stage for step in steps)) == ["policy", "build", "correctness", "baseline", "timing"]
    assert any(step.ratio is not None for step in steps)


@pytest.mark.parametrize(
    ("source", "verdict", "message"),
    [
        ("#include </etc/hostname>\n" + whole(), Verdict.POLICY_VIOLATION, "scale.cpp:1:"),
        (whole().replace("y[row", "z[row"), Verdict.BUILD_ERROR, "scale.cpp:6:"),
        (whole("    *(volatile int*)8 = 1;\n"), Verdict.LAUNCH_ERROR, "SIGSEGV"),
        (whole(after="    if (cols > 5 && rows > 2) y[5] = 1;\n"), Verdict.INCORRECT, "y[0, 5] is 1, expected"),
    ],
)
def test_a_bad_kernel_gets_its_verdict_with_a_message(
    tmp_path: Path, source: str, verdict: Verdict, message: str, brief: LoadedSpec
) -> None:
    found = judged(brief, tmp_path / "candidate", source=source)
    assert found.verdict is verdict, found.message
    assert message in found.message
    assert (found.rows, found.geomean) == ((), None)


def test_a_failure_is_made_small_and_its_command_shows_it_again(tmp_path: Path, brief: LoadedSpec) -> None:
    source = whole(after="    if (cols > 5 && rows > 2) y[5] = 1;\n")
    found = judged(brief, tmp_path / "candidate", source=source, tier="full")
    assert found.reproduction is not None
    assert found.reproduction.axes == {"rows": 3, "cols": 6}
    assert (found.reproduction.index, found.reproduction.actual) == ((0, 5), "1")
    words = shlex.split(found.reproduction.command)
    axes = dict(part.split("=") for part in words[words.index("--axes") + 1].split(",")) if "--axes" in words else {}
    again = judged(
        brief,
        tmp_path / "candidate",
        source=source,
        selection=(words[words.index("--workload") + 1],),
        axes={name: int(length) for name, length in axes.items()},
        seed=int(words[words.index("--seed") + 1]),
    )
    assert again.verdict is Verdict.INCORRECT
    assert again.checks[-1].axes == {"rows": 3, "cols": 6}


def test_a_table_that_can_only_be_tuned_is_refused(tmp_path: Path, brief: LoadedSpec) -> None:
    launch = LAUNCH + "knobs: {unroll: [1, 2]}\nbuild: {defines: {UNROLL: unroll}}\n"
    found = judged(brief, tmp_path / "candidate", launch=launch)
    assert found.verdict is Verdict.POLICY_VIOLATION
    assert "can be tuned, not judged" in found.message


def test_a_kernel_that_is_wrong_only_for_lengths_that_are_not_public_is_found(tmp_path: Path, brief: LoadedSpec) -> None:
    """It knows the public workloads, and answers nothing else rightly beyond the edges' sizes."""
    body = RIGHT.replace("shift[col]", "(cols == 1024 || cols < 40 ? shift[col] : 0)")
    found = judged(brief, tmp_path / "candidate", body=body, tier="full", seed=11)
    assert found.verdict is Verdict.INCORRECT
    assert found.message.startswith("hidden-any-")


def test_a_spec_that_accepts_zeros_is_the_spec_s_fault(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path, BRIEF, reference="def scale(x, shift, factor):\n    return 0 * x + 0 * shift\n")
    with pytest.raises(FactoryError, match="of zeros passes"):
        judged(loaded, tmp_path / "candidate")


def test_a_baseline_that_cannot_be_used_is_named_and_no_win(tmp_path: Path) -> None:
    spec = BRIEF.replace(
        "  - {name: torch, ",
        "  - {name: broken, entry: baselines.py:broken}\n  - {name: liar, entry: baselines.py:liar}\n  - {name: torch, ",
    )
    baselines = (
        "import torch\n\n\ndef scale(x, shift, y, factor):\n    torch.add(shift, x, alpha=factor, out=y)\n\n\n"
        "def broken(x, shift, y, factor):\n    raise ValueError('no such thing')\n\n\n"
        "def liar(x, shift, y, factor):\n    y.fill_(1.0)\n"
    )
    found = judged(write_spec(tmp_path, spec, baselines=baselines), tmp_path / "candidate")
    assert found.rows[0].baseline.name == "torch"
    assert "no such thing" in str(found.environment["baseline left out: broken"])
    assert str(found.environment["baseline left out: liar"]).startswith("wrong: ")


def test_without_any_baseline_there_is_no_verdict(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path, BRIEF, baselines="def scale(x, shift, y, factor):\n    y.fill_(1.0)\n")
    with pytest.raises(FactoryError, match="no baseline can be used on the workload small: torch: wrong"):
        judged(loaded, tmp_path / "candidate")


def test_a_selection_counts_as_screening(tmp_path: Path, brief: LoadedSpec) -> None:
    found = judged(brief, tmp_path / "candidate", tier="full", selection=("odd",))
    assert (found.tier, found.selection) == ("screening", ("odd",))
    assert found.verdict is Verdict.SLOWER
    assert "nothing was timed" in found.message


def test_a_champion_that_does_not_build_loses_the_evaluation_not_the_candidate(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path, BRIEF)
    write_kernel(loaded.folder / "kernel", body="            nonsense;")
    found = judged(loaded, tmp_path / "candidate", against="champion")
    assert found.verdict is Verdict.EVALUATION_LOST
    assert "champion, which is compared against, is refused: build_error" in found.message


def test_a_baseline_goes_where_a_candidate_goes(tmp_path: Path, brief: LoadedSpec) -> None:
    found = judge(brief, find_baseline(brief, "torch"), target_for(brief.spec), tier="screening", seed=1)
    assert found.identity.kernel_tree == "baseline:torch"
    assert found.geomean is not None


def test_a_floor_that_is_not_reached_is_implausible(tmp_path: Path) -> None:
    """A spec that claims a million times the bytes: no honest kernel can be that fast."""
    loaded = write_spec(tmp_path, BRIEF.replace("bytes: 8 * rows * cols", "bytes: 8000000 * rows * cols"))
    found = judged(loaded, tmp_path / "candidate")
    assert found.verdict is Verdict.IMPLAUSIBLE
    assert re.search(r"small: [\d.]+ µs a call is below the floor of [\d.e+]+ µs", found.message)
    assert found.rows == ()


TUNED = LAUNCH + "knobs: {rows_step: [1, 2, 4], broken: [0, 1]}\nbuild: {defines: {STEP: rows_step, BROKEN: broken}}\n"
TUNED_BODY = "            y[row * cols + col] = x[row * cols + col] * factor + (BROKEN ? 0 : shift[col]);"


@pytest.mark.parametrize("strategy", ["tpe", "local", "random"])
def test_a_search_tries_each_point_once_and_returns_the_best_frozen(tmp_path: Path, strategy: str, brief: LoadedSpec) -> None:
    candidate = read_candidate(write_kernel(tmp_path / "candidate", TUNED_BODY, TUNED), brief.spec.policy)
    seen: list[Trial] = []
    best = tune(
        brief,
        candidate,
        target_for(brief.spec),
        strategy=strategy,  # type: ignore[arg-type]
        trials=10,
        seed=2,
        prior=(),
        on_trial=lambda index, trial: seen.append(trial),
    )
    assert len(seen) == len({tuple(trial.knobs.items()) for trial in seen}) == 6
    assert {trial.verdict for trial in seen if trial.knobs["broken"]} == {Verdict.INCORRECT}
    assert all(trial.speedup is None for trial in seen if trial.knobs["broken"])
    timed = [trial for trial in seen if trial.speedup is not None]
    assert len(timed) == 3
    winner = max(timed, key=lambda trial: trial.speedup or 0)
    assert best is not None
    assert best.tree == winner.kernel_tree
    assert best.manifest.table == ({"when": "true", **winner.knobs},)


def test_recorded_trials_are_not_measured_again_and_the_prior_is_not_repeated(tmp_path: Path, brief: LoadedSpec) -> None:
    candidate = read_candidate(write_kernel(tmp_path / "candidate", TUNED_BODY, TUNED), brief.spec.policy)

    def trial(step: int, broken: int, speedup: float | None) -> Trial:
        return Trial({"rows_step": step, "broken": broken}, Verdict.SLOWER, "", speedup, None, {}, 1.0, "t")

    seen: list[tuple[int, Trial]] = []
    best = tune(
        brief,
        candidate,
        target_for(brief.spec),
        strategy="local",
        trials=3,
        seed=2,
        prior=(trial(1, 0, 9.0), trial(1, 1, None), trial(4, 1, None)),
        recorded=(trial(2, 0, 50.0), trial(2, 1, None)),
        on_trial=lambda index, trial: seen.append((index, trial)),
    )
    assert [(index, dict(one.knobs)) for index, one in seen] == [(2, {"rows_step": 4, "broken": 0})]
    assert best is not None
    assert best.manifest.table == ({"when": "true", "rows_step": 2, "broken": 0},)


def test_a_search_that_times_nothing_returns_nothing(tmp_path: Path, brief: LoadedSpec) -> None:
    candidate = read_candidate(
        write_kernel(tmp_path / "candidate", "            y[row * cols + col] = STEP + BROKEN;", TUNED), brief.spec.policy
    )
    assert tune(brief, candidate, target_for(brief.spec), strategy="random", trials=2, seed=1, prior=()) is None
