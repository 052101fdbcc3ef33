"""`kernel-result/v1`: everything that one evaluation produced, as it is written to `result.json`."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runner.errors import FactoryError
from runner.manifest import KnobValue
from runner.verdict import Verdict

Interval = tuple[float, float]
Fact = str | int | float


class Record(BaseModel):
    """The base of what the judge writes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Identity(Record):
    """What was judged: the git tree of `kernel/`, the hash of the spec without it, the hash of the harness, and the binaries."""

    kernel_tree: str
    spec_hash: str
    harness: str
    binaries: tuple[str, ...] = ()


class CheckRow(Record):
    """Correctness on one workload. `max_ulp` and `norm` are the worst over its calls; None where nothing could be compared."""

    workload: str
    kind: Literal["public", "edge", "hidden"]
    axes: dict[str, int]
    verdict: Verdict
    max_ulp: float | None = None
    norm: float | None = None
    message: str = ""


class BaselineRow(Record):
    name: str
    config: str
    median_ms: float


class CopyRow(Record):
    """The strongest of the tuned copies of the same bytes: `share` is its time over the kernel's (1 is as fast as the copy)."""

    name: str
    median_ms: float
    share: float


class Samples(Record):
    """Raw block times in seconds a call: one list a process, in the order taken, candidate and baseline. `calls` is how many calls
    a block has; `order` is each process's pattern of blocks, such as `ABBABAAB` (A is the candidate)."""

    calls: int
    candidate: tuple[tuple[float, ...], ...]
    baseline: tuple[tuple[float, ...], ...]
    order: tuple[str, ...]


class TimingRow(Record):
    """One timed workload. `speedup` is baseline over candidate; `interval` its bootstrap interval at the spec's confidence;
    `aa` the baseline against itself in the same run; `roofline` the floor over the kernel's time; `error` the row's `norm`."""

    workload: str
    axes: dict[str, int]
    dtype: str
    verdict: Verdict
    error: float | None
    median_ms: float
    baseline: BaselineRow
    speedup: float
    interval: Interval
    aa: float
    noisy: bool
    roofline: float
    copy_: CopyRow | None = Field(alias="copy")
    samples: Samples


class Geomean(Record):
    """Over all timed workloads. `aa` is the geometric mean of the rows' A/A comparisons."""

    speedup: float
    interval: Interval
    aa: float = 1.0


class Reproduction(Record):
    """The first failing workload, made small: a command that shows the failure again, and one wrong element of it."""

    workload: str
    axes: dict[str, int]
    command: str
    index: tuple[int, ...] | None = None
    output: str | None = None
    actual: str | None = None
    expected: str | None = None


class Result(Record):
    """One evaluation. `rows` and `geomean` are there only when every check passed. `seed` draws all inputs and hidden workloads again.
    `selection` names the workloads when only some were asked for: such a result is for whoever works on the kernel, not to be published."""

    schema_: Literal["kernel-result/v1"] = Field(default="kernel-result/v1", alias="schema")
    spec: str
    identity: Identity
    tier: Literal["screening", "full"]
    verdict: Verdict
    message: str
    knobs: tuple[dict[str, KnobValue], ...]
    seed: int
    started: str
    seconds: float
    device: str
    device_id: str
    environment: dict[str, Fact]
    against: str = "baseline"
    selection: tuple[str, ...] = ()
    checks: tuple[CheckRow, ...] = ()
    rows: tuple[TimingRow, ...] = ()
    geomean: Geomean | None = None
    reproduction: Reproduction | None = None
    facts: dict[str, Fact] = {}


MAX_RESULT_BYTES = 16 << 20


def write_result(result: Result, path: Path) -> None:
    """Write `result.json` at once or not at all. Raises `FactoryError` where that is impossible."""
    text = result.model_dump_json(by_alias=True, indent=1)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text + "\n", encoding="utf-8")
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise FactoryError(f"{path}: cannot be written: {error.strerror}") from error


def load_result(path: Path) -> Result:
    """Read a `result.json`. Raises `FactoryError` for what is no result of this schema, or too large to be one."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_RESULT_BYTES + 1)
    except OSError as error:
        raise FactoryError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > MAX_RESULT_BYTES:
        raise FactoryError(f"{path}: larger than {MAX_RESULT_BYTES} bytes, which no result is")
    try:
        return Result.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole file"
        more = f" (and {error.error_count() - 1} more faults)" if error.error_count() > 1 else ""
        raise FactoryError(f"{path}: not a kernel-result/v1: {place}: {first['msg']}{more}") from error
