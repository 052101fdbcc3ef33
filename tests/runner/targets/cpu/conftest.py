"""What the tests of target `cpu` share: a state folder, and the small spec of `scale_bench.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from scale_bench import BASELINES, FACTOR, Bench

from runner.spec.load import LoadedSpec
from runner.spec.models import Spec
from runner.targets.cpu.target import CpuTarget


@pytest.fixture(scope="session", autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A state folder for these tests, shared by the processes of one test run, so that trusted parts are compiled once."""
    folder = tmp_path_factory.getbasetemp().parent / "kernel-factory-state"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNEL_FACTORY_STATE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    folder = tmp_path_factory.mktemp("spec")
    (folder / "baselines.py").write_text(BASELINES)
    spec = Spec.model_validate(
        {
            "schema": "kernel-spec/v1",
            "id": "scale-cpu",
            "title": "Scale a vector",
            "axes": {"n": {"type": "var"}, "mode": {"type": "var"}},
            "scalars": {"factor": {"dtype": "float32", "value": FACTOR}},
            "inputs": {"x": {"dtype": "float32", "shape": ["n"]}},
            "outputs": {"y": {"dtype": "float32", "shape": ["n"]}},
            "reference": "reference.py:scale",
            "workloads": {"public": [{"name": "small", "axes": {"n": 1000}}]},
            "tolerance": {"y": {"max_ulp": 1, "norm": 1e-6}},
            "hardware": {"target": "cpu"},
            "baselines": [{"name": "torch", "entry": "baselines.py:scale"}],
            "roofline": {"bytes": "8 * n", "flops": "n"},
            "policy": {"run_seconds": 5},
        }
    )
    return Bench(CpuTarget(), LoadedSpec(spec, folder, "0" * 64))
