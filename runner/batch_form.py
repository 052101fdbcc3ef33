"""What is exchanged about a batch: the request that a benchmark machine is given, and its answer, each as one JSON file."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import runner
from runner.errors import FactoryError
from runner.files import read_regular
from runner.identity import harness_hash
from runner.result import Result
from runner.tuning import Trial

REQUEST_NAME, ANSWER_NAME, CANDIDATES = "request.json", "batch.json", "candidates"
MAX_REQUEST_BYTES = 32 << 20
MAX_ENTRIES = 1000

Tree = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Strategy = Literal["tpe", "local", "random"]
Tier = Literal["screening", "full"]


class Form(BaseModel):
    """The base of what is exchanged. Numbers are finite, unknown fields are faults."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Search(Form):
    """A search over an entry's knobs. `prior` is what is known from elsewhere, `recorded` the first trials of this same search."""

    strategy: Strategy
    trials: Annotated[int, Field(ge=1)]
    seed: int
    prior: tuple[Trial, ...] = ()
    recorded: tuple[Trial, ...] = ()


class Asked(Form):
    """One candidate: its files lie in `candidates/<tree>` beside the request. `key` is the asker's name for it."""

    key: str
    tree: Tree
    tier: Tier = "screening"
    against: Literal["baseline", "champion"] = "baseline"
    fresh: bool = False
    search: Search | None = None


class Request(Form):
    """A batch for one spec. No evaluation begins once it has used `seconds` of the device. Without entries only the device is named."""

    schema_: Literal["kernel-batch/v1"] = Field(default="kernel-batch/v1", alias="schema")
    version: str
    harness: Sha256
    spec: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=100)]
    spec_hash: Sha256
    champion: Tree | None = None
    seconds: Annotated[float, Field(ge=0)]
    entries: Annotated[tuple[Asked, ...], Field(max_length=MAX_ENTRIES)] = ()


class Answered(Form):
    """What came of one entry: its result, or its search's new trials; or why its evaluation is lost. None of it where no time was left."""

    key: str
    result: Result | None = None
    trials: tuple[Trial, ...] = ()
    lost: str = ""


class Answer(Form):
    """What came of a batch. `request` is the SHA-256 of the request's file, `run` who executed it. `lost` says why nothing is judged."""

    schema_: Literal["kernel-batch-answer/v1"] = Field(default="kernel-batch-answer/v1", alias="schema")
    request: str
    run: str
    version: str
    harness: str
    device: str = ""
    lost: str = ""
    complete: bool = False
    entries: tuple[Answered, ...] = ()


def read_request(path: Path) -> tuple[Request | str, str]:
    """The request and the SHA-256 of its file; or what stands against it here, where it wants another version or harness than this one.

    These two are read first: what another version writes may not be a request of this one. Raises `FactoryError` for what is no batch.
    """
    try:
        data = read_regular(path, MAX_REQUEST_BYTES + 1)
    except OSError as error:
        raise FactoryError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > MAX_REQUEST_BYTES:
        raise FactoryError(f"{path}: larger than {MAX_REQUEST_BYTES} bytes, which no batch is")
    sha = hashlib.sha256(data).hexdigest()
    try:
        wanted = _Wanted.model_validate_json(data)
        mismatch = handshake(wanted.version, wanted.harness)
        return mismatch or Request.model_validate_json(data), sha
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole file"
        raise FactoryError(f"{path}: not a kernel-batch/v1: {place}: {first['msg']}") from error


def handshake(version: str, harness: str) -> str:
    """What is wrong with a wanted version and harness, and the remedy; empty where they are this machine's."""
    if (version, harness) == (runner.__version__, harness_hash()):
        return ""
    return (
        f"this machine has kernel-runner {runner.__version__} with the harness {harness_hash()[:16]}, and {version[:40]} with "
        f"{harness[:16]} is wanted: install the same version of kernel-factory on the benchmark machine and where the bot runs"
    )


class _Wanted(BaseModel):
    """The two fields that a request of every version has."""

    version: str
    harness: str
