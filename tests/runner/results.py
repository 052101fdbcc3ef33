"""Results for tests of what reads them: made of samples, through the same functions as the judge's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from runner.decision import decide
from runner.measure import geomean_of
from runner.result import BaselineRow, CheckRow, CopyRow, Identity, Result, Samples, TimingRow
from runner.spec.models import Accept
from runner.statistics import Blocks, estimate, median_seconds
from runner.verdict import Verdict


def make_row(workload: str = "64x256", ratio: float = 1.5, *, noise: float = 0.002, seed: int = 1, **changes: Any) -> TimingRow:
    """A row of three processes with two quads each, whose samples have this ratio."""
    generator = np.random.default_rng(seed)

    def times(level: float) -> tuple[tuple[float, ...], ...]:
        return tuple(tuple(level * math.exp(noise * generator.normal()) for _ in range(4)) for _ in range(3))

    blocks = Blocks(times(1e-3), times(1e-3 * ratio), ("ABBABAAB",) * 3)
    found = estimate(blocks, 0.95, 1)
    row: dict[str, Any] = {
        "workload": workload,
        "axes": {"rows": 64, "cols": 256},
        "dtype": "float32",
        "verdict": Verdict.ACCEPTED,
        "error": 4.5e-8,
        "median_ms": median_seconds(blocks.candidate) * 1e3,
        "baseline": BaselineRow(name="torch", config="compiled", median_ms=median_seconds(blocks.baseline) * 1e3),
        "speedup": found.speedup,
        "interval": found.interval,
        "aa": found.aa,
        "noisy": found.noisy,
        "roofline": 0.4,
        "copy": CopyRow(name="memcpy", median_ms=0.9, share=0.9),
        "samples": Samples(calls=9, candidate=blocks.candidate, baseline=blocks.baseline, order=blocks.order),
    }
    return TimingRow(**(row | changes))


def make_result(rows: tuple[TimingRow, ...] | None = None, accept: Accept = Accept(), **changes: Any) -> Result:  # noqa: B008 - frozen
    """A result that follows from its rows."""
    rows = (make_row("64x256", 1.5, seed=1), make_row("8x4096", 1.2, seed=2)) if rows is None else rows
    geomean = geomean_of(rows, accept.confidence, 1) if rows else None
    verdict, message = decide(accept, rows, geomean) if geomean is not None else (Verdict.INCORRECT, "y[0] is 1, expected 2")
    fields: dict[str, Any] = {
        "spec": "scale-cpu",
        "identity": Identity(kernel_tree="a" * 40, spec_hash="b" * 64, harness="c" * 64, binaries=("d" * 64,)),
        "tier": "full",
        "verdict": verdict,
        "message": message,
        "knobs": ({"unroll": 4, "isa": "x86-64-v3"},),
        "seed": 7,
        "started": "2026-11-30T12:00:00+00:00",
        "seconds": 12.5,
        "device": "A processor (2 cores)",
        "device_id": "cpu-1",
        "environment": {"torch": "2.13.0", "cores": 2},
        "checks": (CheckRow(workload="64x256", kind="public", axes={}, verdict=Verdict.ACCEPTED, max_ulp=1.5, norm=4e-8),),
        "rows": rows,
        "geomean": geomean,
    }
    return Result(**(fields | changes))
