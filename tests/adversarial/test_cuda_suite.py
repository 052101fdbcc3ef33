"""The suite of target `cuda` on a machine without a GPU: what the policy and the build refuse is refused here, and all else builds.

Variants are drawn anew for each run. What a kernel does when it runs is tried by `kernel-runner attack --target cuda` on a GPU.
"""

from __future__ import annotations

import random
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from runner.attack_cases import Case, Control, read_cases, read_controls
from runner.attack_variants import write_candidate_of
from runner.candidate import read_candidate
from runner.comparison import compare, rms
from runner.errors import FactoryError
from runner.inputs import Pool
from runner.manifest import row_knobs
from runner.oracle import Oracle
from runner.soundness import check_sound
from runner.spec import workloads
from runner.spec.load import LoadedSpec, load_spec
from runner.targets.registry import target_named
from runner.verdict import Rejected

pytest.importorskip("cuda.bindings")

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "tests" / "adversarial" / "cuda"
WORDS = {"CANARY_FILE": "/canary/file", "CANARY_PID": "77", "CANARY_PORT": "4711"}
ARCHITECTURES = ("sm_90a", "sm_100a")
HERE = {"policy_violation", "build_error"}
CASES = {case.name: case for case in read_cases(SUITE)}
CONTROLS = {control.name: control for control in read_controls(SUITE)}
LARGE = {"28-clock-of-the-library", "library-barrier", "chunked-linear-attention"}  # these take seconds
DRAWN_CONTROLS = 6


@dataclass(frozen=True)
class Outcome:
    verdict: str
    message: str


@pytest.fixture(autouse=True)
def _no_disassembly(monkeypatch: pytest.MonkeyPatch) -> None:
    """SASS facts double the time of a build, and no case depends on them."""
    monkeypatch.setattr("runner.targets.cuda.build.disassembler", lambda: None)


def spec_of(one: Case | Control) -> LoadedSpec:
    own = one.folder / "spec"
    return load_spec(own if own.is_dir() else SUITE.parent / "specs" / (one.file.spec or "rmsnorm-small-cuda"))


def built(loaded: LoadedSpec, kernel: Path, arch: str) -> Outcome:
    """What policy and build say of a kernel folder, all of its table's rows built."""
    target = target_named(arch)
    try:
        candidate = read_candidate(kernel, loaded.spec.policy)
    except FactoryError as error:
        return Outcome("policy_violation", str(error))
    messages = target.check(loaded, candidate)
    if messages:
        return Outcome("policy_violation", "\n".join(messages))
    log = []
    for row in range(max(1, len(candidate.manifest.table))):
        try:
            log.append(target.build(loaded, candidate, row_knobs(candidate.manifest, row)).log)
        except Rejected as error:
            return Outcome(error.verdict.value, error.message)
    return Outcome("built", "\n".join(log))


def names(*, here: bool) -> list[str]:
    """Cases with a candidate that is, or is not, to be refused without running it."""
    return [name for name, case in CASES.items() if case.file.kind != "result" and (set(case.file.expected) <= HERE) is here]


def test_there_is_a_case_of_every_class_and_enough_controls() -> None:
    assert {case.number for case in CASES.values()} == set(range(1, 43))
    assert len(CONTROLS) >= 14


@pytest.mark.parametrize("number", sorted({CASES[name].number for name in names(here=True)}))
def test_what_policy_and_build_refuse(number: int, tmp_path: Path) -> None:
    """One case of each class, drawn anew for each run."""
    name = secrets.choice([name for name in names(here=True) if CASES[name].number == number])
    refused(CASES[name], tmp_path / "kernel", secrets.randbits(32))


@pytest.mark.suite
@pytest.mark.parametrize("name", names(here=True))
def test_whatever_policy_and_build_refuse(name: str, tmp_path: Path) -> None:
    refused(CASES[name], tmp_path / "as written", None)
    refused(CASES[name], tmp_path / "kernel", secrets.randbits(32))


def refused(case: Case, kernel: Path, seed: int | None) -> None:
    told = write_candidate_of(case, kernel, WORDS, None if seed is None else random.Random(seed))
    found = built(spec_of(case), kernel, "sm_90a")
    assert found.verdict in case.file.expected, f"{told} (seed {seed}): {found}"
    assert re.search(case.file.says, found.message, re.IGNORECASE), f"{told} (seed {seed}): {found}"
    assert "candidate.cu" not in found.message
    assert found.message


@pytest.mark.parametrize("number", sorted({CASES[name].number for name in names(here=False)}))
def test_what_only_a_run_can_refuse_builds(number: int, tmp_path: Path) -> None:
    """One case of each class, drawn anew for each run."""
    seed = secrets.randbits(32)
    chooser = random.Random(seed)
    case = CASES[chooser.choice([name for name in names(here=False) if CASES[name].number == number and name not in LARGE])]
    told = write_candidate_of(case, tmp_path / "kernel", WORDS, chooser)
    assert built(spec_of(case), tmp_path / "kernel", "sm_90a").verdict == "built", f"{case.name}: {told} (seed {seed})"


@pytest.mark.suite
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", names(here=False))
def test_every_case_that_only_a_run_can_refuse_builds(name: str, arch: str, tmp_path: Path) -> None:
    seed = secrets.randbits(32)
    for index, chooser in enumerate((None, random.Random(seed))):
        told = write_candidate_of(CASES[name], tmp_path / str(index), WORDS, chooser)
        assert built(spec_of(CASES[name]), tmp_path / str(index), arch).verdict == "built", f"{told} (seed {seed})"


@pytest.mark.parametrize("part", range(DRAWN_CONTROLS))
def test_controls_build(part: int) -> None:
    """Some of them, each for an architecture, drawn anew for each run."""
    name = secrets.choice([name for name in CONTROLS if name not in LARGE][part::DRAWN_CONTROLS])
    builds(CONTROLS[name], secrets.choice(ARCHITECTURES))


@pytest.mark.suite
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", [*CONTROLS])
def test_controls_build_for_both_architectures(name: str, arch: str) -> None:
    builds(CONTROLS[name], arch)


def builds(control: Control, arch: str) -> None:
    found = built(spec_of(control), control.folder / "kernel", arch)
    assert found.verdict == "built", f"{arch}: {found.message}"


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.file.kind == "spec"])
def test_specs_that_tell_nothing_are_refused(name: str) -> None:
    with pytest.raises(FactoryError, match=r"degenerate|does not depend|nothing to"):
        check(CASES[name])


@pytest.mark.parametrize("name", ["rmsnorm-small-cuda", pytest.param("linear-attention-small-cuda", marks=pytest.mark.suite)])
def test_the_suites_own_specs_are_sound(name: str) -> None:
    check_loaded(load_spec(SUITE.parent / "specs" / name))


def check(case: Case) -> None:
    check_loaded(spec_of(case))


def check_loaded(loaded: LoadedSpec) -> None:
    drawn = [*workloads.public(loaded.spec), *workloads.hidden(loaded.spec, 7)]
    with torch.random.fork_rng():
        check_sound(loaded, Oracle(loaded), Pool(7, 1 << 20), drawn, 7)


def _fp32(x: torch.Tensor, weight: torch.Tensor, squares: torch.Tensor | None = None, bf16_scale: bool = False) -> torch.Tensor:
    """RMSNorm as the honest controls compute it, in fp32, not rounded yet."""
    total = x.square().sum(-1, keepdim=True) if squares is None else squares
    scale = 1 / torch.sqrt(total / x.shape[-1] + 1e-6)
    return x * (scale.bfloat16().float() if bf16_scale else scale) * weight


def _summed_in_bf16(x: torch.Tensor) -> torch.Tensor:
    """Each of 128 threads adds up its squares in bfloat16."""
    total = torch.zeros(x.shape[0], 128)
    for part in torch.nn.functional.pad(x, (0, -x.shape[1] % 128)).view(x.shape[0], -1, 128).unbind(1):
        total = (total + part.square()).bfloat16().float()
    return total.sum(-1, keepdim=True)


def _truncated(value: torch.Tensor) -> torch.Tensor:
    return (value.contiguous().view(torch.int32) & ~0xFFFF).view(torch.float32)


COMPUTATIONS = {
    "10-bf16-product": lambda x, w: _fp32(x, torch.ones_like(w)).bfloat16().float() * w,
    "10-bf16-scale": lambda x, w: _fp32(x, w, bf16_scale=True),
    "10-bf16-sum": lambda x, w: _fp32(x, w, _summed_in_bf16(x)),
    "10-truncates": lambda x, w: _truncated(_fp32(x, w)),
    "11-half-squares": lambda x, w: _fp32(x, w, x.half().square().float().sum(-1, keepdim=True)),
    "13-small-elements-wrong": lambda x, w: torch.where(_fp32(x, w).abs() < 0.1, _fp32(x, w) * 1.04, _fp32(x, w)),
    "04-zeros-where-small": lambda x, w: torch.where(_fp32(x, w).abs() < 0.005, 0.0, _fp32(x, w)),
}


def test_cases_about_precision_lie_outside_the_tolerance_and_fp32_within() -> None:
    """The same arithmetic as in the cases' kernels, compared as the judge compares: on each public workload."""
    loaded = load_spec(SUITE.parent / "specs" / "rmsnorm-small-cuda")
    oracle, pool, seed = Oracle(loaded), Pool(7, 1 << 20), secrets.randbits(32)
    bounds = loaded.spec.tolerance["y"].of("bfloat16")
    for workload in workloads.public(loaded.spec):
        inputs = pool.fresh(workload, seed)
        expected = oracle.expected(workload, inputs)["y"]
        x, weight = inputs["x"].float(), inputs["weight"]
        mismatch = compare("y", _fp32(x, weight).bfloat16(), expected, bounds, rms(expected)).mismatch
        assert mismatch is None, f"{workload.name} (seed {seed}): {mismatch}"
        for name, computed in COMPUTATIONS.items():
            assert name in CASES
            found = compare("y", computed(x, weight).bfloat16(), expected, bounds, rms(expected))
            assert found.mismatch is not None, f"{name} on {workload.name} (seed {seed})"
