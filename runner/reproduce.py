"""Measures a published result again and says whether it holds. Nothing in the result is believed but what is to be judged."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from runner.baseline import find_baseline
from runner.candidate import read_candidate
from runner.contestant import Subject, tree_of
from runner.decision import decide, interval_text
from runner.errors import FactoryError
from runner.identity import harness_hash
from runner.inputs import derive
from runner.judge import judge
from runner.measure import geomean_of
from runner.plan import Tier, make_plan
from runner.progress import Progress
from runner.result import Geomean, Interval, Result, TimingRow
from runner.spec.load import LoadedSpec, load_spec
from runner.spec.models import Accept
from runner.statistics import Blocks, estimate, median_seconds
from runner.targets.protocol import Target
from runner.verdict import Verdict

SLACK = 0.03
ROW_SLACK = 0.15
"""How much farther than their intervals say two honest measurements may lie apart: an interval covers one run of a machine, not what
changes between two days of it. A single workload moves more than the mean over all."""


@dataclass(frozen=True)
class Reproduced:
    """What measuring again gave. `differences` are the ways in which it does not hold; `notes` are no reason against it."""

    again: Result | None
    differences: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.differences


def find_spec(result: Result, path: Path, given: Path | None) -> LoadedSpec:
    """The spec that a result is about: the given folder, else the one around the result, else `kernel-specs/<id>` in the current folder."""
    around = [folder for folder in path.absolute().parents if (folder / "spec.yaml").is_file()][:1]
    folders = [given] if given is not None else [*around, Path("kernel-specs") / result.spec]
    folder = next((folder for folder in folders if (folder / "spec.yaml").is_file()), None)
    if folder is None:
        raise FactoryError(f"{path}: no spec found in {', '.join(map(str, folders))}; name its folder with --spec")
    loaded = load_spec(folder)
    if loaded.spec.id != result.spec:
        raise FactoryError(f"{path} is about the spec {result.spec}, and {folder} holds {loaded.spec.id}")
    return loaded


def find_subject(result: Result, loaded: LoadedSpec, given: Path | None) -> Subject:
    """The kernel that was judged: the given folder, else the spec's `kernel/`; or the baseline that stood in its place."""
    if result.identity.kernel_tree.startswith("baseline:"):
        return find_baseline(loaded, result.identity.kernel_tree.removeprefix("baseline:"))
    return read_candidate(given if given is not None else loaded.folder / "kernel", loaded.spec.policy)


def reproduce(result: Result, loaded: LoadedSpec, subject: Subject, target: Target, progress: Progress | None = None) -> Reproduced:
    """Judge again with another seed, when the identity is the same and the result agrees with its own samples, and compare."""
    wrong = (
        identity_differences(result, loaded, subject)
        or own_differences(result, loaded.spec.accept)
        or spec_differences(result, loaded, subject)
    )
    if wrong:
        return Reproduced(None, wrong, ())
    tier, only, axes = _asked(result)
    against = result.against
    if against not in ("baseline", "champion"):
        raise FactoryError(f"the result compares with the folder {against}, which cannot be found again; evaluate it yourself")
    again = judge(loaded, subject, target, tier=tier, against=against, fresh=True, progress=progress, selection=only, axes=axes)
    return Reproduced(again, measured_differences(result, again), notes(result, again))


def identity_differences(result: Result, loaded: LoadedSpec, subject: Subject) -> tuple[str, ...]:
    """Which of kernel, spec and harness are not those that were judged."""
    pairs = [
        ("the kernel's tree", result.identity.kernel_tree, tree_of(subject)),
        ("the spec's hash", result.identity.spec_hash, loaded.spec_hash),
        ("the harness", result.identity.harness, harness_hash()),
    ]
    return tuple(f"{what} is {now}, the result is about {then}" for what, then, now in pairs if then != now)


def own_differences(result: Result, accept: Accept) -> tuple[str, ...]:
    """How a result contradicts its own raw samples, before anything is measured."""
    found = []
    for row in result.rows:
        blocks = Blocks(row.samples.candidate, row.samples.baseline, row.samples.order)
        try:
            told = (estimate(blocks, accept.confidence, 0).speedup, median_seconds(blocks.candidate), median_seconds(blocks.baseline))
        except (ValueError, StopIteration) as error:
            found.append(f"{row.workload}: the samples are not blocks in balanced order: {error}")
            continue
        claimed = (row.speedup, row.median_ms / 1e3, row.baseline.median_ms / 1e3)
        if not all(math.isclose(one, other, rel_tol=1e-6) for one, other in zip(told, claimed, strict=True)):
            found.append(f"{row.workload}: speed-up and medians do not follow from the row's own samples")
    if result.rows and result.geomean is not None and not found:
        mean = math.exp(sum(math.log(row.speedup) for row in result.rows) / len(result.rows))
        if not math.isclose(mean, result.geomean.speedup, rel_tol=1e-6):
            found.append("the geomean does not follow from the rows")
        if decide(accept, result.rows, result.geomean)[0] is not result.verdict:
            found.append(f"the verdict {result.verdict} does not follow from the rows and the geomean")
    return tuple(found)


def spec_differences(result: Result, loaded: LoadedSpec, subject: Subject) -> tuple[str, ...]:
    """How a result that was timed is not what its spec, its seed and its tier ask for: rows and checks left out, or intervals that do
    not follow from the samples."""
    if not result.rows:
        return ()
    tier, only, axes = _asked(result)
    plan = make_plan(loaded, subject, tier, result.seed, only, axes)
    found = []
    if [(row.workload, row.axes) for row in result.rows] != [(one.name, dict(one.axes)) for one in plan.timed]:
        found.append(f"the rows are not those of the workloads that are timed: {', '.join(one.name for one in plan.timed)}")
    if [(row.workload, row.axes) for row in result.checks] != [(one.name, dict(one.axes)) for one in plan.checked]:
        found.append("the checks are not those of the workloads that are checked")
    if any(row.verdict is not Verdict.ACCEPTED for row in result.checks):
        found.append("a workload is timed though a check failed")
    confidence = loaded.spec.accept.confidence
    for row in result.rows:
        blocks = Blocks(row.samples.candidate, row.samples.baseline, row.samples.order)
        told = estimate(blocks, confidence, derive(derive(result.seed, "timing"), "bootstrap", row.workload))
        if not _alike(told.interval, row.interval):
            found.append(f"{row.workload}: the interval does not follow from the row's own samples")
    again = geomean_of(result.rows, confidence, derive(result.seed, "bootstrap"))
    if result.geomean is not None and not _alike(again.interval, result.geomean.interval):
        found.append("the interval of the geomean does not follow from the rows' samples")
    return tuple(found)


def _asked(result: Result) -> tuple[Tier, tuple[str, ...], dict[str, int]]:
    """With which tier, workloads and axis lengths the evaluation was asked for."""
    only = tuple(word for word in result.selection if "=" not in word)
    axes = {name: int(length) for name, _, length in (word.partition("=") for word in result.selection if "=" in word)}
    return "screening" if result.tier == "screening" and not result.selection else "full", only, axes


def _alike(first: Interval, second: Interval) -> bool:
    """Whether two intervals are one and the same, but for what another version of NumPy draws."""
    return all(math.isclose(one, other, rel_tol=0.03) for one, other in zip(first, second, strict=True))


def measured_differences(result: Result, again: Result) -> tuple[str, ...]:
    """How a second measurement contradicts the first: another verdict, or speed-ups that cannot both be true."""
    found = []
    if result.verdict is not again.verdict:
        found.append(f"the verdict was {result.verdict}, now it is {again.verdict}: {again.message}")
    if result.geomean is None or again.geomean is None:
        return tuple(found)
    if _apart(result.geomean.interval, again.geomean.interval, SLACK):
        then, now = _shown(result.geomean), _shown(again.geomean)
        found.append(f"the geomean was {then}, now it is {now}")
    rows = {row.workload: row for row in again.rows}
    for row in result.rows:
        other = rows.get(row.workload)
        if other is None:
            found.append(f"{row.workload} was not measured again: the spec does not have it")
        elif _apart(row.interval, other.interval, ROW_SLACK):
            found.append(f"{row.workload} was {_shown(row)}, now it is {_shown(other)}")
    return tuple(found)


def notes(result: Result, again: Result) -> tuple[str, ...]:
    """What is different without being a reason to doubt the result."""
    found = []
    if result.device_id != again.device_id:
        found.append(f"the result is from another device: {result.device}; this one is {again.device}")
    for name, was in sorted(result.environment.items()):
        now = again.environment.get(name)
        if now != was:
            found.append(f"{name} was {was}, now {now}")
    return tuple(found)


def _apart(first: Interval, second: Interval, slack: float) -> bool:
    """Whether two intervals of ratios lie apart by more than the slack."""
    return first[0] > second[1] * (1 + slack) or second[0] > first[1] * (1 + slack)


def _shown(figure: Geomean | TimingRow) -> str:
    return f"{figure.speedup:.3f} {interval_text(figure.interval)}"
