"""Lint finds the faults of specs and of the kernels in them, wherever it is pointed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runner.errors import FactoryError
from runner.lint import lint_paths, spec_folders

ROOT = Path(__file__).parents[2]
GOOD = ROOT / "tests" / "data" / "specs" / "good-spec"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    folder = tmp_path / "good-spec"
    shutil.copytree(GOOD, folder)
    return folder


def lint(folder: Path) -> list[str]:
    return [str(fault).replace(f"{folder}/", "") for fault in lint_paths([folder])]


def of_this_repository() -> list[object]:
    """The siblings for Blackwell with the whole suite: that they are copies, and that their champions build, is tested with the specs."""
    folders = [*spec_folders(ROOT / "kernel-specs"), GOOD]
    return [pytest.param(one, id=one.name, marks=pytest.mark.suite if one.name.endswith("-b200") else ()) for one in folders]


@pytest.mark.parametrize("folder", of_this_repository())
def test_the_specs_of_this_repository_are_sound(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "target: sm_" in (folder / "spec.yaml").read_text():
        pytest.importorskip("cuda.bindings")
        # Facts about SASS double a build's time, and are no matter of soundness.
        monkeypatch.setattr("runner.targets.cuda.build.disassembler", lambda: None)
    assert lint_paths([folder]) == []


def test_a_spec_for_a_cpu_is_linted_without_importing_torch() -> None:
    """The import takes several times as long as the rest, and a person waits for it."""
    code = "import sys; from pathlib import Path; from runner.lint import lint_paths\n"
    code += "print(lint_paths([Path('kernel-specs/rmsnorm-cpu')]), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[] False\n"


def test_a_path_is_a_folder_a_file_or_a_folder_of_folders(copy: Path) -> None:
    assert spec_folders(copy) == spec_folders(copy / "spec.yaml") == spec_folders(copy.parent) == [copy]
    with pytest.raises(FactoryError, match="no spec is here"):
        spec_folders(copy / "kernel")


def test_a_spec_is_linted_once(copy: Path) -> None:
    (copy / "spec.yaml").write_text("a: 1\n")
    assert lint_paths([copy, copy / "spec.yaml", copy.parent]) == lint_paths([copy])


def test_kernels_are_linted_too(copy: Path) -> None:
    (copy / "kernel" / "pairs.cpp").write_text('asm("");\n')
    (copy / "seeds" / "fast" / "launch.yaml").write_text("sources: [pairs.cpp]\nlaunches: [{function: pairs, args: [z]}]\n")
    (copy / "seeds" / "odd").mkdir()
    (copy / "seeds" / "odd" / ".x").write_text("")
    found = lint(copy)
    assert found[0] == "kernel/pairs.cpp:1:1: inline assembly is not allowed; use intrinsics (immintrin.h)"
    assert found[1].startswith("seeds/fast/launch.yaml:2:37: `z` is not a tensor or scratch")
    assert found[2].startswith("seeds/odd/.x:1:1: this name is not allowed")
    assert len(found) == 3


def test_a_spec_with_faults_shows_them(copy: Path) -> None:
    shutil.copy(ROOT / "tests" / "data" / "specs" / "six-faults" / "spec.yaml", copy / "spec.yaml")
    assert len(lint(copy)) >= 6
    (copy / "spec.yaml").unlink()
    (copy / "spec.yaml").symlink_to("/etc/passwd")
    assert lint(copy) == ["spec.yaml:1:1: the spec can't be read: it is a link"]


def test_a_spec_has_a_champion(copy: Path) -> None:
    text = (copy / "spec.yaml").read_text().replace("strategy: local}", "strategy: local, start: seeds/fast}")
    (copy / "spec.yaml").write_text(text)
    shutil.rmtree(copy / "kernel")
    assert lint_paths([copy])[0].message.startswith("the folder `kernel` is missing")
