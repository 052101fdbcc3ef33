"""A judge whose verdicts and speed-ups follow from the knobs by a formula, and a small spec for it: campaigns without measurements.

Only the measuring is replaced. Workflow, engine, notebook, store, agents, journalling and publishing are the real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from unittest import mock

from bot.campaign.bench import reachable
from bot.campaign.ports import Place, Refusal
from bot.campaign.state import Strategy, Tier
from runner import tuning
from runner.candidate import Candidate, read_candidate
from runner.identity import git_tree
from runner.manifest import KnobValue
from runner.progress import Progress, Step
from runner.result import BaselineRow, CheckRow, Geomean, Identity, Reproduction, Result, Samples, TimingRow
from runner.spec.load import LoadedSpec
from runner.tuning import Trial
from runner.verdict import Verdict

DEVICE = "Formula 1"
HARNESS = "f" * 64
SCREENING_SECONDS = 0.5
FULL_SECONDS = 4.0

REPRODUCTION = Reproduction(
    workload="large",
    axes={"n": 3},
    command="kernel-runner evaluate double-formula --candidate kernel --workload large --axes n=3 --seed 7 --out result.json",
    index=(2,),
    output="y",
    actual="nan",
    expected="1.5",
)

SPEC = """\
schema: kernel-spec/v1
id: double-formula
title: Doubling, judged by a formula
axes:
  n: {type: var, min: 0, max: 4096}
inputs:
  x: {dtype: float32, shape: [n]}
outputs:
  y: {dtype: float32, shape: [n]}
reference: reference.py:double
workloads:
  public: [{name: small, axes: {n: 64}}, {name: large, axes: {n: 4096}}]
  edge: [{name: nothing, axes: {n: 0}}]
  hidden: [{name: any, axes: {n: {low: 1, high: 4096}}}]
  screening: [small]
tolerance:
  y: {max_ulp: 0.5, norm: 1e-6}
hardware: {target: cpu}
baselines:
  - {name: torch, entry: baselines.py:double}
roofline: {bytes: 8 * n, flops: n}
accept: {min_speedup: MIN_SPEEDUP, min_workload_speedup: 0.9, approval: none}
budget: {rounds: ROUNDS, candidates: CANDIDATES, device_minutes: MINUTES}
agents:
  - {name: tpe, kind: search, strategy: tpe, start: seeds/knobs}
  - {name: local, kind: search, strategy: local, start: seeds/knobs}
"""
REFERENCE = "def double(x):\n    return x * 2\n"
BASELINES = "import torch\n\n\ndef double(x, y):\n    torch.mul(x, 2, out=y)\n"
SOURCE = """\
#include <cstdint>

extern "C" void twice(const float* x, float* y, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = 2 * x[i];
}
"""
LAUNCH = """\
sources: [twice.cpp]
launches: [{function: twice, args: [x, y, {i64: n}]}]
"""
KNOBS = """\
sources: [twice.cpp]
build: {defines: {A: a, B: b}}
knobs: {a: [0, 1, 2, 3, 4, 5, 6, 7], b: [0, 1, 2, 3, 4, 5, 6, 7]}
launches: [{function: twice, args: [x, y, {i64: n}]}]
"""


def write_spec(folder: Path, *, min_speedup: float = 1.1, rounds: int = 3, candidates: int = 30, minutes: float = 30) -> Path:
    """A spec folder with a champion and one seed kernel of 64 points."""
    text = SPEC.replace("MIN_SPEEDUP", str(min_speedup)).replace("ROUNDS", str(rounds))
    text = text.replace("CANDIDATES", str(candidates)).replace("MINUTES", str(minutes))
    for name, content in {
        "spec.yaml": text,
        "reference.py": REFERENCE,
        "baselines.py": BASELINES,
        "kernel/twice.cpp": SOURCE,
        "kernel/launch.yaml": LAUNCH,
        "seeds/knobs/twice.cpp": SOURCE,
        "seeds/knobs/launch.yaml": KNOBS,
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def verdict_of(knobs: Mapping[str, KnobValue]) -> tuple[Verdict, float]:
    """What the formula says of a point: a verdict, and a speed-up over the baseline. A kernel without knobs is as fast as 0.8."""
    if not knobs:
        return Verdict.ACCEPTED, 0.8
    a, b = int(knobs["a"]), int(knobs["b"])
    if (a + 2 * b) % 7 == 0:
        return Verdict.INCORRECT, 0.0
    if a == 7 and b > 4:
        return Verdict.TIMEOUT, 0.0
    return Verdict.ACCEPTED, 0.7 + 0.07 * a + 0.05 * b - 0.004 * (a - b) ** 2


class FormulaBench:
    """`Bench` by formula. `priors` are how many trials each search was warm-started with."""

    def __init__(self, harness: str = HARNESS) -> None:
        self.harness = harness
        self.priors: list[int] = []

    def place(self, spec: LoadedSpec) -> Place:
        return Place(DEVICE, self.harness)

    def gate(self, spec: LoadedSpec, candidate: Candidate) -> Refusal | None:
        if any(b"forbidden" in data for data in candidate.files.values()):
            return Refusal(Verdict.POLICY_VIOLATION, "twice.cpp:1:1: forbidden")
        return None

    def judge(self, spec: LoadedSpec, candidate: Candidate, *, tier: Tier, against: str, fresh: bool, progress: Progress) -> Result:
        knobs = reachable(candidate)
        progress(Step("correctness", "small", 1, 1))
        verdict, speedup = verdict_of(knobs[0])
        if against == "champion":
            champion = read_candidate(spec.folder / "kernel", spec.spec.policy)
            speedup /= verdict_of(reachable(champion)[0])[1]
        names = spec.spec.workloads.screening if tier == "screening" else [workload.name for workload in spec.spec.workloads.public]
        if verdict is Verdict.ACCEPTED and speedup * 0.99 <= spec.spec.accept.min_speedup:
            verdict = Verdict.SLOWER
        timed = verdict in (Verdict.ACCEPTED, Verdict.SLOWER)
        return Result(
            spec=spec.spec.id,
            identity=Identity(kernel_tree=candidate.tree, spec_hash=spec.spec_hash, harness=self.harness),
            tier=tier,
            verdict=verdict,
            message=f"by formula: {verdict}",
            knobs=tuple(knobs),
            seed=7,
            started="2026-11-30T12:00:00+00:00",
            seconds=SCREENING_SECONDS if tier == "screening" else FULL_SECONDS,
            device=DEVICE,
            device_id="formula",
            environment={"judge": "a formula"},
            against=against,
            checks=tuple(CheckRow(workload=name, kind="public", axes={"n": 64}, verdict=Verdict.ACCEPTED, norm=0.0) for name in names),
            rows=tuple(_row(name, verdict, speedup) for name in names) if timed else (),
            geomean=Geomean(speedup=speedup, interval=(speedup * 0.99, speedup * 1.01)) if timed else None,
            reproduction=REPRODUCTION if verdict is Verdict.INCORRECT else None,
        )

    def tune(
        self,
        spec: LoadedSpec,
        candidate: Candidate,
        *,
        strategy: Strategy,
        trials: int,
        seed: int,
        prior: Sequence[Trial],
        recorded: Sequence[Trial],
        on_trial: Callable[[int, Trial], None],
    ) -> None:
        """The real search, whose points are judged by the formula."""

        def measure(spec: LoadedSpec, point: Candidate, target: object) -> Trial:
            assert git_tree(point.files) == point.tree
            result = self.judge(spec, point, tier="screening", against="baseline", fresh=False, progress=lambda _: None)
            return tuning.trial_of(point, result)

        self.priors.append(len(prior))
        with mock.patch.object(tuning, "_measure", measure):
            tuning.tune(
                spec,
                candidate,
                mock.sentinel.target,
                strategy=strategy,
                trials=trials,
                seed=seed,
                prior=prior,
                recorded=recorded,
                on_trial=on_trial,
            )


def _row(name: str, verdict: Verdict, speedup: float) -> TimingRow:
    return TimingRow(
        workload=name,
        axes={"n": 64},
        dtype="float32",
        verdict=verdict,
        error=0.0,
        median_ms=1.0 / speedup,
        baseline=BaselineRow(name="torch", config="", median_ms=1.0),
        speedup=speedup,
        interval=(speedup * 0.99, speedup * 1.01),
        aa=1.0,
        noisy=False,
        roofline=0.5,
        copy=None,
        samples=Samples(calls=1, candidate=((1.0 / speedup,),), baseline=((1.0,),), order=("AB",)),
    )
