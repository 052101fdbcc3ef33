"""Checks what a spec means: that names exist and are unique, that expressions can be computed, that parts fit each other."""

from __future__ import annotations

import difflib
import keyword
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from runner.errors import FactoryError, Fault
from runner.spec import expressions, tensors
from runner.spec.draft import Draft
from runner.spec.models import Accept, AgentSpec, Axis, Baseline, ExprAxis, Expression, Init, Input, Name, Output, Scalar, Tolerance
from runner.yaml_source import Path

TENSORS = ("inputs", "outputs")
NAMED = ("axes", "scalars", *TENSORS)
INT_BITS = {"int32": 31, "int64": 63}
MAX_OPTIONS = 40  # names that a message lists


def check_meaning(draft: Draft) -> Iterator[Fault]:
    """Every fault of meaning outside the workloads and the files."""
    yield from check_names(draft)
    yield from check_expressions(draft)
    yield from check_tensors(draft)
    yield from check_scalars(draft)
    yield from check_independent(draft)
    yield from check_tolerance(draft)
    yield from check_lists(draft)


def known_names(draft: Draft) -> list[str]:
    """The names that expressions of a spec may use: axes and scalars."""
    return [*draft.names(("axes",)), *draft.names(("scalars",))]


def roofline_names(draft: Draft) -> list[str]:
    """The names that the roofline may use: axes, scalars, and tensors as arguments of the functions over them."""
    return [*known_names(draft), *draft.names(("inputs",)), *draft.names(("outputs",))]


def unknown(name: str, what: str, allowed: Iterable[str]) -> str:
    """The message for a name that is not there, with the nearest one that is."""
    options = list(allowed)
    near = difflib.get_close_matches(name, options[:MAX_OPTIONS], n=1)
    suggestion = f" (did you mean `{near[0]}`?)" if near else ""
    listing = ", ".join([*options[:MAX_OPTIONS], *(["…"] if len(options) > MAX_OPTIONS else [])])
    return f"`{name}` is not {what}{suggestion}; allowed: {listing or 'none'}"


def check_names(draft: Draft) -> Iterator[Fault]:
    """Axes, scalars and tensors share one set of names, since functions are called and expressions written by them."""
    taken: dict[str, str] = {}
    for section in NAMED:
        for name in draft.names((section,)):
            path = (section, name)
            words = (*expressions.FUNCTIONS, *expressions.CONSTANTS, *tensors.FUNCTIONS)
            if name in words or keyword.iskeyword(name):
                yield draft.source.fault(path, f"`{name}` is a word of expressions or of Python; choose another name", key=True)
            elif name in taken:
                message = f"`{name}` is a name in `{taken[name]}` too; axes, scalars, inputs and outputs need names of their own"
                yield draft.source.fault(path, message, key=True)
            taken.setdefault(name, section)


def expression_fault(draft: Draft, path: Path, text: str, allowed: Iterable[str], functions: Iterable[str] = ()) -> Fault | None:
    """What is wrong with an expression's text, or with a name in it."""
    try:
        used = expressions.names(text, functions)
    except FactoryError as error:
        return draft.source.fault(path, str(error))
    wrong = sorted(used - set(allowed))
    return draft.source.fault(path, unknown(wrong[0], "an axis or a scalar", allowed)) if wrong else None


def check_expressions(draft: Draft) -> Iterator[Fault]:
    """Every expression parses and uses only axes and scalars; no axis is defined by itself."""
    if not draft.mappings("axes", "scalars"):
        return
    known = known_names(draft)
    places: list[tuple[Path, Any]] = [(("axes", name, "expr"), axis.expr) for name, axis in expr_axes(draft).items()]
    for section, kind in (("inputs", Input), ("outputs", Output)):
        for name, tensor in draft.entries((section,), kind).items():
            places += [((section, name, "shape", index), item) for index, item in enumerate(tensor.shape)]
    places += draft.items(("constraints",), Expression)
    for path, text in places:
        fault = expression_fault(draft, path, text, known) if isinstance(text, str) else None
        if fault:
            yield fault
    for key in ("bytes", "flops"):
        text = draft.one(("roofline", key), Expression)
        fault = expression_fault(draft, ("roofline", key), text, roofline_names(draft), tensors.FUNCTIONS) if text else None
        if fault:
            yield fault
    for name, through in circular_axes(draft).items():
        others = ", ".join(f"`{other}`" for other in sorted(through))
        yield draft.source.fault(("axes", name, "expr"), f"the axis `{name}` is defined by itself, through {others}")


@lru_cache(maxsize=4)
def expr_axes(draft: Draft) -> dict[str, ExprAxis]:
    """The well-formed axes that are defined by an expression."""
    return {name: axis for name, axis in draft.entries(("axes",), Axis).items() if isinstance(axis, ExprAxis)}


def circular_axes(draft: Draft) -> dict[str, set[str]]:
    """The expression axes that depend on themselves, each with the others of its circle that it names."""
    waiting = {name: names_of(axis.expr) for name, axis in expr_axes(draft).items()}
    while ready := [name for name, used in waiting.items() if not used & waiting.keys()]:
        for name in ready:
            del waiting[name]
    return {name: used & waiting.keys() for name, used in waiting.items()}


def names_of(text: str) -> set[str]:
    """The names in an expression; none where it does not parse, which is a fault of its own at its place."""
    try:
        return expressions.names(text)
    except FactoryError:
        return set()


def check_tensors(draft: Draft) -> Iterator[Fault]:
    """The generators of inputs make sense for their tensors."""
    for name, tensor in draft.entries(("inputs",), Input).items():
        yield from init_faults(draft, ("inputs", name, "init"), tensor.init, tensor)


def init_faults(draft: Draft, path: Path, init: Init, tensor: Input) -> Iterator[Fault]:
    """What is wrong with a generator for this tensor."""
    if init.kind == "uniform" and not init.low < init.high:
        yield draft.source.fault((*path, "low"), f"`low` is {init.low:g} and `high` {init.high:g}; allowed: low below high")
    if init.row_scale is not None and init.row_scale[0] > init.row_scale[1]:
        yield draft.source.fault((*path, "row_scale"), "the first number of `row_scale` must not be larger than the second")
    if init.row_scale is not None and not tensor.shape:
        yield draft.source.fault((*path, "row_scale"), "`row_scale` needs a tensor with at least one axis")
    for index, special in enumerate(init.special):
        if tensor.dtype in INT_BITS and special.value not in ("zero", "max"):
            message = f"the dtype {tensor.dtype} has no `{special.value}`; allowed: zero, max"
            yield draft.source.fault((*path, "special", index, "value"), message)


def check_scalars(draft: Draft) -> Iterator[Fault]:
    """A scalar's value is one of its dtype."""
    for name, scalar in draft.entries(("scalars",), Scalar).items():
        bits = INT_BITS.get(scalar.dtype)
        if bits is not None and (not isinstance(scalar.value, int) or not -(2**bits) <= scalar.value < 2**bits):
            message = f"{scalar.value} is not a value of {scalar.dtype}; allowed: whole numbers from -2^{bits} to 2^{bits} - 1"
            yield draft.source.fault(("scalars", name, "value"), message)


def check_independent(draft: Draft) -> Iterator[Fault]:
    """An independent axis is an axis of every output that it is said of, and decides nothing else than that axis of each tensor."""
    axes = draft.names(("axes",))
    tensors = {
        (section, name): tensor
        for section, kind in (("inputs", Input), ("outputs", Output))
        for name, tensor in draft.entries((section,), kind).items()
    }
    own = {name: tensor.independent for (section, name), tensor in tensors.items() if section == "outputs" and tensor.independent}
    said: list[tuple[Path, str, set[str]]] = [
        (path, axis, {name for section, name in tensors if section == "outputs" and name not in own})
        for path, axis in draft.items(("independent",), Name)
    ]
    said += [(("outputs", name, "independent"), axis, {name}) for name, axis in own.items()]
    for path, axis, outputs in said:
        if axis not in axes:
            yield draft.source.fault(path, unknown(axis, "an axis", axes))
            continue
        for (_, name), tensor in tensors.items():
            times = tensor.shape.count(axis)
            if times > 1 or (times == 0 and name in outputs):
                yield draft.source.fault(path, f"`{axis}` is not independent: it stands {times} times in the shape of `{name}`")
            hidden = sorted({str(item) for item in tensor.shape if item != axis and axis in _depends(draft, item)})
            if hidden:
                yield draft.source.fault(path, f"`{axis}` is not independent: `{hidden[0]}` in the shape of `{name}` depends on it too")


def _depends(draft: Draft, item: int | str) -> set[str]:
    """The axes that a length depends on, through expression axes too."""
    found: set[str] = set()
    texts = [item] if isinstance(item, str) else []
    axes = expr_axes(draft)
    while texts:
        names = names_of(texts.pop()) - found
        found |= names
        texts += [axes[name].expr for name in names if name in axes]
    return found


def check_tolerance(draft: Draft) -> Iterator[Fault]:
    """There is a tolerance for each output and for nothing else."""
    outputs = draft.names(("outputs",))
    given = draft.names(("tolerance",))
    for name in given if draft.mappings("outputs") else ():
        if name not in outputs:
            yield draft.source.fault(("tolerance", name), unknown(name, "an output", outputs), key=True)
    if isinstance(draft.raw(("tolerance",)), dict):
        for name in outputs:
            if name not in given:
                yield draft.source.fault(("tolerance",), f"the tolerance of the output `{name}` is missing", key=True)
    for name, tolerance in draft.entries(("tolerance",), Tolerance).items():
        if tolerance.norm >= 1:
            yield draft.source.fault(("tolerance", name, "norm"), "`norm` must be less than 1: zeros have a relative error of 1")


def check_lists(draft: Draft) -> Iterator[Fault]:
    """Baselines and agents have names of their own; the two bounds of acceptance do not contradict each other."""
    yield from duplicates(draft, draft.items(("baselines",), Baseline), "a baseline")
    if draft.raw(("hardware", "target")) == "cpu":
        for path, baseline in draft.items(("baselines",), Baseline):
            if baseline.configs is not None:
                yield draft.source.fault((*path, "configs"), "`configs` is for targets with a GPU; this spec's is `cpu`")
    yield from duplicates(draft, draft.items(("agents",), AgentSpec), "an agent")
    accept = draft.one(("accept",), Accept)
    if accept is not None and accept.min_workload_speedup > accept.min_speedup:
        message = f"`min_workload_speedup` is {accept.min_workload_speedup:g}; allowed: at most `min_speedup`, {accept.min_speedup:g}"
        key = "min_workload_speedup" if ("accept", "min_workload_speedup") in draft.source.values else "min_speedup"
        yield draft.source.fault(("accept", key), message)


def duplicates(draft: Draft, items: Iterable[tuple[Path, Any]], what: str) -> Iterator[Fault]:
    """A fault for each item whose name an earlier one has, upper and lower case being the same (names become names of files)."""
    lines: dict[str, int] = {}
    for path, item in items:
        line = draft.source.values[(*path, "name")][0]
        if item.name.lower() in lines:
            message = f"{what} is called `{item.name}` already, in line {lines[item.name.lower()]}; names must differ"
            yield draft.source.fault((*path, "name"), message)
        lines.setdefault(item.name.lower(), line)
