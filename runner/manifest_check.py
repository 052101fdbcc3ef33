"""Checks a `launch.yaml` against its spec: names exist, every row fixes every knob, every expression can be computed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from runner.candidate import Candidate
from runner.errors import FactoryError, Fault
from runner.identity import MANIFEST_NAME
from runner.manifest import F32, F64, I32, I64, KnobValue, Manifest, choose_row, row_knobs
from runner.spec import expressions
from runner.spec.checks import unknown
from runner.spec.models import Spec
from runner.spec.workload import Workload
from runner.spec.workloads import length, public
from runner.yaml_source import Path, Source, describe, read_yaml

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
    tensors = [*spec.inputs, *spec.outputs]
    taken = {**dict.fromkeys(spec.axes, "an axis"), **dict.fromkeys(spec.scalars, "a scalar"), **dict.fromkeys(tensors, "a tensor")}
    for section, found in (("knobs", manifest.knobs), ("scratch", manifest.scratch)):
        for name in found:
            if name in expressions.FUNCTIONS or name in expressions.CONSTANTS or name == "when":
                yield source.fault((section, name), f"`{name}` is a word of expressions or of the table; choose another name", key=True)
            elif name in taken:
                yield source.fault((section, name), f"`{name}` is {taken[name]} already; choose another name", key=True)
            taken.setdefault(name, f"in `{section}`")
    for index, launch in enumerate(manifest.launches):
        for place, argument in enumerate(launch.args):
            if isinstance(argument, str) and argument not in tensors and argument not in manifest.scratch:
                allowed = [*tensors, *manifest.scratch]
                message = unknown(argument, "a tensor or scratch", allowed)
                if argument in spec.axes or argument in spec.scalars:
                    message += f"; a number is passed as {{i64: {argument}}} or {{f32: {argument}}}"
                yield source.fault(("launches", index, "args", place), message)


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
        yield from _names_fault(value, [*spec.axes, *spec.scalars], "an axis or a scalar", source, path)


def _names_fault(text: str, known: Iterable[str], what: str, source: Source, path: Path) -> Iterator[Fault]:
    try:
        wrong = sorted(expressions.names(text) - set(known))
    except FactoryError as error:
        yield source.fault(path, str(error))
        return
    if wrong:
        yield source.fault(path, unknown(wrong[0], what, known))


def _check_expressions(spec: Spec, manifest: Manifest, source: Source) -> Iterator[Fault]:
    """Every expression parses and uses only names that are known where it stands."""
    known = _known(spec, manifest)
    for name, scratch in manifest.scratch.items():
        for index, item in enumerate(scratch.shape):
            if isinstance(item, str):
                yield from _names_fault(item, known, "an axis, a scalar or a knob", source, ("scratch", name, "shape", index))
    for index, launch in enumerate(manifest.launches):
        for place, argument in enumerate(launch.args):
            if not isinstance(argument, str):
                kind, text = number(argument)
                yield from _names_fault(text, known, "an axis, a scalar or a knob", source, ("launches", index, "args", place, kind))
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
        knobs = row_knobs(manifest, choose_row(manifest, workload.axes, workload.scalars))
    except FactoryError as error:
        yield source.fault(("table",), f"workload {workload.name}: {error}", key=True)
        return
    known: dict[str, expressions.Value] = {**workload.axes, **workload.scalars, **knobs}
    for index, launch in enumerate(manifest.launches):
        for place, argument in enumerate(launch.args):
            if not isinstance(argument, str):
                yield from _number_fault(argument, known, workload, source, ("launches", index, "args", place))
    for name, scratch in manifest.scratch.items():
        for index, item in enumerate(scratch.shape):
            try:
                length(item, known)
            except FactoryError as error:
                yield source.fault(("scratch", name, "shape", index), f"workload {workload.name}: {error}")


def _number_fault(
    argument: I32 | I64 | F32 | F64, known: Mapping[str, expressions.Value], workload: Workload, source: Source, path: Path
) -> Iterator[Fault]:
    kind, text = number(argument)
    try:
        value = expressions.evaluate(text, known)
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
