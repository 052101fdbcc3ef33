"""Judging and building by the names that a person gives on the command line: folders, `champion`, `baseline:NAME`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runner.baseline import find_baseline
from runner.candidate import Candidate, read_candidate
from runner.contestant import Subject, check_policy, rows_of
from runner.errors import FactoryError
from runner.judge import judge, refused
from runner.manifest import row_knobs
from runner.plan import Tier
from runner.progress import Progress
from runner.result import Result
from runner.spec.load import LoadedSpec, load_spec
from runner.targets.protocol import Target
from runner.targets.registry import target_for, target_named
from runner.verdict import Rejected, Verdict


def evaluate_named(
    spec: Path,
    candidate: str,
    *,
    tier: Tier,
    seed: int | None,
    against: str,
    fresh: bool,
    progress: Progress,
    selection: Sequence[str],
    axes: Mapping[str, int],
) -> Result:
    """See `runner.judge.judge`. A folder that is no kernel (a bad name, a link, a fault in launch.yaml …) is a `policy_violation`."""
    loaded = load_spec(spec)
    target = target_for(loaded.spec)
    try:
        subject = find_candidate(loaded, candidate)
    except Rejected as error:
        return refused(loaded, target, error)
    return judge(
        loaded,
        subject,
        target,
        tier=tier,
        seed=seed,
        against=against,
        fresh=fresh,
        retune=fresh,
        progress=progress,
        selection=selection,
        axes=axes,
        where=candidate,
    )


def find_candidate(loaded: LoadedSpec, name: str) -> Subject:
    """What a name stands for. Raises `FactoryError` when there is no such folder or baseline, `Rejected` when the folder is no kernel."""
    if name.startswith("baseline:"):
        return find_baseline(loaded, name.removeprefix("baseline:"))
    folder = loaded.folder / "kernel" if name == "champion" else Path(name)
    if not folder.is_dir():
        raise FactoryError(f"{folder}: no such folder")
    try:
        return read_candidate(folder, loaded.spec.policy)
    except FactoryError as error:
        raise Rejected(Verdict.POLICY_VIOLATION, str(error)) from error


def load_candidate(spec: Path, name: str) -> tuple[Target, LoadedSpec, Candidate]:
    """A spec's target, the spec, and a kernel by its folder or `champion`. Raises `FactoryError` and `Rejected`."""
    loaded = load_spec(spec)
    subject = find_candidate(loaded, name)
    if not isinstance(subject, Candidate):
        raise FactoryError(f"{name} is a baseline; this is for kernel folders")
    return target_for(loaded.spec), loaded, subject


def build_named(spec: Path, candidate: str, arch: str | None = None) -> dict[str, Any]:
    """Policy and build of every table row, for the spec's target or another GPU's `arch`: `{"spec", "target", "kernel_tree", "verdict":
    "built" or the verdict, "message", "rows"}`. Raises `FactoryError` for an `arch` where the spec is for a CPU."""
    loaded = load_spec(spec)
    wanted = loaded.spec.hardware.target
    if arch is not None and wanted == "cpu":
        raise FactoryError(f"{loaded.spec.id} is for a CPU; --arch is for specs whose target is a GPU")
    target = target_named(arch or wanted)
    found: dict[str, Any] = {
        "spec": loaded.spec.id,
        "target": arch or wanted,
        "kernel_tree": "",
        "verdict": "built",
        "message": "",
        "rows": [],
    }
    try:
        subject = find_candidate(loaded, candidate)
        if not isinstance(subject, Candidate):
            raise FactoryError("a baseline is not built from a kernel folder")
        found["kernel_tree"] = subject.tree
        check_policy(target, loaded, subject)
        for index in range(rows_of(subject)):
            binary = target.build(loaded, subject, row_knobs(subject.manifest, index))
            row = {"knobs": dict(binary.knobs), "sha256": binary.sha256, "facts": dict(binary.facts), "log": binary.log}
            found["rows"].append(row)
    except Rejected as error:
        found |= {"verdict": error.verdict.value, "message": error.message}
    return found
