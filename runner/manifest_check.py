"""Checks a `launch.yaml` against its spec: names exist, every row fixes every knob, every expression can be computed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from runner.candidate import Candidate
from runner.errors import FactoryError, Fault
from runner.identity import MANIFEST_NAME
from runner.manifest import (
    F32,
    F64,
    I32,
    I64,
    KERNEL_FUNCTIONS,
    OCCUPANCY,
    SM_COUNT,
    TEMPLATE,
    DeviceLaunch,
    KnobValue,
    Manifest,
    MapArgument,
    TensorArgument,
    choose_row,
    row_knobs,
    scope,
)
from runner.spec import expressions, tensors
from runner.spec.checks import unknown
from runner.spec.models import Spec
from runner.spec.workload import Workload
from runner.spec.workloads import length, public
from runner.yaml_source import Path, Source, describe, read_yaml

Asked = tuple[Collection[str], Collection[str]]
_LITERAL = re.compile(r"[a-z0-9][a-z0-9.+_-]*")  # an architecture's name, such as x86-64-v3, which is no expression


def check_manifest(spec: Spec, candidate: Candidate) -> tuple[Fault, ...]:
    """Every fault of the candidate's `launch.yaml` for this spec, at its place in `launch.yaml`."""
    source = read_yaml(candidate.files[MANIFEST_NAME], MANIFEST_NAME)
    manifest = candidate.manifest
    faults = [*_check_names(spec, manifest, source), *_check_knobs(manifest, source), *_check_table(spec, manifest, source)]
    faults += _check_expressions(spec, manifest, source)
    if not faults:  # what follows computes with all of it
        faults += [*_check_rows(manifest, source), *_check_workloads(spec, manifest, source)]
    return tuple(dict.fromkeys(faults))


def _known(spec: Spec, manifest: Manifest) -> list[str]:
    return [*spec.axes, *spec.scalars, *manifest.knobs]


def _check_names(spec: Spec, manifest: Manifest, source: Source) -> Iterator[Fault]:
    """Knobs and scratch have names of their own; arguments name tensors or scratch."""
    named = [*spec.inputs, *spec.outputs]
    taken = {**dict.fromkeys(spec.axes, "an axis"), **dict.fromkeys(spec.scalars, "a scalar"), **dict.fromkeys(named, "a tensor")}
    words = {*expressions.FUNCTIONS, *expressions.CONSTANTS, *tensors.FUNCTIONS, *OCCUPANCY, *KERNEL_FUNCTIONS, SM_COUNT, "when"}
    for section, found in (("knobs", manifest.knobs), ("scratch", manifest.scratch), ("tensor_maps", manifest.tensor_maps)):
        for name in found:
            if name in words:
                yield source.fault((section, name), f"`{name}` is a word of expressions or of the table; choose another name", key=True)
            elif name in taken:
                yield source.fault((section, name), f"`{name}` is {taken[name]} already; choose another name", key=True)
            taken.setdefault(name, f"in `{section}`")
    for index, launch in enumerate(manifest.launches):
        for place, item in enumerate(launch.args):
            here: Path = ("launches", index, "args", place)
            argument = item.tensor if isinstance(item, TensorArgument) else item
            if isinstance(argument, MapArgument) and argument.map not in manifest.tensor_maps:
                yield source.fault((*here, "map"), unknown(argument.map, "a tensor map", manifest.tensor_maps))
            if isinstance(argument, str) and argument not in named and argument not in manifest.scratch:
                allowed = [*named, *manifest.scratch]
                message = unknown(argument, "a tensor or scratch", allowed)
                if argument in spec.axes or argument in spec.scalars:
                    message += f"; a number is passed as {{i64: {argument}}} or {{f32: {argument}}}"
                yield source.fault(here, message)
        if isinstance(launch, DeviceLaunch):
            for place, other in enumerate(launch.after or ()):
                if other >= index:
                    yield source.fault(
                        ("launches", index, "after", place), f"a launch waits for earlier ones only; allowed: 0 to {index - 1}"
                    )
    for name, one in manifest.tensor_maps.items():
        if one.of not in named and one.of not in manifest.scratch:
            yield source.fault(("tensor_maps", name, "of"), unknown(one.of, "a tensor or scratch", [*named, *manifest.scratch]))


def _check_knobs(manifest: Manifest, source: Source) -> Iterator[Fault]:
    for name, values in manifest.knobs.items():
        for index, value in enumerate(values):
            if value in values[:index]:
                yield source.fault(("knobs", name, index), f"the value {describe(value)} is here a second time")
        if len({isinstance(value, str) for value in values}) > 1:
            yield source.fault(("knobs", name), f"the values of `{name}` must be all numbers or all text")


def _check_table(spec: Spec, manifest: Manifest, source: Source) -> Iterator[Fault]:
    """A row names every knob with one of its values, and nothing else but `when`."""
    if manifest.table and not manifest.knobs:
        yield source.fault(("table",), "a table needs knobs; without `knobs`, leave it out", key=True)
        return
    for index, row in enumerate(manifest.table):
        path: Path = ("table", index)
        for name in ("when", *manifest.knobs):
            if name not in row:
                yield source.fault(path, f"the row has no `{name}`; a row has `when` and every knob: {', '.join(manifest.knobs)}")
        for name, value in row.items():
            if name == "when":
                yield from _check_when(spec, value, source, (*path, name))
            elif name not in manifest.knobs:
                yield source.fault((*path, name), unknown(name, "a knob", manifest.knobs), key=True)
            elif not any(type(value) is type(allowed) and value == allowed for allowed in manifest.knobs[name]):
                allowed = ", ".join(map(str, manifest.knobs[name]))
                yield source.fault((*path, name), f"the knob `{name}` can't be {describe(value)}; allowed: {allowed}")


def _check_when(spec: Spec, value: KnobValue, source: Source, path: Path) -> Iterator[Fault]:
    if not isinstance(value, str):
        yield source.fault(path, '`when` must be a comparison in quotes, such as "cols <= 1024", or "true"')
    else:
        yield from _names_fault(value, [*spec.axes, *spec.scalars], "an axis or a scalar", source, path, _asked(spec))


def _asked(spec: Spec, *functions: str) -> Asked:
    """The tensors of a spec, and the functions over them and besides."""
    return ([*spec.inputs, *spec.outputs], [*tensors.FUNCTIONS, *functions])


def _names_fault(text: str, known: Iterable[str], what: str, source: Source, path: Path, asked: Asked = ((), ())) -> Iterator[Fault]:
    """A name that is not known. `asked` are the tensors that may be asked about besides, and by which functions."""
    named, functions = asked
    try:
        wrong = sorted(expressions.names(text, functions) - set(known) - set(named))
    except FactoryError as error:
        yield source.fault(path, str(error))
        return
    if wrong:
        yield source.fault(path, unknown(wrong[0], what, known))


def _check_expressions(spec: Spec, manifest: Manifest, source: Source) -> Iterator[Fault]:
    """Every expression parses and uses only names that are known where it stands."""
    known, what = _known(spec, manifest), "an axis, a scalar or a knob"
    asked = _asked(spec, *OCCUPANCY) if manifest.kernels else _asked(spec)
    if manifest.kernels:
        known.append(SM_COUNT)
    places: list[tuple[Path, int | str]] = []
    for name, scratch in manifest.scratch.items():
        places += [(("scratch", name, "shape", index), item) for index, item in enumerate(scratch.shape)]
    for name, one in manifest.tensor_maps.items():
        for key, items in (("box", one.box), ("shape", one.shape), ("strides", one.strides)):
            places += [(("tensor_maps", name, key, index), item) for index, item in enumerate(items or ())]
        places.append((("tensor_maps", name, "offset"), one.offset))
    for index, launch in enumerate(manifest.launches):
        here: Path = ("launches", index)
        for place, argument in enumerate(launch.args):
            if isinstance(argument, I32 | I64 | F32 | F64):
                kind, text = number(argument)
                places.append(((*here, "args", place, kind), text))
        if isinstance(launch, DeviceLaunch):
            for key, items in (("grid", launch.grid), ("block", launch.block), ("cluster", launch.cluster)):
                places += [((*here, key, axis), item) for axis, item in enumerate(items or ())]
            places.append(((*here, "shared"), launch.shared))
            for text in TEMPLATE.findall(launch.kernel):
                yield from _names_fault(text, [*manifest.knobs], "a knob", source, (*here, "kernel"), _asked(spec, *KERNEL_FUNCTIONS))
    for path, item in places:
        if isinstance(item, str):
            yield from _names_fault(item, known, what, source, path, asked)
    for name, value in manifest.build.defines.items():
        if isinstance(value, str):
            yield from _names_fault(value, manifest.knobs, "a knob", source, ("build", "defines", name))
    arch = manifest.build.arch
    if arch is not None and not _LITERAL.fullmatch(arch):
        yield from _names_fault(arch, manifest.knobs, "a knob", source, ("build", "arch"))


def number(argument: I32 | I64 | F32 | F64) -> tuple[str, str]:
    """The kind of a number argument (`i32`, `i64`, `f32`, `f64`) and its expression."""
    kind = type(argument).__name__.lower()
    return kind, getattr(argument, kind)


def _check_rows(manifest: Manifest, source: Source) -> Iterator[Fault]:
    """What the compiler is given can be computed for every row of the table."""
    rows = range(len(manifest.table)) if manifest.knobs else [0]
    for row in rows:
        knobs = row_knobs(manifest, row)
        for name, value in manifest.build.defines.items():
            if isinstance(value, str):
                yield from _value_fault(value, knobs, (int, str), "a whole number or text", source, ("build", "defines", name))
        arch = manifest.build.arch
        if arch is not None and (arch in manifest.knobs or not _LITERAL.fullmatch(arch)):
            yield from _value_fault(arch, knobs, (str,), "text", source, ("build", "arch"))


def _value_fault(
    text: str, known: Mapping[str, expressions.Value], kinds: tuple[type, ...], wanted: str, source: Source, path: Path
) -> Iterator[Fault]:
    try:
        value = expressions.evaluate(text, known)
    except FactoryError as error:
        yield source.fault(path, str(error))
        return
    if not isinstance(value, kinds):
        yield source.fault(path, f"`{expressions.shown(text)}` gives {describe(value)}; {wanted} is expected")


def _check_workloads(spec: Spec, manifest: Manifest, source: Source) -> Iterator[Fault]:
    """Every public workload selects a row, and arguments and scratch can be computed for it. One fault a place is enough."""
    if manifest.knobs and not manifest.table:
        return  # a search space without a chosen point
    reached: dict[Path, Fault] = {}
    for workload in public(spec):
        for fault in _check_workload(manifest, workload, source):
            reached.setdefault((fault.line, fault.column), fault)
    yield from reached.values()


def _check_workload(manifest: Manifest, workload: Workload, source: Source) -> Iterator[Fault]:
    try:
        knobs = row_knobs(manifest, choose_row(manifest, workload.axes, *scope(workload)))
    except FactoryError as error:
        yield source.fault(("table",), f"workload {workload.name}: {error}", key=True)
        return
    if manifest.kernels:
        return  # a target with a GPU computes all of a launch, and says what can't be
    known, functions = scope(workload, knobs)
    for index, launch in enumerate(manifest.calls):
        for place, argument in enumerate(launch.args):
            if not isinstance(argument, str):
                yield from _number_fault(argument, known, functions, workload, source, ("launches", index, "args", place))
    for name, scratch in manifest.scratch.items():
        for index, item in enumerate(scratch.shape):
            try:
                length(item, known, functions)
            except FactoryError as error:
                yield source.fault(("scratch", name, "shape", index), f"workload {workload.name}: {error}")


def _number_fault(
    argument: I32 | I64 | F32 | F64,
    known: Mapping[str, expressions.Value],
    functions: expressions.Functions,
    workload: Workload,
    source: Source,
    path: Path,
) -> Iterator[Fault]:
    kind, text = number(argument)
    try:
        value = expressions.evaluate(text, known, functions)
    except FactoryError as error:
        yield source.fault((*path, kind), f"workload {workload.name}: {error}")
        return
    bits = {"i32": 31, "i64": 63}.get(kind)
    if isinstance(value, (bool, str)) or (bits and not isinstance(value, int)):
        wanted = "a whole number" if bits else "a number"
        yield source.fault((*path, kind), f"`{expressions.shown(text)}` gives {describe(value)}; {wanted} is expected")
    elif bits and not -(2**bits) <= value < 2**bits:
        yield source.fault((*path, kind), f"workload {workload.name}: {value} does not fit in {kind}")


def define_texts(manifest: Manifest) -> dict[str, set[str]]:
    """Each define with every text (not number) that it could become, for whatever choice of knobs."""
    found: dict[str, set[str]] = {}
    for name, value in manifest.build.defines.items():
        found[name] = set()
        if isinstance(value, str):
            try:
                used = expressions.names(value)
            except FactoryError:
                continue  # a fault at its place already
            found[name] |= expressions.texts(value)
            found[name] |= {item for knob in used for item in manifest.knobs.get(knob, ()) if isinstance(item, str)}
    return found
