"""`launch.yaml`: what a candidate's sources are, which knobs they have, and how the trusted launcher calls them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from runner.errors import FactoryError
from runner.spec import expressions
from runner.spec.models import SOURCE, DType, Expression, Model, Name

KnobValue = int | str
SourceName = Annotated[str, Field(pattern=SOURCE)]


class Build(Model):
    """How the sources are compiled. `arch` and the values of `defines` may be expressions over the knobs (a knob's name alone is one)."""

    std: Literal["c++17", "c++20"] = "c++20"
    arch: Expression | None = None
    fast_math: bool = False
    defines: dict[Name, int | Expression] = Field(default={}, max_length=64)


class Scratch(Model):
    """Memory that the launcher gives to a call: poisoned, or zeroed within the timed call."""

    dtype: DType
    shape: tuple[int | Expression, ...] = Field(strict=False)
    fill: Literal["poison", "zero"] = "poison"
    align: Literal[4, 8, 16, 32, 64, 128, 256] = 128


class I32(Model):
    """A 32-bit integer argument, from an expression over axes, integer scalars and knobs."""

    i32: Expression


class I64(Model):
    """A 64-bit integer argument."""

    i64: Expression


class F32(Model):
    """A float argument."""

    f32: Expression


class F64(Model):
    """A double argument."""

    f64: Expression


def _argument_kind(value: object) -> str | None:
    """Which kind of argument a piece of YAML is meant to be; None is a fault with the message below."""
    if isinstance(value, str):
        return "tensor"
    if isinstance(value, dict) and len(value) == 1:
        return next((kind for kind in ("i32", "i64", "f32", "f64") if kind in value), None)
    return type(value).__name__.lower() if isinstance(value, I32 | I64 | F32 | F64) else None


Argument = Annotated[
    Annotated[Name, Tag("tensor")]
    | Annotated[I32, Tag("i32")]
    | Annotated[I64, Tag("i64")]
    | Annotated[F32, Tag("f32")]
    | Annotated[F64, Tag("f64")],
    Discriminator(
        _argument_kind,
        custom_error_type="argument_kind",
        custom_error_message="an argument is a tensor's name, or one of {i32: …}, {i64: …}, {f32: …}, {f64: …}",
    ),
]


class Launch(Model):
    """One call of a host function (`target: cpu`): `void function(args…)` with C linkage. A bare name is a tensor's address."""

    function: Name
    args: tuple[Argument, ...] = Field(min_length=1, max_length=64, strict=False)


class Manifest(Model):
    """The whole of `launch.yaml`. The first `table` row whose `when` holds fixes the knobs; a row must name every knob.

    A manifest with knobs whose table is empty is a search space without a chosen point: it can be tuned, not judged.
    """

    sources: tuple[SourceName, ...] = Field(min_length=1, max_length=16, strict=False)
    build: Build = Build()
    knobs: dict[Name, Annotated[tuple[KnobValue, ...], Field(min_length=1, max_length=256, strict=False)]] = Field(
        default={}, max_length=64
    )
    table: tuple[dict[Name, KnobValue], ...] = Field(default=(), max_length=64, strict=False)
    scratch: dict[Name, Scratch] = Field(default={}, max_length=16)
    launches: tuple[Launch, ...] = Field(min_length=1, max_length=16, strict=False)


def choose_row(manifest: Manifest, axes: Mapping[str, int], scalars: Mapping[str, float | int] | None = None) -> int:
    """The index of the first table row whose `when` holds on these axis lengths (and scalars, where a row uses them).

    A manifest without knobs and table has one implicit row, 0. Raises `FactoryError` where no row holds.
    """
    if not manifest.table and not manifest.knobs:
        return 0
    for index, row in enumerate(manifest.table):
        holds = expressions.evaluate(str(row.get("when", "true")), {**axes, **(scalars or {})})
        if not isinstance(holds, bool):
            raise FactoryError(f"`when` of table row {index + 1} gives {holds}; a comparison, true or false, is expected")
        if holds:
            return index
    sizes = ", ".join(f"{name} = {length}" for name, length in axes.items())
    raise FactoryError(f'no row of the table holds for {sizes}; end the table with a row `when: "true"`')


def row_knobs(manifest: Manifest, index: int) -> dict[str, KnobValue]:
    """The knob values that a table row chooses. The implicit row of a manifest without a table chooses nothing."""
    if not manifest.table and not manifest.knobs and index == 0:
        return {}
    if index >= len(manifest.table):
        raise FactoryError(f"the table has no row {index + 1}; it has {len(manifest.table)}")
    return {name: value for name, value in manifest.table[index].items() if name != "when"}


def space_size(manifest: Manifest) -> int:
    """The number of points of the knob space: 1 without knobs."""
    return math.prod(len(values) for values in manifest.knobs.values())
