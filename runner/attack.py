"""Attacks the judge: every case of the adversarial suite as it is written and as an unseen variant, and every honest control.

A case is caught when its outcome is one that it expects, its message says why, and nothing that the judge says holds the planted
secret. Cases that are accepted are false accepts; controls that get a fault verdict are false rejects. Both must be none.
"""

from __future__ import annotations

import json
import os
import random
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from runner.attack_canaries import Canaries, planted
from runner.attack_cases import Case, CaseFile, Control, Outcome, read_cases, read_controls
from runner.attack_results import outcome_of_edit
from runner.attack_variants import write_candidate_of
from runner.candidate import read_candidate
from runner.contestant import check_policy, prepare
from runner.errors import FactoryError
from runner.identity import harness_hash
from runner.inputs import derive
from runner.judge import judge
from runner.plan import Tier
from runner.report import markdown
from runner.result import Result
from runner.spec.load import LoadedSpec, load_spec
from runner.targets.protocol import Target

Say = Callable[[str], None]
MAX_MESSAGE = 600
SPARED_CORES = 4
PASSES = ("accepted", "slower")


class CaseRow(BaseModel):
    """How one candidate of one case ended. `candidate` is `as written` or what was varied."""

    model_config = ConfigDict(populate_by_name=True)

    class_: int = Field(alias="class")
    name: str
    candidate: str
    expected: tuple[Outcome, ...]
    verdict: Outcome | str
    message: str
    caught: bool
    seconds: float


class ControlRow(BaseModel):
    """How one honest control ended."""

    name: str
    verdict: str
    message: str
    passed: bool
    seconds: float


class AttackReport(BaseModel):
    """What `kernel-runner attack` writes. `seed` draws the same variants and inputs again; `not_run` counts what an interrupt left out."""

    device: str
    harness: str
    seed: int
    cases: tuple[CaseRow, ...]
    controls: tuple[ControlRow, ...]
    false_accepts: int
    false_rejects: int
    not_run: int = 0

    @property
    def summary(self) -> str:
        """`caught N/N · controls passed M/M`."""
        caught, passed = sum(row.caught for row in self.cases), sum(row.passed for row in self.controls)
        left = f" · not run {self.not_run}" if self.not_run else ""
        return f"caught {caught}/{len(self.cases)} · controls passed {passed}/{len(self.controls)}{left}"

    @property
    def clean(self) -> bool:
        """Whether nothing was missed or left out."""
        return self.false_accepts == 0 and self.false_rejects == 0 and self.not_run == 0


@dataclass(frozen=True)
class _Ended:
    outcome: str
    message: str
    seconds: float
    said: str = ""
    result: Result | None = None


def run_suite(
    target: Target,
    suite: Path,
    specs: Path,
    out: Path | None = None,
    seed: int | None = None,
    progress: Say = print,
    *,
    only: str = "",
    variants: int = 1,
    as_written: bool = True,
) -> AttackReport:
    """Run the suite in the folder `suite` (`tests/adversarial/<target>`) and report.

    Specs are looked for beside the suite (`../specs`) and then in `specs`. `only` is a pattern that the names of cases and
    controls must match; `variants` is how many are drawn of each case, besides the one `as_written`. Raises `FactoryError` for a
    suite that can't be read.
    """
    used = secrets.randbits(40) if seed is None else seed
    attack = _Attack(target, suite, specs, used, progress)
    wanted = re.compile(only)
    cases = [case for case in read_cases(suite) if wanted.search(case.name)]
    controls = [control for control in read_controls(suite) if wanted.search(control.name)]
    with planted() as canaries, tempfile.TemporaryDirectory(prefix="attack-") as folder:
        attack.build_ahead(controls, cases, canaries, Path(folder), range(not as_written, variants + 1))
        control_rows: list[ControlRow] = []
        case_rows: list[CaseRow] = []
        with suppress(KeyboardInterrupt):  # what was judged until then is reported; what was not is counted
            for case in cases:
                case_rows += attack.case(case, canaries, Path(folder), range(not as_written, variants + 1))
            for control in controls:
                control_rows.append(attack.control(control))
    done = {row.name for row in case_rows} | {row.name for row in control_rows}
    report = AttackReport(
        device=target.device().name,
        harness=harness_hash(),
        seed=used,
        cases=tuple(case_rows),
        controls=tuple(control_rows),
        false_accepts=sum(not row.caught for row in case_rows),
        false_rejects=sum(not row.passed for row in control_rows),
        not_run=sum(name not in done for name in (*(case.name for case in cases), *(control.name for control in controls))),
    )
    if out is not None:
        out.write_text(json.dumps(report.model_dump(by_alias=True), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    progress(report.summary + ("" if report.clean else f" · seed {used}"))
    return report


def missed(case: CaseFile, outcome: str, message: str, said: str, secret: str) -> str:
    """Why this end of a case counts as a miss; empty when it was caught. `said` is all that the judge published."""
    if secret in said:
        return "the judge's words hold the planted secret"
    if outcome not in case.expected:
        return message or "no message"
    if case.says and not re.search(case.says, message, re.IGNORECASE):
        return f"the message does not match `{case.says}`: {message}"
    return ""


class _Attack:
    """One run of the suite."""

    def __init__(self, target: Target, suite: Path, specs: Path, seed: int, progress: Say) -> None:
        self.target = target
        self.suite = suite
        self.specs = specs
        self.seed = seed
        self.say = progress
        self.honest: tuple[Result, Path] | None = None
        self.loaded: dict[str, LoadedSpec] = {}

    def control(self, control: Control) -> ControlRow:
        loaded = self._spec(control.file.spec)
        kernel = self._kernel_of(control)
        ended = self._judged(loaded, kernel, control.file.tier, derive(self.seed, control.name))
        if ended.result is not None and ended.result.rows and not control.file.spec:
            self.honest = self.honest or (ended.result, kernel)
        row = ControlRow(
            name=control.name,
            verdict=ended.outcome,
            message=ended.message[:MAX_MESSAGE],
            passed=ended.outcome in PASSES,
            seconds=ended.seconds,
        )
        self.say(_line("passed", row.passed, f"control {row.name}", row))
        return row

    def _kernel_of(self, control: Control) -> Path:
        return self.specs.absolute().parent / control.file.kernel if control.file.kernel else control.folder / "kernel"

    def build_ahead(self, controls: Sequence[Control], cases: Sequence[Case], canaries: Canaries, folder: Path, indices: range) -> None:
        """Build everything once before anything is judged, on the cores that the machine can spare: builds are kept."""
        spare = (os.cpu_count() or 1) - SPARED_CORES
        if spare < 2:
            return
        _building.append(self)
        with ProcessPoolExecutor(spare, mp_context=get_context("fork")) as pool:
            for control in controls:
                pool.submit(_build, control.file.spec, self._kernel_of(control))
            for case in cases:
                plain = case.file.kind == "candidate" and not (case.folder / "spec").is_dir()
                for index in indices if plain else ():
                    kernel = folder / "ahead" / case.name / str(index)
                    word = derive(self.seed, case.name, index)
                    write_candidate_of(case, kernel, canaries.words, random.Random(word) if index else None)
                    pool.submit(_build, case.file.spec, kernel)
        _building.remove(self)

    def build(self, spec: str, kernel: Path) -> None:
        """Build a candidate. Whatever is wrong with it is found when it is judged."""
        with suppress(Exception):
            loaded = self._spec(spec)
            candidate = read_candidate(kernel, loaded.spec.policy)
            check_policy(self.target, loaded, candidate)
            prepare(self.target, loaded, candidate, lambda row, rows: None)

    def case(self, case: Case, canaries: Canaries, folder: Path, indices: range) -> list[CaseRow]:
        """A row for each candidate of the case: 0 is as written, the others are variants."""
        if case.file.kind == "result":
            return [self._row(case, "as written", self._edited(case), canaries)]
        rows = []
        for index in indices:
            word = derive(self.seed, case.name, index)
            kernel = folder / case.name / str(index)
            told = write_candidate_of(case, kernel, canaries.words, random.Random(word) if index else None)
            rows.append(self._row(case, told, self._tried(case, kernel, word), canaries))
        return rows

    def _row(self, case: Case, told: str, ended: _Ended, canaries: Canaries) -> CaseRow:
        why = missed(case.file, ended.outcome, ended.message, ended.message + ended.said, canaries.secret)
        caught, message = not why, why or ended.message
        row = CaseRow(
            class_=case.number,
            name=case.name,
            candidate=told,
            expected=case.file.expected,
            verdict=ended.outcome,
            message=message[:MAX_MESSAGE],
            caught=caught,
            seconds=ended.seconds,
        )
        self.say(_line("caught", caught, f"{case.name} ({told})", row))
        return row

    def _tried(self, case: Case, kernel: Path, seed: int) -> _Ended:
        own = case.folder / "spec"
        try:
            loaded = load_spec(own) if own.is_dir() else self._spec(case.file.spec)
        except FactoryError as error:
            return _Ended("refused", str(error), 0.0)
        return self._judged(loaded, kernel, case.file.tier, seed)

    def _judged(self, loaded: LoadedSpec, kernel: Path, tier: Tier, seed: int) -> _Ended:
        begun = time.monotonic()

        def ended(outcome: str, message: str, said: str = "", result: Result | None = None) -> _Ended:
            return _Ended(outcome, message, round(time.monotonic() - begun, 2), said, result)

        try:
            candidate = read_candidate(kernel, loaded.spec.policy)
        except FactoryError as error:
            return ended("policy_violation", str(error))
        try:
            result = judge(loaded, candidate, self.target, tier=tier, seed=seed, copies=False)
        except FactoryError as error:
            return ended("refused", str(error))
        except Exception as error:  # noqa: BLE001 - a judge that a candidate can crash is a miss of this case, and the others still run
            return ended("crash of the judge", f"{type(error).__name__}: {error}")
        return ended(result.verdict.value, result.message, result.model_dump_json() + markdown(result), result)

    def _edited(self, case: Case) -> _Ended:
        """What becomes of a true result (of the first control that was timed) once it is edited."""
        if self.honest is None:
            self.control(next(control for control in read_controls(self.suite) if control.name == "plain-scalar"))
        if self.honest is None:
            return _Ended("no result", "the control `plain-scalar` was not timed, so there is no result to edit", 0.0)
        result, kernel = self.honest
        loaded = self._spec(case.file.spec)
        outcome, message = outcome_of_edit(result, case.file.model_copy(update={"edit": (), "recompute": False}), loaded, kernel)
        if outcome == "refused":
            return _Ended("no result", f"the true result is refused already: {message}", 0.0)
        outcome, message = outcome_of_edit(result, case.file, loaded, kernel)
        return _Ended(outcome, message, 0.0)

    def _spec(self, named: str) -> LoadedSpec:
        name = named or f"rmsnorm-small-{self.suite.name}"
        if name not in self.loaded:
            beside = self.suite.parent / "specs" / name
            self.loaded[name] = load_spec(beside if beside.is_dir() else self.specs / name)
        return self.loaded[name]


_building: list[_Attack] = []
"""The attack whose builders are processes forked from this one: it need not be sent to them."""


def _build(spec: str, kernel: Path) -> None:
    _building[-1].build(spec, kernel)


def _line(good: str, is_good: bool, what: str, row: CaseRow | ControlRow) -> str:
    """One line of progress; a miss says why."""
    end = f"{what}: {row.verdict}, {row.seconds:.1f} s"
    return f"{good}  {end}" if is_good else f"MISSED  {end}: {row.message}"
