"""The judge and the machine's checking tools: what is looked at, what a finding means, and tools that do not work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from specs import SPEC, write_spec

from runner.candidate import Candidate, read_candidate
from runner.errors import FactoryError
from runner.judge import judge
from runner.result import Result
from runner.sanitize import MAX_CALLS, sanitize, sanitize_named
from runner.spec.load import LoadedSpec
from runner.targets.cpu.target import CpuTarget
from runner.targets.instruments import Finding
from runner.targets.registry import target_for
from runner.verdict import Verdict


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNEL_FACTORY_STATE", str(tmp_path / "state"))


class WithTools(CpuTarget):
    """The target cpu on a machine with a checking tool, which finds what it is told to."""

    def __init__(self, *findings: Finding, broken: str = "") -> None:
        self.findings = findings
        self.broken = broken
        self.seen: list[tuple[str, Mapping[str, Any]]] = []

    def sanitizers(self) -> Sequence[str]:
        return ("memcheck",)

    def sanitize(self, spec: LoadedSpec, candidate: Candidate, runs: Sequence[Any]) -> Sequence[Finding]:
        if self.broken:
            raise FactoryError(self.broken)
        self.seen += [(workload.name, inputs) for _, workload, inputs in runs]
        return self.findings

    def profile(self, *_: Any) -> Sequence[Any]:
        raise FactoryError("no profiler")


def test_small_workloads_are_looked_at_with_their_inputs(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path)
    champion = read_candidate(loaded.folder / "kernel", loaded.spec.policy)
    target = WithTools(Finding("memcheck", "odd", "Invalid read"), Finding("initcheck", "odd", "a read", certain=False))
    found = sanitize(target, loaded, champion, 1)
    assert 1 <= len(target.seen) <= MAX_CALLS
    assert all(set(inputs) == {"x", "shift"} for _, inputs in target.seen)
    assert found.summary(("memcheck",)) == f"memcheck on {len(target.seen)} small workloads; noted: odd: initcheck: a read"
    wrong = found.wrong()
    assert wrong is not None
    assert (wrong.verdict, wrong.message) == (Verdict.INCORRECT, "odd: memcheck: Invalid read")


def judged(tmp_path: Path, target: CpuTarget, spec: str = "policy: {sanitize: true}\n", **options: Any) -> Result:
    loaded = write_spec(tmp_path, SPEC + spec)
    candidate = read_candidate(loaded.folder / "kernel", loaded.spec.policy)
    # A public workload's time is of no interest here, so the judgement ends before it.
    return judge(loaded, candidate, target, **{"tier": "full", "seed": 4, **options})


class Stop(Exception):
    """Ends a judgement where timing would begin."""


def stop_at_timing(step: Any) -> None:
    if step.stage == "baseline":
        raise Stop


def test_what_a_tool_is_certain_of_is_incorrect(tmp_path: Path) -> None:
    target = WithTools(Finding("memcheck", "odd", "Invalid __global__ read of size 4 bytes"))
    found = judged(tmp_path, target)
    assert found.verdict is Verdict.INCORRECT
    assert found.message == "odd: memcheck: Invalid __global__ read of size 4 bytes"
    assert found.environment["sanitizers"] == f"memcheck on {len(target.seen)} small workloads"
    assert not found.rows
    assert 1 <= len(target.seen) <= MAX_CALLS
    assert all(set(inputs) == {"x", "shift"} for _, inputs in target.seen)


@pytest.mark.parametrize(
    "target", [WithTools(Finding("initcheck", "odd", "read", certain=False)), WithTools(broken="Device not supported")]
)
def test_a_note_or_a_broken_tool_decides_nothing(tmp_path: Path, target: WithTools) -> None:
    with pytest.raises(Stop):
        judged(tmp_path, target, progress=stop_at_timing)


@pytest.mark.parametrize("options", [{"tier": "screening"}, {"selection": ["odd", "offset"]}, {"spec": ""}])
def test_only_a_full_judgement_is_looked_at_if_the_spec_asks_for_it(tmp_path: Path, options: dict[str, Any]) -> None:
    target = WithTools(Finding("memcheck", "odd", "Invalid read"))
    if "selection" in options:
        assert judged(tmp_path, target, **options).verdict is Verdict.SLOWER
    else:
        with pytest.raises(Stop):
            judged(tmp_path, target, **options, progress=stop_at_timing)
    assert not target.seen


def test_workloads_can_be_named(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path)
    champion = read_candidate(loaded.folder / "kernel", loaded.spec.policy)
    target = WithTools()
    assert sanitize_named(target, loaded, champion, ["odd", "offset"]).workloads == ("odd", "offset")
    with pytest.raises(FactoryError, match="no workload is called 'even'; there are small, large, no rows, odd, offset"):
        sanitize_named(target, loaded, champion, ["even"])


def test_a_target_without_tools_says_so(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path)
    champion = read_candidate(loaded.folder / "kernel", loaded.spec.policy)
    with pytest.raises(FactoryError, match="no checking tools for the target cpu"):
        sanitize(target_for(loaded.spec), loaded, champion, 1)
