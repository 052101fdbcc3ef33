"""A small spec (`y = factor * x`) and what it takes to build and run a kernel for it, for the tests of target `cpu`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import yaml

from runner.candidate import Candidate
from runner.identity import git_tree
from runner.manifest import KnobValue, Manifest
from runner.spec.load import LoadedSpec
from runner.spec.workload import TensorLayout, Workload
from runner.targets.cpu.target import CpuTarget
from runner.targets.cpu.worker import NativeWorker
from runner.targets.protocol import Binary, Placement

FACTOR = 3.0
LAUNCH: dict[str, Any] = {
    "sources": ["scale.cpp"],
    "build": {"arch": "native"},
    "launches": [{"function": "scale", "args": ["x", "y", {"i64": "n"}, {"f32": "factor"}]}],
}
HONEST = """
#include <cstdint>
extern "C" void scale(const float* x, float* y, std::int64_t n, float factor) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = factor * x[i];
}
"""
BASELINES = """
import torch

def scale(x, y, factor):
    y.copy_(x * factor)

def fails(x, y, factor):
    raise ValueError("not today")

def sorts(x, y, factor):
    y.copy_(torch.sort(x).values * factor)
"""


@dataclass(frozen=True)
class Bench:
    """The target with the small spec, and short ways to build and open."""

    target: CpuTarget
    spec: LoadedSpec

    def candidate(self, source: str, **launch: Any) -> Candidate:
        """A candidate of one source; `launch` replaces parts of the manifest."""
        manifest = {**LAUNCH, **launch}
        files = {"scale.cpp": source.encode(), "launch.yaml": yaml.safe_dump(manifest).encode()}
        return Candidate(files, Manifest.model_validate(manifest), git_tree(files))

    def build(self, source: str, point: Mapping[str, KnobValue] | None = None, **launch: Any) -> Binary:
        return self.target.build(self.spec, self.candidate(source, **launch), point or {})

    def open(
        self,
        source: str,
        n: int = 1000,
        slots: int = 2,
        placement: Placement = Placement.SPACED,
        offset: int = 0,
        mode: int = 0,
        **launch: Any,
    ) -> NativeWorker:
        """A worker with a freshly built candidate. `mode` is an axis that a kernel may take as an argument."""
        candidate = self.candidate(source, **launch)
        binary = self.target.build(self.spec, candidate, {})
        return self.target.open_candidate(binary, self.spec, candidate, self.workload(n, offset, mode), slots, placement)

    def workload(self, n: int = 1000, offset: int = 0, mode: int = 0) -> Workload:
        x, y = TensorLayout("x", "float32", (n,), offset, 64), TensorLayout("y", "float32", (n,), offset, 64)
        return Workload("small", "public", {"n": n, "mode": mode}, {"factor": FACTOR}, {"x": x}, {"y": y}, {}, 8.0 * n, float(n))

    def seconds(self, run: int) -> Bench:
        """The same bench with another time limit for a call."""
        policy = self.spec.spec.policy.model_copy(update={"run_seconds": run})
        return replace(self, spec=replace(self.spec, spec=self.spec.spec.model_copy(update={"policy": policy})))


def values(n: int = 1000) -> dict[str, torch.Tensor]:
    """Fresh inputs."""
    return {"x": torch.randn(n)}
