"""Small specs for tests, written into a folder and loaded as a person's would be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.spec.load import LoadedSpec, load_spec

SPEC = """\
schema: kernel-spec/v1
id: scale-cpu
title: Rows scaled and shifted
axes:
  rows: {type: var, min: 0, max: 100000}
  cols: {type: var, min: 1, max: 100000}
scalars:
  factor: {dtype: float32, value: 0.1}
inputs:
  x: {dtype: float32, shape: [rows, cols], init: {kind: normal, row_scale: [0.5, 2]}}
  shift: {dtype: float32, shape: [cols], init: {kind: uniform, low: -1, high: 1}}
outputs:
  y: {dtype: float32, shape: [rows, cols]}
reference: reference.py:scale
independent: [rows]
workloads:
  public:
    - {name: small, axes: {rows: 64, cols: 256}}
    - {name: large, axes: {rows: 1024, cols: 1024}}
  edge:
    - {name: no rows, axes: {rows: 0, cols: 8}}
    - {name: odd, axes: {rows: 3, cols: 17}}
    - {name: offset, axes: {rows: 5, cols: 33}, offset: {x: 1, y: 3}}
  hidden:
    - {name: any, count: 2, axes: {rows: {low: 1, high: 64}, cols: {low: 1, high: 300}}}
  screening: [small]
tolerance:
  y: {max_ulp: 8, norm: 1.0e-6, floor: 1.0e-3}
hardware: {target: cpu}
baselines:
  - {name: torch, entry: baselines.py:scale}
roofline:
  bytes: 8 * rows * cols + 4 * cols
  flops: 2 * rows * cols
accept: {min_speedup: 1.02, min_workload_speedup: 0.9, approval: none}
"""

REFERENCE = """\
def scale(x, shift, factor):
    return x * factor + shift
"""

BASELINES = """\
import torch


def scale(x, shift, y, factor):
    torch.add(shift, x, alpha=factor, out=y)
"""

LAUNCH = """\
sources: [scale.cpp]
launches:
  - function: scale
    args: [x, shift, y, {i64: rows}, {i64: cols}, {f32: factor}]
"""

SOURCE = """\
#include <cstdint>

extern "C" void scale(const float* x, const float* shift, float* y, std::int64_t rows, std::int64_t cols, float factor) {
    for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t col = 0; col < cols; ++col) {
BODY
        }
}
"""

RIGHT = "            y[row * cols + col] = x[row * cols + col] * factor + shift[col];"

# The same, quickly timed: with few slots that stay in the caches.
BRIEF = SPEC.replace("rows: 64, cols: 256", "rows: 256, cols: 1024").replace("roofline:", "metric: {cold_cache: false}\nroofline:")


@contextmanager
def state_in(folder: Path) -> Iterator[None]:
    """Meanwhile the state folder is this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNEL_FACTORY_STATE", str(folder))
        yield


def write_spec(folder: Path, spec: str = SPEC, reference: str = REFERENCE, baselines: str = BASELINES) -> LoadedSpec:
    """A spec in `folder/scale-cpu`, with the right kernel as its champion."""
    folder = folder / "scale-cpu"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spec.yaml").write_text(spec)
    (folder / "reference.py").write_text(reference)
    (folder / "baselines.py").write_text(baselines)
    write_kernel(folder / "kernel")
    return load_spec(folder)


def write_kernel(folder: Path, body: str = RIGHT, launch: str = LAUNCH, source: str | None = None) -> Path:
    """A kernel folder; `body` is the inner statement of its loop."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "launch.yaml").write_text(launch)
    (folder / "scale.cpp").write_text(source if source is not None else SOURCE.replace("BODY", body))
    return folder
