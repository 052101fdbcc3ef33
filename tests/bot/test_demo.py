"""The spec that the demo commits: the project's own, made small enough for a laptop, and as valid."""

from __future__ import annotations

import shutil
from pathlib import Path

from bot.demo import HURRIED, SPEC, hurried
from runner.lint import lint_paths
from runner.spec.load import load_spec

ROOT = Path(__file__).parents[2]


def test_the_demo_s_spec_is_the_project_s_with_less_to_do(tmp_path: Path) -> None:
    own = load_spec(ROOT / "kernel-specs" / SPEC).spec
    folder = shutil.copytree(ROOT / "kernel-specs" / SPEC, tmp_path / SPEC)
    text = (folder / "spec.yaml").read_text()
    assert [written for written in HURRIED if text.count(written) != 1] == []
    (folder / "spec.yaml").write_text(hurried(text))
    assert lint_paths([folder]) == []
    small = load_spec(folder).spec
    assert small.accept == own.accept.model_copy(update={"approval": "required"})
    assert small.budget == own.budget
    assert len(small.workloads.public) < len(own.workloads.public)
    assert all(workload in own.workloads.public for workload in small.workloads.public)
    assert (small.workloads.edge, small.workloads.hidden, small.tolerance) == (own.workloads.edge, own.workloads.hidden, own.tolerance)


def test_another_spec_keeps_what_it_says() -> None:
    assert hurried("budget: {rounds: 7, candidates: 90}\n") == "budget: {rounds: 7, candidates: 90}\n"
