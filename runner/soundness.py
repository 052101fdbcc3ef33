"""Checks that a spec's workloads can tell a right kernel from a wrong one, before any candidate is judged by them.

A task whose answer is nearly zero, or does not depend on some input, accepts kernels that compute nothing; a reference that mixes what
the spec calls independent cannot be checked in slices. These are faults of the spec: they raise `FactoryError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from runner.comparison import compare, rms
from runner.errors import FactoryError
from runner.inputs import DTYPES, Pool, derive, dice, draw_inputs
from runner.oracle import Oracle
from runner.spec.load import LoadedSpec
from runner.spec.models import Bounds
from runner.spec.workload import Workload

SLICES = 8


def check_sound(loaded: LoadedSpec, oracle: Oracle, pool: Pool, workloads: Iterable[Workload], seed: int) -> None:
    """Check the public and hidden workloads among `workloads`: none may be passed by zeros, and every input must matter."""
    judged = [workload for workload in workloads if workload.kind != "edge"]
    for workload in judged:
        _zeros_fail(loaded, oracle, pool, workload, derive(seed, "zeros", workload.name))
    public = sorted((workload for workload in judged if workload.kind == "public"), key=lambda workload: workload.bytes)
    for name in loaded.spec.inputs:
        smallest = next((workload for workload in public if name in workload.inputs), None)
        if smallest is not None:
            _input_matters(loaded, oracle, smallest, name, derive(seed, "input", name))
    if public:
        _slices_agree(loaded, oracle, public[0], derive(seed, "slices"))


def _zeros_fail(loaded: LoadedSpec, oracle: Oracle, pool: Pool, workload: Workload, seed: int) -> None:
    inputs = pool.fresh(workload, seed)
    sample = oracle.sample(workload, inputs, seed, slices=SLICES)
    expected = sample.expected if sample is not None else oracle.expected(workload, inputs)
    for name, right in expected.items():
        zeros = torch.zeros_like(right, dtype=None if not right.is_floating_point() else DTYPES[workload.outputs[name].dtype])
        if not right.numel() or compare(name, zeros, right, _bounds(loaded, workload, name), rms(right)).mismatch is None:
            raise FactoryError(
                f"{loaded.spec.id}: an output {name} of zeros passes on the workload {workload.name}: the task is degenerate there, or "
                "the tolerance too wide; only edge workloads may have nothing to tell"
            )


def _input_matters(loaded: LoadedSpec, oracle: Oracle, workload: Workload, name: str, seed: int) -> None:
    inputs = draw_inputs(workload, seed)
    before = oracle.expected(workload, inputs)
    changed = dict(inputs)
    noise = dice(seed)
    if inputs[name].is_floating_point():
        factor = torch.rand(inputs[name].shape, generator=noise, dtype=torch.float64)
        changed[name] = (inputs[name].double() * (0.25 + factor) + 0.25 * factor).to(inputs[name].dtype)
    else:
        changed[name] = inputs[name][torch.randperm(inputs[name].shape[0], generator=noise)] if inputs[name].ndim else inputs[name] + 1
    after = oracle.expected(workload, changed)
    if all(_same(loaded, workload, output, after[output], before[output]) for output in before):
        raise FactoryError(f"{loaded.spec.id}: the reference does not depend on the input {name} (seen on the workload {workload.name})")


def _slices_agree(loaded: LoadedSpec, oracle: Oracle, workload: Workload, seed: int) -> None:
    inputs = draw_inputs(workload, seed)
    sample = oracle.sample(workload, inputs, seed, slices=SLICES)
    if sample is None:
        return
    whole: Mapping[str, torch.Tensor] = oracle.expected(workload, inputs)
    for name, part in sample.expected.items():
        if not torch.allclose(sample.pick(name, whole[name]), part, rtol=1e-9, atol=0.0, equal_nan=True):
            raise FactoryError(
                f"{loaded.spec.id}: the reference gives other values for {name} when it is given only some slices along the axis "
                f"that the spec calls independent ({', '.join(_independent(loaded, name))})"
            )


def _independent(loaded: LoadedSpec, name: str) -> tuple[str, ...]:
    own = loaded.spec.outputs[name].independent
    return loaded.spec.independent if own is None else (own,)


def _same(loaded: LoadedSpec, workload: Workload, name: str, actual: torch.Tensor, expected: torch.Tensor) -> bool:
    rounded = actual.to(DTYPES[workload.outputs[name].dtype]) if actual.is_floating_point() else actual
    return compare(name, rounded, expected, _bounds(loaded, workload, name), rms(expected)).mismatch is None


def _bounds(loaded: LoadedSpec, workload: Workload, name: str) -> Bounds:
    return loaded.spec.tolerance[name].of(workload.outputs[name].dtype)
