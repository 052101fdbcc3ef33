"""Checks a spec's workloads: that each gives every axis a length within bounds, names what exists, and keeps the constraints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from runner.errors import FactoryError, Fault
from runner.spec import expressions, tensors
from runner.spec.checks import circular_axes, duplicates, init_faults, known_names, unknown
from runner.spec.draft import Draft
from runner.spec.models import Axis, Draw, Expression, HiddenSpec, Input, Label, Output, Scalar, Spec, VarAxis, WorkloadSpec
from runner.spec.workload import TensorLayout
from runner.spec.workloads import amount, build, draw, holds, length, resolve_axes, seeded
from runner.yaml_source import Path

SEEDS = range(3)


def check_workloads(draft: Draft) -> Iterator[Fault]:
    """Every fault of the workloads as written."""
    written = [(path, item) for kind in ("public", "edge") for path, item in draft.items(("workloads", kind), WorkloadSpec)]
    hidden = draft.items(("workloads", "hidden"), HiddenSpec)
    yield from duplicates(draft, [*written, *hidden], "a workload")
    for path, item in [*written, *hidden] if draft.mappings("inputs", "outputs") else ():
        yield from _check_tensor_names(draft, path, item)
    for path, item in written:
        lengths = list(_check_lengths(draft, path, item.axes))
        yield from lengths or _check_values(draft, path, item)
    for path, item in hidden:
        yield from _check_ranges(draft, path, item)
    yield from _check_screening(draft)


def _check_tensor_names(draft: Draft, path: Path, item: WorkloadSpec | HiddenSpec) -> Iterator[Fault]:
    """`init` names inputs, `offset` and `dtype` any tensor, `absent` optional ones."""
    inputs, outputs = draft.names(("inputs",)), draft.names(("outputs",))
    sound = draft.entries(("inputs",), Input)
    every = {**sound, **draft.entries(("outputs",), Output)}
    for name, init in item.init.items():
        if name not in inputs:
            yield draft.source.fault((*path, "init", name), unknown(name, "an input", inputs), key=True)
        elif name in sound:
            yield from init_faults(draft, (*path, "init", name), init, sound[name])
    for key, named in (("offset", item.offset), ("dtype", item.dtype)):
        for name in named:
            if name not in inputs + outputs:
                yield draft.source.fault((*path, key, name), unknown(name, "a tensor", inputs + outputs), key=True)
    for index, name in enumerate(item.absent):
        optional = [other for other, tensor in every.items() if tensor.optional]
        if name not in optional and (name in every or name not in inputs + outputs):
            yield draft.source.fault((*path, "absent", index), unknown(name, "an optional tensor", optional))
    if outputs and set(item.absent) >= set(outputs):
        yield draft.source.fault((*path, "absent"), "no output is left; a workload has at least one")


def _check_lengths(draft: Draft, path: Path, lengths: Mapping[str, Any]) -> Iterator[Fault]:
    """The axes of a workload are exactly the var axes, and each length given as a number lies within its axis' bounds."""
    if not draft.mappings("axes"):
        return
    axes = draft.entries(("axes",), Axis)
    var = {name: axis for name, axis in axes.items() if isinstance(axis, VarAxis)}
    known = draft.names(("axes",))
    for name in lengths:
        if name not in known or (name in axes and name not in var):
            yield draft.source.fault((*path, "axes", name), unknown(name, "an axis of type var", var), key=True)
    for name, axis in var.items():
        if name not in lengths:
            yield draft.source.fault((*path, "axes"), f"the length of the axis `{name}` is missing", key=True)
        elif isinstance(lengths[name], int):
            bounds = _bounds_fault(name, axis, lengths[name], lengths[name])
            if bounds:
                yield draft.source.fault((*path, "axes", name), bounds)


def _bounds_fault(name: str, axis: VarAxis, low: int, high: int) -> str:
    if low >= axis.min and (axis.max is None or high <= axis.max):
        return ""
    what = f"is {low}" if low == high else f"is drawn from {low} to {high}"
    return f"the axis `{name}` {what}; allowed: " + (f"at least {axis.min}" if axis.max is None else f"from {axis.min} to {axis.max}")


def _check_values(draft: Draft, path: Path, item: WorkloadSpec) -> Iterator[Fault]:
    """The constraints hold, and every length and the roofline can be computed, as far as the rest of the spec is sound."""
    axes, scalars = draft.whole(("axes",), Axis), draft.whole(("scalars",), Scalar)
    if not draft.mappings("axes", "scalars") or axes is None or scalars is None or circular_axes(draft):
        return
    here = (*path, "axes") if (*path, "axes") in draft.source.values else path
    known = known_names(draft)
    try:
        lengths = resolve_axes(axes, scalars, item.axes)
    except FactoryError as error:
        if _sound([axis.expr for axis in axes.values() if axis.type == "expr"], known):
            yield draft.source.fault(here, str(error))
        return
    values: dict[str, expressions.Value] = {**lengths, **{name: scalar.value for name, scalar in scalars.items()}}
    for _place, constraint in draft.items(("constraints",), Expression):
        if _sound([constraint], known):
            try:
                if not holds(constraint, lengths, scalars):
                    sizes = ", ".join(f"{name} = {value}" for name, value in lengths.items())
                    yield draft.source.fault(here, f"the constraint `{expressions.shown(constraint)}` does not hold for {sizes}")
            except FactoryError as error:
                yield draft.source.fault(here, str(error))
    declared = {**draft.entries(("inputs",), Input), **draft.entries(("outputs",), Output)}
    dtypes = {name: item.dtype.get(name, tensor.dtype) for name, tensor in declared.items()}
    layouts = {}
    try:
        for name, tensor in declared.items():
            if all(isinstance(text, int) or _sound([text], known) for text in tensor.shape):
                shape = tuple(length(text, values) for text in tensor.shape)
                if name not in item.absent:
                    layouts[name] = TensorLayout(name, dtypes[name], shape, item.offset.get(name, 0), tensor.align)
        functions = tensors.functions(layouts, dtypes)
        named = {**values, **{name: name for name in dtypes}}
        for key in ("bytes", "flops"):
            text = draft.one(("roofline", key), Expression)
            if (
                text
                and _sound([text], list(named), functions)
                and amount(text, named, functions) <= 0
                and (key, path[1]) == ("bytes", "public")
            ):
                yield draft.source.fault(
                    here, f"`{expressions.shown(text)}` gives no bytes to move; a public workload is timed, so it must move some"
                )
    except FactoryError as error:
        yield draft.source.fault(here, str(error))


def _sound(texts: list[str], known: list[str], functions: Iterable[str] = ()) -> bool:
    """Whether expressions parse and use known names only; where not, the fault stands at the expression, not at each workload."""
    try:
        return all(expressions.names(text, functions) <= set(known) for text in texts)
    except FactoryError:
        return False


def _check_ranges(draft: Draft, path: Path, item: HiddenSpec) -> Iterator[Fault]:
    yield from _check_lengths(draft, path, item.axes)
    axes = draft.entries(("axes",), Axis)
    for name, drawn in item.axes.items():
        if not isinstance(drawn, Draw):
            continue
        here = (*path, "axes", name)
        if drawn.low > drawn.high:
            yield draft.source.fault((*here, "low"), f"`low` is {drawn.low} and `high` {drawn.high}; allowed: low at most high")
        elif drawn.high // drawn.multiple_of * drawn.multiple_of < drawn.low:
            message = f"no multiple of {drawn.multiple_of} lies between {drawn.low} and {drawn.high}"
            yield draft.source.fault((*here, "multiple_of"), message)
        elif isinstance(axes.get(name), VarAxis):
            bounds = _bounds_fault(name, axes[name], drawn.low, drawn.high)
            if bounds:
                yield draft.source.fault(here, bounds)


def _check_screening(draft: Draft) -> Iterator[Fault]:
    """`screening` names public workloads, each once."""
    data = draft.raw(("workloads", "public"))
    items = [item for item in data if isinstance(item, dict)] if isinstance(data, list) else []
    public = [item["name"] for item in items if isinstance(item.get("name"), str)]
    seen: set[str] = set()
    for path, name in draft.items(("workloads", "screening"), Label):
        if name not in public:
            yield draft.source.fault(path, unknown(name, "a public workload", public))
        elif name in seen:
            yield draft.source.fault(path, f"`{name}` is here a second time")
        seen.add(name)


def check_draws(draft: Draft, spec: Spec) -> Iterator[Fault]:
    """A valid spec's workloads can be built and its hidden ones drawn: constraints met, lengths sensible. Tried with a few seeds."""
    for kind, items in (("public", spec.workloads.public), ("edge", spec.workloads.edge)):
        for index, item in enumerate(items):
            try:
                build(spec, "public", item)
            except FactoryError as error:
                yield draft.source.fault(("workloads", kind, index), str(error))
    for index, hidden in enumerate(spec.workloads.hidden):
        try:
            for seed in SEEDS:
                draw(spec, hidden, hidden.name, seeded(seed, hidden.name, 0))
        except FactoryError as error:
            yield draft.source.fault(("workloads", "hidden", index), str(error))
