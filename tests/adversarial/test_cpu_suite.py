"""The whole adversarial suite against the judge: as this user, as an ordinary one, and with the policy taken away.

The seed is drawn anew for each run and printed, so variants that nobody has seen are tried every time. What takes long is marked
`suite` and run by `make attack`.
"""

from __future__ import annotations

import json
import os
import random
import re
import secrets
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, cast

import pytest

from runner.attack import AttackReport, run_suite
from runner.attack_cases import Case, read_cases
from runner.candidate import Candidate
from runner.spec.load import LoadedSpec
from runner.targets.protocol import Target
from runner.targets.registry import target_named

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "tests" / "adversarial" / "cpu"
NOBODY = 65534

# What depends on who runs the judge: processes, files, sockets, the compiler's sandbox, the clock; and some of everything else.
BY_USER = (
    r"^(16|18|22|26|27|30|36|42)-"
    r"|^(0[1-9]|1\d|2[1358]|33|34|39|40|41)-(does|zeroes|one|bf16|public|memo-by-p|idle|baseline|link|pipe|billion|includes-a|assembly-in-a)"
    r"|^(openmp|streaming|own-thread)"
)
# What must hold without the policy: the sandbox, the filter of system calls, the clock, the checks.
BEHIND_POLICY = r"^(15-aliased|16-e|16-s|22-state|26|27|30|31|35-h|36-[as]|42)"
# Every way to make a compiler read: #include, #embed, .incbin, pragmas, line markers, links, defines.
READS_FILES = r"^(39-link|41-(?!template|constant|macro|huge|flood|recursive))"

CONTROLS = 2  # that one run of the tests draws
PARTS = 3
# Wrong or late because of threads of their own: on a busy machine these may be as good as right for a while.
ABOUT_THREADS = {17, 23, 26, 31}
WHOLLY_QUIET = ABOUT_THREADS | {35}  # classes of which every case needs a quiet machine


class Unpoliced:
    """A target whose policy allows everything; all else is the target's."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def check(self, spec: LoadedSpec, candidate: Candidate) -> tuple[str, ...]:
        return ()


def misses(report: AttackReport) -> list[str]:
    """What a failing run shows."""
    found = [f"{row.name} ({row.candidate}): {row.verdict}: {row.message}" for row in report.cases if not row.caught]
    found += [f"control {row.name}: {row.verdict}: {row.message}" for row in report.controls if not row.passed]
    return [*found, f"seed {report.seed}"] if found else []


def one_of_each_class(cases: Iterable[Case]) -> list[Case]:
    """A case of every class that there is among these, drawn anew for each run."""
    by_class: dict[int, list[Case]] = {}
    for case in cases:
        by_class.setdefault(case.number, []).append(case)
    return [secrets.choice(of_class) for of_class in by_class.values()]


def needs_quiet(case: Case) -> bool:
    """Whether a case may be decided by its times, or by threads that really run beside each other and beside the judge."""
    return "slower" in case.file.expected or case.number in ABOUT_THREADS


def attacked(names: Collection[str]) -> AttackReport:
    """The cases and controls of these names, each case as a variant drawn anew."""
    pattern = "|".join(f"^{re.escape(name)}$" for name in names)
    report = run_suite(target_named("cpu"), SUITE, ROOT / "kernel-specs", only=pattern, as_written=False)
    assert {row.name for row in (*report.cases, *report.controls)} == set(names)
    return report


@pytest.mark.parametrize("part", range(PARTS))
def test_a_variant_of_a_quarter_of_the_classes_is_caught(part: int) -> None:
    """One case a class of those that need no quiet machine, in parts that several processes share; `make attack` runs them all."""
    cases = one_of_each_class(case for case in read_cases(SUITE) if not needs_quiet(case))
    assert {case.number for case in cases} == set(range(1, 43)) - WHOLLY_QUIET
    mine = cases[part::PARTS]
    assert misses(attacked([case.name for case in random.SystemRandom().sample(mine, -(-len(mine) // 4))])) == []


@pytest.mark.measures
def test_what_needs_a_quiet_machine_is_caught_and_controls_pass() -> None:
    """One case a class, those of them that need a quiet machine, and some of the controls; `make attack` runs them all."""
    cases = [case for case in one_of_each_class(read_cases(SUITE)) if needs_quiet(case)]
    assert {case.number for case in cases} >= WHOLLY_QUIET
    controls = random.SystemRandom().sample(sorted(folder.name for folder in (SUITE / "controls").iterdir()), CONTROLS)
    assert misses(attacked([*(case.name for case in cases), *controls])) == []


@pytest.mark.suite
def test_every_variant_is_caught_and_every_control_passes() -> None:
    report = run_suite(target_named("cpu"), SUITE, ROOT / "kernel-specs", as_written=False)
    assert misses(report) == []
    assert {row.class_ for row in report.cases} == set(range(1, 43))
    assert len(report.controls) >= 10


@pytest.mark.suite
def test_what_the_policy_refuses_is_stopped_without_it_too() -> None:
    report = run_suite(cast(Target, Unpoliced(target_named("cpu"))), SUITE, ROOT / "kernel-specs", only=BEHIND_POLICY)
    assert misses(report) == []


@pytest.mark.parametrize(
    "tried",
    [pytest.param(lambda target: target, id="with the policy"), pytest.param(Unpoliced, id="without it", marks=pytest.mark.suite)],
)
def test_no_compile_reveals_a_file_outside_its_folder(tried: Callable[[Target], Any]) -> None:
    """The suite itself looks for the planted secret in all that the judge says."""
    report = run_suite(
        tried(target_named("cpu")), SUITE, ROOT / "kernel-specs", only=r"^(39-link|41-(?!template|constant|macro|huge|flood|recursive))"
    )
    assert len(report.cases) > 40
    assert not [row for row in report.cases if "secret" in row.message]
    if tried is not Unpoliced:
        assert misses(report) == []
    # Without the policy some are harmless and slow, none is right for what it read: those that read nothing can't be built.
    assert not [row.name for row in report.cases if row.verdict == "accepted"]


@pytest.mark.suite
@pytest.mark.skipif(os.getuid() != 0, reason="the suite has run as an ordinary user already")
def test_as_an_ordinary_user(tmp_path: Path) -> None:
    python = ordinary_python()
    home = tmp_path / "home"
    for name in ("runner", "kernel-specs", "tests/adversarial"):
        shutil.copytree(ROOT / name, home / name, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(folder.stat().st_mode | 0o111)
    for path in (home, *home.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    line = [
        python,
        "-c",
        "from runner.cli import main; main()",
        "attack",
        "--target",
        "cpu",
        "--only",
        BY_USER,
        "--out",
        str(home / "attack.json"),
    ]
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "PYTHONPATH": os.pathsep.join((str(home), sysconfig.get_paths()["purelib"])),
        "KERNEL_FACTORY_STATE": str(home / "state"),
    }
    done = subprocess.run(
        line, cwd=home, env=environment, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    report = json.loads((home / "attack.json").read_text())
    assert (report["false_accepts"], report["false_rejects"]) == (0, 0)
    assert len(report["cases"]) > 100


def ordinary_python() -> str:
    """An interpreter of this version that an ordinary user may run, with the packages of this one in reach; skips where there is none."""
    try_import = "import torch, pydantic"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, shutil.which(version, path="/usr/local/bin:/usr/bin")):
        if python is None:
            continue
        environment = {"PYTHONPATH": sysconfig.get_paths()["purelib"]}
        try:
            done = subprocess.run(
                [python, "-c", try_import],
                env=environment,
                user=NOBODY,
                group=NOBODY,
                extra_groups=[],
                cwd="/",
                capture_output=True,
                check=False,
            )
        except PermissionError:
            continue
        if done.returncode == 0:
            return python
    pytest.skip(f"no {version} that an ordinary user may run can import the packages of {sys.executable}")
