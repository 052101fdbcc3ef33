"""Builds the concrete workloads of a spec: the public and edge ones as written, the hidden ones drawn with a secret seed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import numpy as np

from runner.errors import FactoryError
from runner.spec import expressions, tensors
from runner.spec.models import Axis, ConstAxis, Draw, ExprAxis, HiddenSpec, Init, Input, Output, Scalar, Spec, VarAxis, WorkloadSpec
from runner.spec.workload import TensorLayout, Workload

MAX_NUMEL = 2**40
MAX_DRAWS = 1000
Length = int | str


def public(spec: Spec) -> tuple[Workload, ...]:
    """The workloads that are checked and timed, in the spec's order."""
    return tuple(build(spec, "public", written) for written in spec.workloads.public)


def edge(spec: Spec) -> tuple[Workload, ...]:
    """The workloads that are checked only, in the spec's order."""
    return tuple(build(spec, "edge", written) for written in spec.workloads.edge)


def screening(spec: Spec) -> tuple[Workload, ...]:
    """The public workloads that the screening tier times; all of them where the spec names none."""
    names = spec.workloads.screening
    return tuple(workload for workload in public(spec) if not names or workload.name in names)


def hidden(spec: Spec, seed: int) -> tuple[Workload, ...]:
    """The hidden workloads of one evaluation, `hidden-<name>-<i>` with `i` from 0: the same for the same seed.

    Each is redrawn until the spec's constraints hold. Raises `FactoryError` where no draw in a thousand satisfies them.
    """
    return tuple(
        draw(spec, written, f"hidden-{written.name}-{index}", seeded(seed, written.name, index))
        for written in spec.workloads.hidden
        for index in range(written.count)
    )


def seeded(seed: int, name: str, index: int) -> np.random.Generator:
    """The generator of one hidden workload: it follows from the secret seed (at least 0), the spec's name for it and its index."""
    return np.random.default_rng([seed, int.from_bytes(name.encode(), "little"), index])


def draw(spec: Spec, written: HiddenSpec, name: str, random: np.random.Generator) -> Workload:
    """One hidden workload whose axis lengths satisfy the constraints. Raises `FactoryError` where none is found."""
    for _attempt in range(MAX_DRAWS):
        lengths = {axis: _drawn(range_, random) for axis, range_ in written.axes.items()}
        axes = resolve_axes(spec.axes, spec.scalars, lengths)
        if all(holds(constraint, axes, spec.scalars) for constraint in spec.constraints):
            concrete = WorkloadSpec(
                name=written.name, axes=lengths, init=written.init, offset=written.offset, dtype=written.dtype, absent=written.absent
            )
            return build(spec, "hidden", concrete, name)
    raise FactoryError(f"hidden workload `{written.name}`: not one of {MAX_DRAWS} draws met the constraints; change its ranges")


def _drawn(range_: Draw | int, random: np.random.Generator) -> int:
    """A multiple of `multiple_of` in [low, high], uniform in the value or in its logarithm (of value + 1, so that 0 can be drawn)."""
    if isinstance(range_, int):
        return range_
    step = range_.multiple_of
    first, last = -(-range_.low // step), range_.high // step
    if range_.scale == "linear":
        return step * int(random.integers(first, last, endpoint=True))
    count = math.exp(random.uniform(math.log(first + 1), math.log(last + 2))) - 1
    return step * min(max(int(count), first), last)


def build(spec: Spec, kind: Literal["public", "edge", "hidden"], written: WorkloadSpec, name: str | None = None) -> Workload:
    """The concrete workload of a written one. Raises `FactoryError` where an expression gives no sensible length or number."""
    axes = resolve_axes(spec.axes, spec.scalars, written.axes)
    known: dict[str, expressions.Value] = {**axes, **{name: scalar.value for name, scalar in spec.scalars.items()}}
    inputs = {name: _layout(name, one, known, written) for name, one in spec.inputs.items() if name not in written.absent}
    outputs = {name: _layout(name, one, known, written) for name, one in spec.outputs.items() if name not in written.absent}
    declared: dict[str, Input | Output] = {**spec.inputs, **spec.outputs}
    dtypes = {name: written.dtype.get(name, one.dtype) for name, one in declared.items()}
    functions = tensors.functions({**inputs, **outputs}, dtypes)
    names: dict[str, expressions.Value] = {**known, **{name: name for name in dtypes}}
    return Workload(
        name=name or written.name,
        kind=kind,
        axes=axes,
        scalars={name: scalar.value for name, scalar in spec.scalars.items()},
        inputs=inputs,
        outputs=outputs,
        init={tensor: generator(spec.inputs[tensor], tensor, written.init) for tensor in inputs},
        bytes=amount(spec.roofline.bytes, names, functions),
        flops=amount(spec.roofline.flops, names, functions),
        dtypes=dtypes,
    )


def generator(declared: Input, name: str, replaced: Mapping[str, Init]) -> Init:
    """How an input is filled on a workload: the workload's own generator, or the input's."""
    return replaced.get(name, declared.init)


def resolve_axes(axes: Mapping[str, Axis], scalars: Mapping[str, Scalar], lengths: Mapping[str, int]) -> dict[str, int]:
    """Every axis with its length. `lengths` gives the `var` axes. Raises `FactoryError` for a missing, unknown or impossible length."""
    resolved: dict[str, int] = {}
    waiting: dict[str, str] = {}
    for name, axis in axes.items():
        if isinstance(axis, ConstAxis):
            resolved[name] = axis.value
        elif isinstance(axis, ExprAxis):
            waiting[name] = axis.expr
        elif name in lengths:
            resolved[name] = _within(name, lengths[name], axis)
        else:
            raise FactoryError(f"the length of the axis `{name}` is not given")
    for name in lengths:
        if not isinstance(axes.get(name), VarAxis):
            allowed = ", ".join(f"`{other}`" for other, axis in axes.items() if isinstance(axis, VarAxis))
            raise FactoryError(f"`{name}` is not an axis of type var; allowed: {allowed or 'none'}")
    values: dict[str, expressions.Value] = {name: scalar.value for name, scalar in scalars.items()}
    while waiting:
        ready = [name for name, text in waiting.items() if not expressions.names(text) & waiting.keys()]
        if not ready:
            raise FactoryError(f"the axes {', '.join(f'`{name}`' for name in waiting)} are defined by each other")
        for name in ready:
            resolved[name] = length(waiting.pop(name), {**values, **resolved})
    return {name: resolved[name] for name in axes}


def _within(name: str, value: int, axis: VarAxis) -> int:
    if value < axis.min or (axis.max is not None and value > axis.max):
        bounds = f"at least {axis.min}" if axis.max is None else f"between {axis.min} and {axis.max}"
        raise FactoryError(f"the axis `{name}` is {value}; allowed: {bounds}")
    return value


def length(text: Length, known: Mapping[str, expressions.Value], functions: expressions.Functions = MappingProxyType({})) -> int:
    """A length: a whole number, or an expression that gives one. Raises `FactoryError` for anything else."""
    value = text if isinstance(text, int) else expressions.evaluate(text, known, functions)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_NUMEL:
        raise FactoryError(f"`{text}` gives {value}; a length is a whole number from 0 to 2^40")
    return value


def amount(text: str, known: Mapping[str, expressions.Value], functions: expressions.Functions) -> float:
    """A number of bytes or operations, at least 0. Raises `FactoryError` for anything else."""
    value = expressions.evaluate(text, known, functions)
    if isinstance(value, (bool, str)) or value < 0:
        raise FactoryError(f"`{text}` gives {value}; a number of at least 0 is expected")
    return float(value)


def holds(constraint: str, axes: Mapping[str, int], scalars: Mapping[str, Scalar]) -> bool:
    """Whether a constraint holds. Raises `FactoryError` where it does not give true or false."""
    value = expressions.evaluate(constraint, {**axes, **{name: scalar.value for name, scalar in scalars.items()}})
    if not isinstance(value, bool):
        raise FactoryError(f"the constraint `{constraint}` gives {value}; a comparison, true or false, is expected")
    return value


def _layout(name: str, declared: Input | Output, known: Mapping[str, expressions.Value], written: WorkloadSpec) -> TensorLayout:
    shape = tuple(length(item, known) for item in declared.shape)
    layout = TensorLayout(name, written.dtype.get(name, declared.dtype), shape, written.offset.get(name, 0), declared.align)
    if layout.numel > MAX_NUMEL:
        raise FactoryError(f"the tensor `{name}` has {layout.numel} elements; at most 2^40 are allowed")
    return layout
