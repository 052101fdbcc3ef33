"""Checks a YAML source against a pydantic model, and says what is wrong at its line and column, in words for people."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from runner.errors import Fault
from runner.spec.models import PATTERNS
from runner.yaml_source import Path, Source, describe

M = TypeVar("M", bound=BaseModel)

_KINDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "a mapping (key: value)",
    "model_type": "a mapping (key: value)",
    "model_attributes_type": "a mapping (key: value)",
    "tuple_type": "a list",
}
_BOUNDS = {
    "greater_than": ("greater than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}


@dataclass(frozen=True)
class _Problem:
    """One pydantic error, placed: `union` is where a choice between kinds was tried, `member` the kind that this error belongs to."""

    details: ErrorDetails
    path: Path
    union: Path | None
    member: str


def validate(model: type[M], source: Source) -> tuple[M | None, tuple[Fault, ...]]:
    """The model of the source's data, or None with every fault that pydantic finds in it."""
    if not isinstance(source.data, dict):
        return None, (source.fault((), f"the file holds {describe(source.data)}; allowed: a mapping (key: value)"),)
    try:
        return model.model_validate(source.data), ()
    except ValidationError as error:
        problems = _without_union_noise([_placed(details, source.data) for details in error.errors(include_url=False)])
        return None, tuple(dict.fromkeys(fault for group in problems for fault in _faults(group, source, model)))


def _placed(details: ErrorDetails, data: Any) -> _Problem:
    """Follow an error's location through the data; parts of it that are not in the data name a union's member."""
    path: Path = ()
    union: Path | None = None
    member = ""
    location = details["loc"][:-1] if details["type"] == "missing" else details["loc"]
    for part in location:
        if part == "[key]":
            continue
        inside = (isinstance(data, dict) and part in data) or (isinstance(data, list) and isinstance(part, int) and part < len(data))
        if inside:
            data = data[part]
            path = (*path, part)
        else:
            union, member = path, str(part)
    return _Problem(details, path, union, member)


def _without_union_noise(problems: Sequence[_Problem]) -> list[list[_Problem]]:
    """Group the problems of each union, keeping the members that the data was nearest to: those of the right kind."""
    groups: dict[Any, list[_Problem]] = {}
    for index, problem in enumerate(problems):
        groups.setdefault(index if problem.union is None else problem.union, []).append(problem)
    kept: list[list[_Problem]] = []
    for group in groups.values():
        wrong_kind = {problem.member for problem in group if problem.path == problem.union and problem.details["type"] in _KINDS}
        near = [problem for problem in group if problem.member not in wrong_kind]
        kept += [[problem] for problem in near] if near else [group]
    return kept


def _faults(group: Sequence[_Problem], source: Source, model: type[BaseModel]) -> Iterable[Fault]:
    """The fault of one problem, or of a union none of whose members has the right kind."""
    problem = group[0]
    details, path = problem.details, problem.path
    kind, context = details["type"], details.get("ctx", {})
    name = f"`{path[-1]}`" if path and isinstance(path[-1], str) else "this item"
    if kind == "too_short" and len(details["input"]) >= context["min_length"]:
        return  # the list is long enough; its items have faults of their own
    if kind == "extra_forbidden":
        allowed = _keys(model, details["loc"])
        yield source.fault(path, f"unknown key {name}{_suggestion(str(path[-1]), allowed)}; allowed here: {', '.join(allowed)}", key=True)
    elif kind == "missing":
        missing = details["loc"][-1]
        if isinstance(missing, int):
            yield source.fault(path, f"{name} has too few items; item {missing + 1} is missing")
        else:
            yield source.fault(path, f"the key `{missing}` is missing" + (f" in {name}" if path else ""), key=True)
    elif details["loc"][-1:] == ("[key]",):
        yield source.fault(path, f"the name {name} is not allowed; allowed: {PATTERNS[context['pattern']]}", key=True)
    elif kind == "argument_kind":
        yield source.fault(path, f"{details['msg']}; not {describe(details['input'])}")
    elif kind == "union_tag_not_found":
        yield source.fault(path, f"the key {_quoted(context['discriminator'])} is missing in {name}", key=True)
    elif kind == "union_tag_invalid":
        key = context["discriminator"].strip("'")
        shown = describe(details["input"][key])
        yield source.fault((*path, key), f"`{key}` must be one of {_quoted(context['expected_tags'])}, not {shown}")
    else:
        yield source.fault(path, f"{name} {_value_message(group, source)}")


def _value_message(group: Sequence[_Problem], source: Source) -> str:
    details = group[0].details
    kind, context, shown = details["type"], details.get("ctx", {}), describe(details["input"])
    if kind in _KINDS:
        wanted = [_KINDS[problem.details["type"]] for problem in group]
        if "a number" in wanted:
            wanted = [word for word in wanted if word != "a whole number"]
        text = " or ".join(dict.fromkeys(wanted))
        hint = "; put it in quotes" if wanted == ["text"] and isinstance(details["input"], (int, float)) else ""
        return f"must be {text}, not {shown}{hint}"
    if kind == "literal_error":
        return f"must be one of {_quoted(context['expected'].replace(' or ', ', '))}, not {shown}"
    if kind == "string_pattern_mismatch":
        return f"is {shown}; allowed: {PATTERNS[context['pattern']]}"
    if kind in _BOUNDS:
        words, key = _BOUNDS[kind]
        return f"must be {words} {context[key]:g}, not {shown}"
    if kind == "finite_number":
        return f"must be a finite number, not {shown}"
    if kind in ("too_short", "too_long"):
        return (
            f"must have {'at least' if kind == 'too_short' else 'at most'} {context.get('min_length', context.get('max_length'))} item(s)"
        )
    if kind in ("string_too_short", "string_too_long"):
        words = "at least" if kind == "string_too_short" else "at most"
        return f"must have {words} {context.get('min_length', context.get('max_length'))} character(s)"
    return f"is not allowed: {details['msg']}"


def _limit(context: Mapping[str, Any]) -> str:
    return f"at least {context['min_length']}" if "min_length" in context else f"at most {context['max_length']}"


def _quoted(listing: str) -> str:
    """pydantic's `'a', 'b'` with our quotes."""
    return ", ".join(f"`{item.strip()[1:-1]}`" for item in listing.split(","))


def _suggestion(name: str, allowed: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, allowed, n=1)
    return f" (did you mean `{near[0]}`?)" if near else ""


def _keys(model: type[BaseModel], location: Sequence[str | int]) -> list[str]:
    """The keys that are allowed where an unknown one stands: the location is followed through the model's annotations."""
    here: Any = model
    for part in location[:-1]:
        here = _step(here, part)
    return _field_names(_bare(here))


def _step(annotation: Any, part: str | int) -> Any:
    annotation = _bare(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return next(field.annotation for name, field in annotation.model_fields.items() if part in (name, field.alias))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return arguments[1]
    if origin is tuple:
        return arguments[0]
    for member in map(_bare, arguments):  # a union: the part names its member, by class name or by the value of its discriminator
        if isinstance(member, type) and issubclass(member, BaseModel) and (member.__name__ == part or part in _literals(member)):
            return member
    return _step(next(member for member in arguments if member is not types.NoneType), part)


def _bare(annotation: Any) -> Any:
    while typing.get_origin(annotation) is Annotated:
        annotation = typing.get_args(annotation)[0]
    return annotation


def _literals(model: type[BaseModel]) -> set[Any]:
    fields = (_bare(field.annotation) for field in model.model_fields.values())
    return {value for field in fields if typing.get_origin(field) is typing.Literal for value in typing.get_args(field)}


def _field_names(annotation: Any) -> list[str]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [field.alias or name for name, field in annotation.model_fields.items()]
    members = [_bare(member) for member in typing.get_args(annotation)]
    return list(dict.fromkeys(name for member in members for name in _field_names(member)))
