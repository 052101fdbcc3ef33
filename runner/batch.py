"""Judges or tunes every entry of a batch (a round) in its order, and writes one JSON of what came of each.

Whoever asks says which version and harness it wants and which spec it means: where they differ nothing is judged, and the answer says
why and what to do. A bad candidate never fails the batch, and neither does a machine that can't judge: both are in the answer.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import runner
from runner.batch_form import ANSWER_NAME, CANDIDATES, Answer, Answered, Asked, Request, Search, Strategy, Tier, read_request
from runner.candidate import Candidate, read_candidate
from runner.errors import FactoryError
from runner.identity import harness_hash, source_hash
from runner.progress import Progress, silent
from runner.result import Result
from runner.spec.load import LoadedSpec, load_spec
from runner.spec.models import Policy
from runner.tuning import Trial


class Bench(Protocol):
    """The judge of this machine, as a batch uses it."""

    def judge(self, spec: LoadedSpec, candidate: Candidate, *, tier: Tier, against: str, fresh: bool, progress: Progress) -> Result:
        """Judge a candidate; never raises for a bad one."""

    def tune(
        self,
        spec: LoadedSpec,
        candidate: Candidate,
        *,
        strategy: Strategy,
        trials: int,
        seed: int,
        prior: Sequence[Trial],
        recorded: Sequence[Trial],
        on_trial: Callable[[int, Trial], None],
    ) -> None:
        """Search a candidate's knobs. What `on_trial` raises ends it."""


class TargetBench:
    """The target that a spec names. It is imported when it is first needed: it brings torch."""

    def judge(self, spec: LoadedSpec, candidate: Candidate, *, tier: Tier, against: str, fresh: bool, progress: Progress) -> Result:
        from runner.judge import judge
        from runner.targets.registry import target_for

        return judge(spec, candidate, target_for(spec.spec), tier=tier, against=against, fresh=fresh, progress=progress)

    def tune(self, spec: LoadedSpec, candidate: Candidate, **asked: Any) -> None:
        from runner.targets.registry import target_for
        from runner.tuning import tune

        tune(spec, candidate, target_for(spec.spec), **asked)


def device_name(spec: LoadedSpec) -> str:
    """The name of the device that this machine judges the spec on. Raises `FactoryError` where it can't."""
    from runner.targets.registry import target_for

    return target_for(spec.spec).device().name


def run_batch(
    path: Path,
    specs: Path,
    out: Path,
    *,
    run: str = "",
    bench: Bench | None = None,
    device: Callable[[LoadedSpec], str] = device_name,
    say: Callable[[str], None] = lambda _: None,
) -> Answer:
    """Do what the request at `path` asks, with the specs of the folder `specs`, and write `out/batch.json`, anew after each evaluation.

    Raises `FactoryError` only for a file that is no request and for an answer that can't be written.
    """
    request, sha = read_request(path)
    writer = _Writer(out, Answer(request=sha, run=run, version=runner.__version__, harness=harness_hash()))
    try:
        if isinstance(request, str):
            raise FactoryError(request)
        spec = _spec_of(request, specs)
        writer.keep(device=device(spec))
        _Batch(request, spec, path.parent / CANDIDATES, bench or TargetBench(), writer, say).run()
    except FactoryError as error:
        writer.keep(lost=str(error))
        say(f"nothing more is judged: {error}")
    writer.keep(complete=True)
    return writer.answer


def _spec_of(request: Request, specs: Path) -> LoadedSpec:
    """The spec as it lies in the folder, when it is the one that is meant."""
    spec = load_spec(specs / request.spec)
    if spec.spec_hash != request.spec_hash:
        raise FactoryError(
            f"the spec {request.spec} was changed: its hash is {spec.spec_hash[:16]}, the batch is about {request.spec_hash[:16]}"
        )
    if any(entry.against == "champion" for entry in request.entries):
        there = read_candidate(spec.folder / "kernel", spec.spec.policy).tree
        if there != request.champion:
            raise FactoryError(f"the champion was changed: its tree is {there}, the batch is about {request.champion}")
    return spec


class _Spent(Exception):
    """The batch's time on the device is used up: ends a search between two trials."""


class _Writer:
    """Keeps the answer on disk as it grows, whole at every moment."""

    def __init__(self, folder: Path, answer: Answer) -> None:
        self.folder = folder
        self.answer = answer

    def keep(self, **changes: Any) -> None:
        self.answer = self.answer.model_copy(update=changes)
        part = self.folder / f".{ANSWER_NAME}.{os.getpid()}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            part.write_text(self.answer.model_dump_json(by_alias=True) + "\n", encoding="utf-8")
            part.replace(self.folder / ANSWER_NAME)
        except OSError as error:
            raise FactoryError(f"{self.folder}: the answer cannot be written: {error.strerror}") from error


class _Batch:
    """The entries of one request, in their order."""

    def __init__(
        self, request: Request, spec: LoadedSpec, candidates: Path, bench: Bench, writer: _Writer, say: Callable[[str], None]
    ) -> None:
        self.request = request
        self.spec = spec
        self.candidates = candidates
        self.bench = bench
        self.writer = writer
        self.say = say
        self.used = 0.0
        # What the batch's searches have found so far, by source: a later one over the same space need not try it again.
        self.found: dict[str, list[Trial]] = defaultdict(list)
        self.done: list[Answered] = []

    def run(self) -> None:
        for number, entry in enumerate(self.request.entries):
            self.say(f"{number + 1} of {len(self.request.entries)}: {entry.key}")
            try:
                candidate = self._candidate(entry, self.spec.spec.policy)
            except FactoryError as error:
                self._keep(Answered(key=entry.key, lost=str(error)))
                continue
            if entry.search is None:
                self._judge(entry, candidate)
            else:
                self._tune(entry, entry.search, candidate, self.found[source_hash(candidate)])

    def _judge(self, entry: Asked, candidate: Candidate) -> None:
        if self.spent:
            self._keep(Answered(key=entry.key))
            return
        result = self.bench.judge(self.spec, candidate, tier=entry.tier, against=entry.against, fresh=entry.fresh, progress=silent)
        self.used += result.seconds
        self._keep(Answered(key=entry.key, result=result))

    def _tune(self, entry: Asked, search: Search, candidate: Candidate, found: list[Trial]) -> None:
        trials: list[Trial] = []

        def on_trial(_: int, trial: Trial) -> None:
            trials.append(trial)
            self.used += trial.seconds
            self.writer.keep(entries=(*self.done, Answered(key=entry.key, trials=tuple(trials))))
            if self.spent:
                raise _Spent

        if not self.spent:
            with suppress(_Spent):
                self.bench.tune(
                    self.spec,
                    candidate,
                    strategy=search.strategy,
                    trials=search.trials,
                    seed=search.seed,
                    prior=(*search.prior, *found),
                    recorded=search.recorded,
                    on_trial=on_trial,
                )
        found += [*search.recorded, *trials]
        self._keep(Answered(key=entry.key, trials=tuple(trials)))

    @property
    def spent(self) -> bool:
        return self.used >= self.request.seconds

    def _candidate(self, entry: Asked, policy: Policy) -> Candidate:
        candidate = read_candidate(self.candidates / entry.tree, policy)
        if candidate.tree != entry.tree:
            raise FactoryError(f"the files of {entry.key} have the tree {candidate.tree}, asked for was {entry.tree}")
        return candidate

    def _keep(self, answered: Answered) -> None:
        self.done.append(answered)
        self.writer.keep(entries=tuple(self.done))


def summary(answer: Answer) -> str:
    """A batch in Markdown, for people who look at its run."""
    from runner.decision import interval_text
    from runner.report import markdown, prose, text

    lines = [f"## {len(answer.entries)} entries on {text(answer.device or 'an unknown device')}"]
    if answer.lost:
        lines += ["", prose(answer.lost)]
    if answer.entries:
        lines += ["", "| entry | verdict | speed-up |", "|---|---|--:|"]
    full = []
    for entry in answer.entries:
        result, timed = entry.result, [trial for trial in entry.trials if trial.speedup is not None]
        verdict, speedup = (text(entry.lost) if entry.lost else "no time was left"), ""
        if result is not None:
            verdict = result.verdict.value
            full.append(markdown(result))
            if result.geomean is not None:
                speedup = f"{result.geomean.speedup:.3f} {interval_text(result.geomean.interval)}"
        elif entry.trials:
            verdict = f"{len(entry.trials)} trials, {len(timed)} timed"
            speedup = f"{max(trial.speedup or 0.0 for trial in timed):.3f}" if timed else ""
        lines.append(f"| {text(entry.key)} | {verdict} | {speedup} |")
    return "\n".join(lines) + "\n\n" + "\n".join(full)
