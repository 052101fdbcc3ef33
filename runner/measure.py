"""Turns a candidate that is right into timed rows: the other side chosen for each workload, both timed, the copies beside them."""

from __future__ import annotations

import statistics as plain
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from runner.baseline import Chooser
from runner.contestant import Contestant
from runner.decision import is_behind
from runner.inputs import derive
from runner.progress import Progress, Step
from runner.result import BaselineRow, CopyRow, Fact, Geomean, Samples, TimingRow
from runner.roofline import floor_seconds, implausible
from runner.spec.load import LoadedSpec
from runner.spec.workload import Workload
from runner.statistics import Blocks, estimate, geomean, median_seconds
from runner.targets.protocol import Placement, Target
from runner.timing import Effort, Lost, Measured, Side, Timer
from runner.verdict import Rejected, Verdict

COPY_BLOCKS, COPY_ROTATION = 2, 1


@dataclass
class Measurer:
    """Times the workloads of one evaluation. `rival` is what it is compared with; None: the fastest baseline on each workload.

    What is learned on the way goes into `environment` (of the machine) and `facts` (the times of every baseline)."""

    target: Target
    loaded: LoadedSpec
    timer: Timer
    chooser: Chooser
    rival: Contestant | None
    effort: Effort
    copies: bool
    progress: Progress
    environment: dict[str, Fact]
    facts: dict[str, Fact]

    def rows(self, contestant: Contestant, workloads: Sequence[Workload], scales: Mapping[str, Mapping[str, float]]) -> list[TimingRow]:
        """A row for each workload. `scales` by workload and output, from the correctness checks. Raises what `Timer.measure` raises."""
        sides = [self._other(index, len(workloads), workload, scales[workload.name]) for index, workload in enumerate(workloads)]
        rows = []
        self._condition("before")
        for index, (workload, (side, config)) in enumerate(zip(workloads, sides, strict=True)):
            mine = Side(contestant.name, lambda one, slots: contestant.open(one, slots, Placement.SPACED))

            def say(ratio: float, index: int = index, workload: Workload = workload) -> None:
                self.progress(Step("timing", workload.name, index, len(workloads), ratio))

            self.progress(Step("timing", workload.name, index, len(workloads)))
            measured = self.timer.measure(workload, mine, side, scales[workload.name], self.effort, say)
            copy = self._copy(index, len(workloads), workload, median_seconds(measured.blocks.candidate)) if self.copies else None
            rows.append(self._row(workload, measured, side.name, config(workload), copy))
        self._condition("after")
        return rows

    def _condition(self, when: str) -> None:
        """How the device is doing, into the environment."""
        for name, value in self.target.condition().items():
            self.environment[f"{name} {when} timing"] = value

    def _other(self, index: int, total: int, workload: Workload, scales: Mapping[str, float]) -> tuple[Side, Callable[[Workload], str]]:
        rival = self.rival
        if rival is not None:
            return Side(rival.name, lambda one, slots: rival.open(one, slots, Placement.SPACED)), rival.config
        self.progress(Step("baseline", workload.name, index, total))
        with self.timer.meter.on("baselines"):
            choice = self.chooser.choose(workload, scales)
        for name, reason in choice.left_out.items():
            self.environment[f"baseline left out: {name}"] = reason
        for name, seconds in choice.seconds.items():
            self.facts[f"best block of {name} on {workload.name}, ms a call"] = round(seconds * 1e3, 6)
        baseline = self.chooser.named(choice.name)
        side = self.chooser.side(baseline, choice.configs.get(baseline.name, ""))
        note = choice.notes.get(baseline.name)

        def config(one: Workload) -> str:
            said = self.target.baseline_config(baseline, self.loaded, one)
            return f"{said}; {note}" if note else said

        return side, config

    def _copy(self, index: int, total: int, workload: Workload, kernel_seconds: float) -> CopyRow | None:
        """The strongest of the target's tuned copies of the same bytes."""
        best: tuple[float, str] | None = None
        for name in self.target.copies():
            self.progress(Step("copies", workload.name, index, total))
            side = Side(f"copy {name}", lambda one, slots, name=name: self.target.open_copy(name, one, slots))  # type: ignore[misc]
            try:
                seconds = plain.median(self.timer.alone(workload, side, COPY_BLOCKS, COPY_ROTATION, None))
            except Rejected as error:
                raise Lost(f"the copy {name} failed: {error.message}") from error
            best = min(best or (seconds, name), (seconds, name))
        return None if best is None else CopyRow(name=best[1], median_ms=best[0] * 1e3, share=best[0] / kernel_seconds)

    def _row(self, workload: Workload, measured: Measured, name: str, config: str, copy: CopyRow | None) -> TimingRow:
        spec, blocks = self.loaded.spec, measured.blocks
        found = estimate(blocks, spec.accept.confidence, derive(self.timer.seed, "bootstrap", workload.name))
        seconds = median_seconds(blocks.candidate)
        verdict = Verdict.SLOWER if is_behind(spec.accept, found.interval) else Verdict.ACCEPTED
        if implausible(workload, self.timer.device, seconds) is not None:
            verdict = Verdict.IMPLAUSIBLE
        return TimingRow(
            workload=workload.name,
            axes=dict(workload.axes),
            dtype=next(iter(workload.outputs.values())).dtype,
            verdict=verdict,
            error=measured.norm,
            median_ms=seconds * 1e3,
            baseline=BaselineRow(name=name, config=config, median_ms=median_seconds(blocks.baseline) * 1e3),
            speedup=found.speedup,
            interval=found.interval,
            aa=found.aa,
            noisy=found.noisy,
            roofline=floor_seconds(workload, self.timer.device) / seconds,
            copy=copy,
            samples=Samples(calls=measured.calls, candidate=blocks.candidate, baseline=blocks.baseline, order=blocks.order),
        )


def geomean_of(rows: Sequence[TimingRow], confidence: float, seed: int) -> Geomean:
    """The geometric mean over all rows from their raw samples."""
    found = geomean([Blocks(row.samples.candidate, row.samples.baseline, row.samples.order) for row in rows], confidence, seed)
    return Geomean(speedup=found.speedup, interval=found.interval, aa=found.aa)
