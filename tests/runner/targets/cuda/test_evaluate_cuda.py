"""Whole evaluations on a real GPU: honest and wrong kernels, what a wrong one is told, baselines, and the clock against itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runner.candidate import read_candidate
from runner.judge import judge
from runner.result import Result
from runner.spec.load import load_spec
from runner.targets.cuda.toolkit import device_nodes
from runner.targets.registry import target_for
from runner.verdict import Verdict

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not device_nodes(), reason="needs a CUDA GPU")]

ADVERSARIAL = Path(__file__).resolve().parents[3] / "adversarial"
SMALL = ADVERSARIAL / "specs" / "rmsnorm-small-cuda"


def judged(kernel: str, tier: str = "screening", against: str = "baseline") -> Result:
    loaded = load_spec(SMALL)
    candidate = read_candidate(ADVERSARIAL / "cuda" / kernel / "kernel", loaded.spec.policy)
    return judge(loaded, candidate, target_for(loaded.spec), tier="full" if tier == "full" else "screening", against=against)


@pytest.mark.parametrize("control", ["vectors", "cluster-16", "tensor-map", "programmatic-launch", "shared-227-kb"])
def test_an_honest_kernel_is_timed(control: str) -> None:
    found = judged(f"controls/{control}")
    assert found.verdict in (Verdict.ACCEPTED, Verdict.SLOWER), found.message
    assert found.rows
    assert all(row.median_ms > 0 for row in found.rows)


@pytest.mark.parametrize(
    ("case", "verdict", "message"),
    [
        ("01-does-nothing", Verdict.INCORRECT, "unwritten|NaN"),
        ("18-writes-past-the-end", Verdict.INCORRECT, "past the end of y"),
        ("18-reads-past-the-end", Verdict.LAUNCH_ERROR, "outside its buffers"),
        ("17-missing-barrier", Verdict.INCORRECT, "y"),
    ],
)
def test_a_wrong_kernel_is_refused_and_told_why(case: str, verdict: Verdict, message: str) -> None:
    found = judged(case, "full")
    assert found.verdict is verdict
    assert re.search(message, found.message)
    assert not found.rows


def test_a_kernel_against_itself_is_as_fast_as_itself() -> None:
    kernel = ADVERSARIAL / "cuda" / "controls" / "vectors" / "kernel"
    found = judged("controls/vectors", "full", str(kernel))
    assert found.geomean is not None
    assert found.geomean.interval[0] <= 1.005
    assert found.geomean.interval[1] >= 0.995
    assert {name.split(" ")[0] for name in found.environment} >= {"clocks.sm", "power.draw"}
