"""The judge: policy, build, correctness, timing, verdict, in this order, each with its own message. It owns clock, oracle and verdict."""

from __future__ import annotations

import datetime
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from runner import correctness, timing
from runner.baseline import Chooser
from runner.candidate import Candidate, read_candidate
from runner.contestant import Contestant, Subject, check_policy, prepare, tree_of
from runner.correctness import Check, check
from runner.decision import decide
from runner.environment import environment
from runner.errors import FactoryError
from runner.identity import harness_hash
from runner.inputs import Pool, derive
from runner.measure import Measurer, geomean_of
from runner.oracle import Oracle
from runner.plan import Plan, Tier, make_plan
from runner.progress import Progress, Step, silent
from runner.reproduction import reproduce_small
from runner.result import Fact, Geomean, Identity, Reproduction, Result, TimingRow
from runner.roofline import implausible
from runner.sanitize import sanitize, tools_of
from runner.soundness import check_sound
from runner.spec.load import LoadedSpec
from runner.spec.workload import Workload
from runner.state import state_folder
from runner.targets.protocol import Target
from runner.verdict import Rejected, Verdict

MAX_MESSAGE = 4000


def judge(
    spec: LoadedSpec,
    candidate: Subject,
    target: Target,
    *,
    tier: Tier = "full",
    seed: int | None = None,
    against: str = "baseline",
    fresh: bool = False,
    retune: bool = False,
    copies: bool = True,
    progress: Progress | None = None,
    selection: Sequence[str] = (),
    axes: Mapping[str, int] | None = None,
    where: str = "kernel",
) -> Result:
    """Judge one subject, holding the target's lock. Never raises for a bad candidate, but `FactoryError` for what is wrong with
    the spec or the machine.

    `against` is `baseline` (the fastest of the spec's on each workload), `champion` (the spec's `kernel/`) or the path of another
    candidate. `fresh` forgets the times of baselines that were kept, `retune` their configurations too. Without `copies` no tuned copy is
    timed beside the rows of a full evaluation. `selection` and `axes` restrict the evaluation to named workloads, or to other axis
    lengths of them; the result then counts as screening. `where` is how the candidate is named in the command that shows a failure again.
    """
    with target.lock(), target.computing(), one_thread():
        used = secrets.randbits(62) if seed is None else seed
        return _Evaluation(spec, candidate, target, tier, used, against, progress or silent, where).run(
            fresh, retune, copies, tuple(selection), axes or {}
        )


def refused(spec: LoadedSpec, target: Target, why: Rejected) -> Result:
    """The result for what cannot even be read as a candidate: there is no tree to name."""
    device = target.device()
    return Result(
        spec=spec.spec.id,
        identity=Identity(kernel_tree="", spec_hash=spec.spec_hash, harness=harness_hash()),
        tier="screening",
        verdict=why.verdict,
        message=_short(why.message),
        knobs=(),
        seed=0,
        started=_now(),
        seconds=0.0,
        device=device.name,
        device_id=device.id,
        environment={},
    )


class _Evaluation:
    """One evaluation while it runs: what is known so far, so that whatever ends it still gives a whole result."""

    def __init__(
        self,
        loaded: LoadedSpec,
        subject: Subject,
        target: Target,
        tier: Tier,
        seed: int,
        against: str,
        progress: Progress,
        where: str,
    ) -> None:
        self.loaded = loaded
        self.subject = subject
        self.target = target
        self.tier: Tier = tier
        self.seed = seed
        self.against = against
        self.progress = progress
        self.where = where
        self.device = target.device()
        self.oracle = Oracle(loaded)
        self.pool = Pool(derive(seed, "pool"))
        self.timer = timing.Timer(loaded, self.oracle, self.pool, self.device, derive(seed, "timing"))
        self.contestant: Contestant | None = None
        self.checks: list[Check] = []
        self.rows: list[TimingRow] = []
        self.geomean: Geomean | None = None
        self.reproduction: Reproduction | None = None
        self.environment: dict[str, Fact] = {**(environment() if tier == "full" else {}), **self.device.facts}
        self.facts: dict[str, Fact] = {}
        self.selection: tuple[str, ...] = ()
        self.begun = time.monotonic()
        self.started = _now()

    def run(self, fresh: bool, retune: bool, copies: bool, selection: tuple[str, ...], axes: Mapping[str, int]) -> Result:
        self.selection = (*selection, *(f"{name}={length}" for name, length in axes.items()))
        try:
            return self._result(*self._stages(fresh, retune, copies, selection, axes))
        except Rejected as error:
            verdict, message = error.verdict, error.message
        except timing.WrongWhenTimed as error:
            verdict, message = Verdict.INCORRECT, str(error)
        except timing.Lost as error:
            verdict, message = Verdict.EVALUATION_LOST, str(error)
        self.rows, self.geomean = [], None
        return self._result(verdict, message)

    def _stages(self, fresh: bool, retune: bool, copies: bool, selection: tuple[str, ...], axes: Mapping[str, int]) -> tuple[Verdict, str]:
        self.progress(Step("policy", "", 0, 1))
        check_policy(self.target, self.loaded, self.subject)
        plan = make_plan(self.loaded, self.subject, self.tier, self.seed, selection, axes)
        check_sound(self.loaded, self.oracle, self.pool, plan.checked, derive(self.seed, "sound"))
        with self.timer.meter.on("build"):
            self.contestant = prepare(self.target, self.loaded, self.subject, lambda row, rows: self.progress(Step("build", "", row, rows)))
        with self.timer.meter.on("correctness"):
            self._check_all(plan, self.contestant)
        self._sanitize()
        if not plan.timed:
            return Verdict.SLOWER, "right on the selected workloads; none of them is public, so nothing was timed"
        measurer = Measurer(
            target=self.target,
            loaded=self.loaded,
            timer=self.timer,
            chooser=Chooser(
                self.target,
                self.loaded,
                self.device,
                self.timer,
                state_folder(),
                renew=self.tier == "full",
                fresh=fresh,
                retune=retune,
            ),
            rival=self._rival(),
            effort=replace(timing.FULL, quads=self.device.quads) if self.tier == "full" else timing.SCREENING,
            copies=copies and self.tier == "full",
            progress=self.progress,
            environment=self.environment,
            facts=self.facts,
        )
        self.rows = measurer.rows(self.contestant, plan.timed, {one.row.workload: one.scales for one in self.checks})
        self.geomean = geomean_of(self.rows, self.loaded.spec.accept.confidence, derive(self.seed, "bootstrap"))
        impossible = [implausible(workload, self.device, row.median_ms / 1e3) for workload, row in zip(plan.timed, self.rows, strict=True)]
        if any(impossible):
            raise Rejected(Verdict.IMPLAUSIBLE, "; ".join(text for text in impossible if text))
        return decide(self.loaded.spec.accept, self.rows, self.geomean)

    def _check_all(self, plan: Plan, contestant: Contestant) -> None:
        """Check every workload. Raises `Rejected` at the first that fails, made small."""
        effort = correctness.FULL if self.tier == "full" else correctness.SCREENING
        effort = effort.only(contestant.placements)

        def check_one(workload: Workload) -> Check:
            seed = derive(self.seed, "check", workload.name)
            return check(self.loaded, self.oracle, self.pool, workload, contestant.reopen, seed, effort)

        for index, workload in enumerate(plan.checked):
            self.progress(Step("correctness", workload.name, index, len(plan.checked)))
            one = check_one(workload)
            self.checks.append(one)
            row = one.row
            if row.verdict is not Verdict.ACCEPTED:
                self.reproduction = reproduce_small(self.loaded, workload, one, check_one, self.where, self.seed)
                raise Rejected(row.verdict, f"{row.workload}: {row.message}")

    def _sanitize(self) -> None:
        """Have the machine's checking tools, if any, look at a candidate that was right. Raises `Rejected` for what they find."""
        asked = self.tier == "full" and not self.selection and self.loaded.spec.policy.sanitize
        if not asked or not isinstance(self.subject, Candidate) or not tools_of(self.target):
            return
        self.progress(Step("sanitizers", "", 0, 1))
        try:
            with self.timer.meter.on("sanitizers"):
                found = sanitize(self.target, self.loaded, self.subject, derive(self.seed, "sanitizers"))
        except FactoryError as error:
            self.environment["sanitizers"] = f"left out: {error}"
            return
        self.environment["sanitizers"] = found.summary(tools_of(self.target))
        wrong = found.wrong()
        if wrong is not None:
            raise wrong

    def _rival(self) -> Contestant | None:
        """The contestant to compare against, built; None for the baselines. Raises `Lost` when it cannot be judged itself."""
        if self.against == "baseline":
            return None
        folder = self.loaded.folder / "kernel" if self.against == "champion" else Path(self.against)
        other = read_candidate(folder, self.loaded.spec.policy)
        try:
            check_policy(self.target, self.loaded, other)
            built = prepare(self.target, self.loaded, other, lambda row, rows: self.progress(Step("build", "", row, rows)))
        except Rejected as error:
            raise timing.Lost(f"{self.against}, which is compared against, is refused: {error.verdict}: {error.message}") from error
        return built.called(self.against if self.against == "champion" else folder.name)

    def _result(self, verdict: Verdict, message: str) -> Result:
        contestant = self.contestant
        facts: dict[str, Fact] = {**(contestant.facts if contestant is not None else {}), **self.facts}
        facts |= {f"seconds for {what}": round(seconds, 2) for what, seconds in self.timer.meter.seconds.items()}
        return Result(
            spec=self.loaded.spec.id,
            identity=Identity(
                kernel_tree=tree_of(self.subject),
                spec_hash=self.loaded.spec_hash,
                harness=harness_hash(),
                binaries=contestant.binaries if contestant is not None else (),
            ),
            tier="screening" if self.selection else self.tier,
            verdict=verdict,
            message=_short(message),
            knobs=contestant.knobs if contestant is not None else (),
            seed=self.seed,
            started=self.started,
            seconds=time.monotonic() - self.begun,
            device=self.device.name,
            device_id=self.device.id,
            environment=self.environment,
            against=self.against if self.against in ("baseline", "champion") else Path(self.against).name,
            selection=self.selection,
            checks=tuple(one.row for one in self.checks),
            rows=tuple(self.rows),
            geomean=self.geomean,
            reproduction=self.reproduction,
            facts=facts,
        )


@contextmanager
def one_thread() -> Iterator[None]:
    """The judge computes with one thread: threads that wait for each other turn any neighbour on the machine into a long stall, and
    those that spin while they wait would disturb what is timed."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _short(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE else message[:MAX_MESSAGE] + " …"
