"""A small real spec, on which a fused loop beats five passes of torch by far more than any noise."""

from __future__ import annotations

from pathlib import Path

SPEC = """\
schema: kernel-spec/v1
id: gate-cpu
title: A gated shift, in one pass or in five
axes:
  rows: {type: var, min: 0, max: 100000}
  cols: {type: var, min: 1, max: 100000}
inputs:
  x: {dtype: float32, shape: [rows, cols], init: {kind: normal, mean: 0.3}}
  shift: {dtype: float32, shape: [cols], init: {kind: uniform, low: 1, high: 2}}
outputs:
  y: {dtype: float32, shape: [rows, cols]}
reference: reference.py:gate
independent: [rows]
workloads:
  public:
    - {name: one, axes: {rows: 512, cols: 1024}}
  edge:
    - {name: no rows, axes: {rows: 0, cols: 8}}
    - {name: odd, axes: {rows: 3, cols: 17}}
    - {name: offset, axes: {rows: 5, cols: 33}, offset: {x: 1, y: 3}}
  hidden:
    - {name: any, count: 2, axes: {rows: {low: 1, high: 64}, cols: {low: 1, high: 300}}}
  screening: [one]
tolerance:
  y: {max_ulp: 16, norm: 1.0e-6, floor: 0.01}
hardware: {target: cpu}
baselines:
  - {name: torch in five passes, entry: baselines.py:gate}
metric: {cold_cache: false}   # fewer slots, no flushes: what is tested is the way round a judgement
roofline:
  bytes: 8 * rows * cols + 4 * cols
  flops: 5 * rows * cols
accept: {min_speedup: 1.1, min_workload_speedup: 0.9, approval: none}
budget: {rounds: 1, candidates: 6, device_minutes: 20}
agents:
  - {name: tpe, kind: search, strategy: tpe, start: seeds/fused}
"""
REFERENCE = """\
import torch


def gate(x, shift):
    return torch.relu(x * 0.25 + shift) * x + x
"""
BASELINES = """\
import torch

# One thread: others may hold a core, and OpenMP's barriers wait for it.
torch.set_num_threads(1)


def gate(x, shift, y):
    torch.mul(x, 0.25, out=y)
    torch.add(y, shift, out=y)
    torch.relu_(y)
    torch.mul(y, x, out=y)
    torch.add(y, x, out=y)
"""
# Down the columns, so that nothing can be vectorised: correct, and slow.
CHAMPION = """\
#include <cstdint>

extern "C" void gate(const float* x, const float* shift, float* y, std::int64_t rows, std::int64_t cols) {
    for (std::int64_t col = 0; col < cols; ++col) {
        for (std::int64_t row = 0; row < rows; ++row) {
            const float value = x[row * cols + col];
            const float gated = value * 0.25f + shift[col];
            y[row * cols + col] = (gated > 0.0f ? gated : 0.0f) * value + value;
        }
    }
}
"""
FUSED = """\
#include <cstdint>

namespace {
inline float gated(float value, float shift) {
    const float sum = value * 0.25f + shift;
    return (sum > 0.0f ? sum : 0.0f) * value + value;
}
}  // namespace

extern "C" void gate(const float* __restrict x, const float* __restrict shift, float* __restrict y, std::int64_t rows, std::int64_t cols) {
    for (std::int64_t row = 0; row < rows; ++row) {
        const float* in = x + row * cols;
        float* out = y + row * cols;
        std::int64_t col = 0;
        for (; col + BLOCK <= cols; col += BLOCK) {
            for (int lane = 0; lane < BLOCK; ++lane) out[col + lane] = gated(in[col + lane], shift[col + lane]);
        }
        for (; col < cols; ++col) out[col] = gated(in[col], shift[col]);
    }
}
"""
CALL = "launches: [{function: gate, args: [x, shift, y, {i64: rows}, {i64: cols}]}]\n"


def write_real_spec(folder: Path) -> Path:
    """The spec, its slow champion and a seed kernel with 6 points."""
    for name, content in {
        "spec.yaml": SPEC,
        "reference.py": REFERENCE,
        "baselines.py": BASELINES,
        "kernel/gate.cpp": CHAMPION,
        "kernel/launch.yaml": "sources: [gate.cpp]\n" + CALL,
        "seeds/fused/gate.cpp": FUSED,
        "seeds/fused/launch.yaml": "sources: [gate.cpp]\nbuild: {arch: isa, defines: {BLOCK: block}}\n"
        "knobs: {isa: [x86-64-v2, x86-64-v3], block: [8, 16, 32]}\n" + CALL,
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder
