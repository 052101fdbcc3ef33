"""The brief that agents are given in these tests: the project's own spec, its champion and its seed kernel with knobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bot.agents.protocol import Brief
from bot.evidence.experiment import Experiment
from runner.candidate import Candidate, read_candidate
from runner.identity import source_hash
from runner.spec.load import LoadedSpec, load_spec

DEVICE = "a CPU with two cores"


@pytest.fixture(scope="session")
def spec() -> LoadedSpec:
    return load_spec(Path(__file__).parents[3] / "kernel-specs" / "rmsnorm-cpu")


@pytest.fixture(scope="session")
def champion(spec: LoadedSpec) -> Candidate:
    return read_candidate(spec.folder / "kernel", spec.spec.policy)


@pytest.fixture(scope="session")
def seed_kernel(spec: LoadedSpec) -> Candidate:
    return read_candidate(spec.folder / "seeds" / "streaming", spec.spec.policy)


@pytest.fixture
def make_brief(spec: LoadedSpec, champion: Candidate, seed_kernel: Candidate) -> Callable[..., Brief]:
    def make(experiments: Sequence[Experiment] = (), **other: Any) -> Brief:
        fields: dict[str, Any] = {
            "spec": spec,
            "campaign": "c2",
            "round": 1,
            "agent": "tpe",
            "champion": champion,
            "start": seed_kernel,
            "best": None,
            "experiments": experiments,
            "lessons": (),
            "trials": 8,
            "seed": 7,
            "device": DEVICE,
        }
        return Brief(**{**fields, **other})

    return make


@pytest.fixture
def make_point(make_experiment: Callable[..., Experiment], spec: LoadedSpec, seed_kernel: Candidate) -> Callable[..., Experiment]:
    """Makes a screened point of the seed kernel: the first value of every knob, but for those given."""
    source = source_hash(seed_kernel)

    def make(index: int, speedup: float | None, knobs: dict[str, Any] | None = None, **other: Any) -> Experiment:
        point = {name: values[0] for name, values in seed_kernel.manifest.knobs.items()} | (knobs or {})
        fields = {"spec": spec.spec.id, "spec_hash": spec.spec_hash, "source": source, "device": DEVICE, "knobs": point}
        return make_experiment(index, speedup, **{**fields, **other})

    return make
