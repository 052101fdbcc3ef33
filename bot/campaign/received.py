"""What a run sent back, opened and checked before anything of it is believed: of this run, this request, this spec, this judge."""

from __future__ import annotations

import io
import json
import math
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from bot.campaign.state import Entry
from bot.evidence import space
from runner.batch_form import ANSWER_NAME, Answer, Answered
from runner.candidate import Candidate, with_knobs
from runner.result import Result
from runner.spec.load import LoadedSpec
from runner.tuning import Trial
from runner.verdict import Verdict

MAX_ARTIFACT_BYTES = 64 << 20
MAX_ANSWER_BYTES = 256 << 20
TIMED = (Verdict.ACCEPTED, Verdict.SLOWER)
Contradictions = Callable[[LoadedSpec, Candidate, Result], Sequence[str]]


class Lost(Exception):
    """A run gave no evaluation that counts, and why; the entries may be tried again. `seconds` is what it took of the device."""

    def __init__(self, why: str, seconds: float = 0.0) -> None:
        self.seconds = seconds
        super().__init__(why)


@dataclass(frozen=True)
class Asked:
    """An entry that was asked for, its candidate, and how many of its experiments were recorded by then."""

    entry: Entry
    candidate: Candidate
    offset: int = 0


def contradictions(spec: LoadedSpec, candidate: Candidate, result: Result) -> Sequence[str]:
    """How a timed result contradicts its own samples, or leaves out what its spec and seed ask for. Imports the judge's statistics."""
    from runner.reproduce import own_differences, spec_differences

    return own_differences(result, spec.spec.accept) or spec_differences(result, spec, candidate)


def opened(artifact: bytes) -> Answer:
    """The answer in an artifact's zip file. Raises `Lost`."""
    try:
        with zipfile.ZipFile(io.BytesIO(artifact)) as archive:
            (entry,) = [found for found in archive.infolist() if found.filename == ANSWER_NAME]
            with archive.open(entry) as file:
                data = file.read(MAX_ANSWER_BYTES + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise Lost(f"the artifact is no zip file that can be read: {error}") from error
    except ValueError as error:
        raise Lost(f"the artifact has no {ANSWER_NAME}, or several") from error
    if len(data) > MAX_ANSWER_BYTES:
        raise Lost(f"{ANSWER_NAME} is larger than {MAX_ANSWER_BYTES} bytes")
    try:
        json.loads(data, parse_constant=_no_number, parse_float=_finite)
        return Answer.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole file"
        raise Lost(f"{ANSWER_NAME} is no kernel-batch-answer/v1: {place}: {first['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise Lost(f"{ANSWER_NAME} is not JSON: {error}") from error


def check_answer(
    answer: Answer,
    *,
    request: str,
    run: str,
    harness: str,
    spec: LoadedSpec,
    asked: Mapping[str, Asked],
    doubts: Contradictions = contradictions,
) -> None:
    """Raises `Lost` unless the answer is about this request (its SHA-256), from this run, and of the identity that was asked for.

    `asked` are the entries by key, in the order of the request. Which device answered is for the caller to compare.
    """
    if answer.request != request or answer.run != run:
        raise Lost("the artifact is of another request or another run")
    if answer.harness != harness and (answer.entries or not answer.lost):
        raise Lost(f"another harness judged: {answer.harness[:16]}, wanted was {harness[:16]}")
    if not answer.complete:
        raise Lost("the batch was ended before it was done")
    keys = [entry.key for entry in answer.entries]
    if keys != list(asked)[: len(keys)] or (len(keys) != len(asked) and not answer.lost):
        raise Lost("the answer's entries are not those of the request")
    for entry in answer.entries:
        wrong = _wrong(entry, asked[entry.key], harness, answer.device, spec, doubts)
        if wrong:
            raise Lost(f"{entry.key}: {wrong}")


def _wrong(answered: Answered, asked: Asked, harness: str, device: str, spec: LoadedSpec, doubts: Contradictions) -> str:
    """What is wrong with what came of one entry; empty where nothing is."""
    tuning = asked.entry.tuning
    if tuning is not None:
        if answered.result is not None or len(answered.trials) > tuning.trials - asked.offset:
            return "not the trials that were asked for"
        return next((wrong for trial in answered.trials if (wrong := _wrong_trial(trial, asked.candidate))), "")
    if answered.trials:
        return "trials, where a result was asked for"
    result = answered.result
    if result is None:
        return ""
    identity, entry = result.identity, asked.entry
    pairs = [
        ("kernel tree", identity.kernel_tree, entry.tree),
        ("spec's hash", identity.spec_hash, spec.spec_hash),
        ("harness", identity.harness, harness),
        ("spec", result.spec, spec.spec.id),
        ("tier", result.tier, entry.tier),
        ("side", result.against, entry.against),
        ("device", result.device, device),
        ("selection", " ".join(result.selection), ""),
    ]
    for what, there, wanted in pairs:
        if there != wanted:
            return f"the {what} is {there[:64]!r}, asked for was {wanted!r}"
    if (result.verdict in TIMED) != (result.geomean is not None and bool(result.rows)):
        return f"{result.verdict}, and {len(result.rows)} timed rows"
    found = doubts(spec, asked.candidate, result) if result.rows else ()
    return "; ".join(found)


def _wrong_trial(trial: Trial, candidate: Candidate) -> str:
    if not space.contains(candidate, trial.knobs):
        return f"{dict(trial.knobs)!r} is no point of the space"
    if with_knobs(candidate, trial.knobs).tree != trial.kernel_tree:
        return f"the kernel tree is {trial.kernel_tree[:64]!r}, which {dict(trial.knobs)!r} does not make"
    if (trial.verdict in TIMED) != (trial.speedup is not None):
        return f"{trial.verdict} with the speed-up {trial.speedup}"
    if (trial.speedup is not None and not trial.speedup > 0) or not trial.seconds >= 0:
        return "a speed-up or a time that can't be"
    return ""


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number here")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large")
    return value
