"""Compares two kernels of one spec in the same run: both checked like any candidate, then timed in balanced order against each other.

It says how long each takes and which is faster, each with its interval. It accepts nothing: that takes a judgement against the baselines.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import Field

from runner import correctness, timing
from runner.contestant import Contestant, Subject, check_policy, prepare, tree_of
from runner.correctness import check
from runner.environment import environment
from runner.errors import FactoryError
from runner.evaluate import find_candidate
from runner.identity import harness_hash
from runner.inputs import Pool, derive
from runner.judge import one_thread
from runner.oracle import Oracle
from runner.plan import Tier, make_plan
from runner.progress import Progress, Step
from runner.report import milliseconds, text
from runner.result import Fact, Geomean, Interval, Record, Samples
from runner.soundness import check_sound
from runner.spec.load import SPEC_NAME, LoadedSpec
from runner.spec.workload import Workload
from runner.statistics import Blocks, estimate, geomean, typical
from runner.targets.protocol import Placement, Target
from runner.timing import Side, Timer
from runner.verdict import Rejected, Verdict

T = TypeVar("T")


class SideRow(Record):
    """One side on one workload: the typical time of a call, with its interval."""

    ms: float
    interval: Interval


class ComparedRow(Record):
    """Both sides on one workload. `speedup` is the second's time over the first's: above 1 the first is faster. In `samples` the first
    stands as the candidate, the second as the baseline; `aa` is the second against itself."""

    workload: str
    axes: dict[str, int]
    dtype: str
    first: SideRow
    second: SideRow
    speedup: float
    interval: Interval
    aa: float
    noisy: bool
    samples: Samples


class Compared(Record):
    """`kernel-comparison/v1`: what `kernel-runner compare` writes."""

    schema_: Literal["kernel-comparison/v1"] = Field(default="kernel-comparison/v1", alias="schema")
    spec: str
    spec_hash: str
    harness: str
    first: str
    second: str
    trees: tuple[str, str]
    tier: Tier
    seed: int
    seconds: float
    device: str
    confidence: float
    environment: dict[str, Fact]
    rows: tuple[ComparedRow, ...]
    geomean: Geomean


def spec_of(names: Sequence[str], given: Path | None) -> Path:
    """The folder of the spec that kernels belong to: the one given, else the nearest around each. Raises `FactoryError`."""
    if given is not None:
        return given
    found = {folder for name in names for folder in [_spec_around(Path(name))] if folder is not None}
    if len(found) != 1:
        what = "there is no spec around them" if not found else f"they belong to {', '.join(sorted(map(str, found)))}"
        raise FactoryError(f"which spec {' and '.join(names)} are to be compared under is not clear ({what}); name it with --spec")
    return found.pop()


def _spec_around(folder: Path) -> Path | None:
    return next((place for place in folder.absolute().parents if (place / SPEC_NAME).is_file()), None)


def compare_named(
    loaded: LoadedSpec, target: Target, names: tuple[str, str], tier: Tier, seed: int | None, selection: Sequence[str], progress: Progress
) -> Compared:
    """Compare two kernels by their folders, `champion` or `baseline:NAME`. Raises `Rejected`, with the side named, for one that is refused
    or wrong, and `FactoryError` for a fault of spec or machine."""
    used = secrets.randbits(62) if seed is None else seed
    subjects = (_side(names[0], lambda: find_candidate(loaded, names[0])), _side(names[1], lambda: find_candidate(loaded, names[1])))
    with target.lock(), target.computing(), one_thread():
        return _Comparison(loaded, target, names, subjects, tier, used, progress).run(selection)


@dataclass
class _Comparison:
    loaded: LoadedSpec
    target: Target
    names: tuple[str, str]
    subjects: tuple[Subject, Subject]
    tier: Tier
    seed: int
    progress: Progress

    def run(self, selection: Sequence[str]) -> Compared:
        begun = time.monotonic()
        pool, oracle = Pool(derive(self.seed, "pool")), Oracle(self.loaded)
        device = self.target.device()
        sides = (self._prepared(0), self._prepared(1))
        plans = [make_plan(self.loaded, subject, self.tier, self.seed, selection, {}) for subject in self.subjects]
        timed = plans[0].timed
        if not timed:
            raise FactoryError("none of the named workloads is public: there is nothing to be timed")
        check_sound(self.loaded, oracle, pool, plans[0].checked, derive(self.seed, "sound"))
        scales: dict[str, Mapping[str, float]] = {}
        for number, side in enumerate(sides):
            self._check(number, side, plans[number].checked, oracle, pool, scales)
        timer = Timer(self.loaded, oracle, pool, device, derive(self.seed, "timing"))
        rows = [self._timed(index, len(timed), workload, sides, timer, scales[workload.name]) for index, workload in enumerate(timed)]
        accept = self.loaded.spec.accept
        every = [Blocks(row.samples.candidate, row.samples.baseline, row.samples.order) for row in rows]
        found = geomean(every, accept.confidence, derive(self.seed, "bootstrap"))
        return Compared(
            spec=self.loaded.spec.id,
            spec_hash=self.loaded.spec_hash,
            harness=harness_hash(),
            first=self.names[0],
            second=self.names[1],
            trees=(tree_of(self.subjects[0]), tree_of(self.subjects[1])),
            tier=self.tier,
            seed=self.seed,
            seconds=time.monotonic() - begun,
            device=device.name,
            confidence=accept.confidence,
            environment={**environment(), **device.facts},
            rows=tuple(rows),
            geomean=Geomean(speedup=found.speedup, interval=found.interval, aa=found.aa),
        )

    def _prepared(self, number: int) -> Contestant:
        subject = self.subjects[number]

        def build() -> Contestant:
            check_policy(self.target, self.loaded, subject)
            return prepare(self.target, self.loaded, subject, lambda row, rows: self.progress(Step("build", "", row, rows)))

        return _side(self.names[number], build).called(self.names[number])

    def _check(
        self,
        number: int,
        side: Contestant,
        checked: Sequence[Workload],
        oracle: Oracle,
        pool: Pool,
        scales: dict[str, Mapping[str, float]],
    ) -> None:
        effort = (correctness.FULL if self.tier == "full" else correctness.SCREENING).only(side.placements)
        for index, workload in enumerate(checked):
            self.progress(Step("correctness", workload.name, index, len(checked)))
            one = check(self.loaded, oracle, pool, workload, side.reopen, derive(self.seed, "check", workload.name), effort)
            if one.row.verdict is not Verdict.ACCEPTED:
                raise Rejected(one.row.verdict, f"{self.names[number]} is {one.row.verdict}: {workload.name}: {one.row.message}")
            scales.setdefault(workload.name, one.scales)

    def _timed(
        self, index: int, total: int, workload: Workload, sides: tuple[Contestant, Contestant], timer: Timer, scales: Mapping[str, float]
    ) -> ComparedRow:
        first, second = (_timed_side(side) for side in sides)
        effort = timing.FULL if self.tier == "full" else timing.SCREENING

        def say(ratio: float) -> None:
            self.progress(Step("timing", workload.name, index, total, ratio))

        self.progress(Step("timing", workload.name, index, total))
        try:
            measured = timer.measure(workload, first, second, scales, effort, say)
        except timing.WrongWhenTimed as error:
            raise Rejected(Verdict.INCORRECT, f"{self.names[0]} is incorrect: {error}") from error
        except timing.Lost as error:
            raise Rejected(Verdict.INCORRECT, f"{self.names[1]}: {error}") from error
        except Rejected as error:
            raise Rejected(error.verdict, f"{self.names[0]} is {error.verdict}: {error.message}") from error
        blocks, confidence = measured.blocks, self.loaded.spec.accept.confidence
        seed = derive(self.seed, "bootstrap", workload.name)
        found = estimate(blocks, confidence, seed)
        return ComparedRow(
            workload=workload.name,
            axes=dict(workload.axes),
            dtype=next(iter(workload.outputs.values())).dtype,
            first=_row(blocks.candidate, confidence, seed),
            second=_row(blocks.baseline, confidence, seed),
            speedup=found.speedup,
            interval=found.interval,
            aa=found.aa,
            noisy=found.noisy,
            samples=Samples(calls=measured.calls, candidate=blocks.candidate, baseline=blocks.baseline, order=blocks.order),
        )


def _timed_side(side: Contestant) -> Side:
    return Side(side.name, lambda workload, slots: side.open(workload, slots, Placement.SPACED))


def _row(times: Sequence[Sequence[float]], confidence: float, seed: int) -> SideRow:
    seconds, (low, high) = typical(times, confidence, seed)
    return SideRow(ms=seconds * 1e3, interval=(low * 1e3, high * 1e3))


def _side(name: str, make: Callable[[], T]) -> T:
    """What is made of a side; its refusal names it."""
    try:
        return make()
    except Rejected as error:
        raise Rejected(error.verdict, f"{name} is refused ({error.verdict}): {error.message}") from error


def markdown(found: Compared) -> str:
    """The comparison as a table for people."""
    lines = [f"| workload | {text(found.first)} | {text(found.second)} | speed-up | |", "|---|--:|--:|--:|---|"]
    for row in found.rows:
        mark = f"noisy (A/A {row.aa:.3f})" if row.noisy else ""
        lines.append(f"| {text(row.workload)} | {_time(row.first)} | {_time(row.second)} | {_ratio(row.speedup, row.interval)} | {mark} |")
    over = f"{text(found.first)} over {text(found.second)}"
    share = round(100 * found.confidence)
    return "\n\n".join(
        [
            f"## {text(found.spec)}: {over}",
            "\n".join(lines),
            f"In the geometric mean {_ratio(found.geomean.speedup, found.geomean.interval)}: {_decided(found)}. "
            f"Each interval holds its value with {share} % confidence; A/A {found.geomean.aa:.4f}.",
            f"On {text(found.device)}, {found.tier}, seed {found.seed}, {found.seconds:.0f} s.",
        ]
    )


def _decided(found: Compared) -> str:
    low, high = found.geomean.interval
    if low > 1:
        return f"{text(found.first)} is faster"
    return f"{text(found.second)} is faster" if high < 1 else "no difference is shown"


def _time(row: SideRow) -> str:
    return f"{milliseconds(row.ms)} [{milliseconds(row.interval[0])}, {milliseconds(row.interval[1])}]"


def _ratio(value: float, interval: Interval) -> str:
    return f"{value:.3f} [{interval[0]:.3f}, {interval[1]:.3f}]"
