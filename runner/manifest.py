"""`launch.yaml`: what a candidate's sources are, which knobs they have, and how the trusted launcher calls them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from runner.errors import FactoryError
from runner.spec import expressions, tensors
from runner.spec.models import SOURCE, DType, Expression, Model, Name
from runner.spec.workload import Workload

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


class TensorArgument(Model):
    """The address of a tensor or of scratch; a bare name says the same."""

    tensor: Name


class MapArgument(Model):
    """A tensor map, passed by value (`const __grid_constant__ CUtensorMap`)."""

    map: Name


def _device_argument_kind(value: object) -> str | None:
    if isinstance(value, dict) and len(value) == 1 and ("tensor" in value or "map" in value):
        return "address" if "tensor" in value else "map"
    if isinstance(value, TensorArgument | MapArgument):
        return "address" if isinstance(value, TensorArgument) else "map"
    return _argument_kind(value)


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
DeviceArgument = Annotated[
    Annotated[Name, Tag("tensor")]
    | Annotated[TensorArgument, Tag("address")]
    | Annotated[MapArgument, Tag("map")]
    | Annotated[I32, Tag("i32")]
    | Annotated[I64, Tag("i64")]
    | Annotated[F32, Tag("f32")]
    | Annotated[F64, Tag("f64")],
    Discriminator(
        _device_argument_kind,
        custom_error_type="argument_kind",
        custom_error_message="an argument is a tensor's name, or one of {tensor: …}, {map: …}, {i32: …}, {i64: …}, {f32: …}, {f64: …}",
    ),
]


class Launch(Model):
    """One call of a host function (`target: cpu`): `void function(args…)` with C linkage. A bare name is a tensor's address."""

    function: Name
    args: tuple[Argument, ...] = Field(min_length=1, max_length=64, strict=False)


class Attributes(Model):
    """How a kernel is launched.

    `pdl`: it may start before the launch before it has ended (never the first of a call). `cooperative`: all CTAs run at once, so that
    they may wait for each other. `carveout`: the share of the first-level cache that is shared memory, in percent; -1 leaves it to the
    driver.
    """

    pdl: bool = False
    cooperative: bool = False
    carveout: Annotated[int, Field(ge=-1, le=100)] = -1


Extent = Annotated[tuple[int | Expression, int | Expression, int | Expression], Field(strict=False)]


class DeviceLaunch(Model):
    """One launch of a kernel (targets with a GPU). `kernel` is its name as in the source, with expressions in braces for template
    arguments. A launch whose grid has no CTA is left out. `after` lists the launches (by number, from 0) that it waits for; without it, the
    one before. A bare name among the arguments is a tensor's address, null where the tensor is absent."""

    kernel: Annotated[str, Field(min_length=1, max_length=400)]
    grid: Extent
    block: Extent
    cluster: Extent | None = None
    shared: int | Expression = 0
    args: tuple[DeviceArgument, ...] = Field(max_length=64, strict=False)
    attributes: Attributes = Attributes()
    after: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(max_length=16, strict=False)] | None = None


class TensorMap(Model):
    """A descriptor for the tensor copy engine over a tensor or scratch, `of`. `box` is the tile in elements, outermost axis first, as are
    all lists here. `shape` and `strides` (in elements) and `offset` give another view of the same memory, of rank 1 to 5."""

    of: Name
    box: tuple[int | Expression, ...] = Field(min_length=1, max_length=5, strict=False)
    shape: Annotated[tuple[int | Expression, ...], Field(min_length=1, max_length=5, strict=False)] | None = None
    strides: Annotated[tuple[int | Expression, ...], Field(min_length=1, max_length=5, strict=False)] | None = None
    offset: int | Expression = 0
    element_strides: Annotated[tuple[int, ...], Field(min_length=1, max_length=5, strict=False)] | None = None
    swizzle: Literal["none", "32B", "64B", "128B"] = "none"
    l2: Literal["none", "64B", "128B", "256B"] = "128B"
    oob: Literal["zero", "nan"] = "zero"


TEMPLATE = re.compile(r"\{([^{}]*)\}")
"""An expression within a kernel's name."""
OCCUPANCY = ("max_active_ctas", "max_active_clusters")
"""Functions of a launch's number: how many of its CTAs, or clusters, the whole device runs at once."""
SM_COUNT = "sm_count"
KERNEL_FUNCTIONS = ("ctype", "int")
"""Functions for kernel names: a tensor's CUDA C++ type, and a truth value or number as a whole number."""


def _launch_kind(value: object) -> str:
    if isinstance(value, dict):
        return "DeviceLaunch" if "kernel" in value else "Launch"
    return "DeviceLaunch" if isinstance(value, DeviceLaunch) else "Launch"


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
    tensor_maps: dict[Name, TensorMap] = Field(default={}, max_length=32)
    launches: tuple[
        Annotated[Annotated[Launch, Tag("Launch")] | Annotated[DeviceLaunch, Tag("DeviceLaunch")], Discriminator(_launch_kind)], ...
    ] = Field(min_length=1, max_length=16, strict=False)

    @property
    def calls(self) -> tuple[Launch, ...]:
        """The launches that call host functions."""
        return tuple(launch for launch in self.launches if isinstance(launch, Launch))

    @property
    def kernels(self) -> tuple[DeviceLaunch, ...]:
        """The launches that launch kernels."""
        return tuple(launch for launch in self.launches if isinstance(launch, DeviceLaunch))


def choose_row(
    manifest: Manifest,
    axes: Mapping[str, int],
    names: Mapping[str, expressions.Value] = MappingProxyType({}),
    functions: expressions.Functions = MappingProxyType({}),
) -> int:
    """The index of the first table row whose `when` holds on these axis lengths, with `names` and `functions` as from `scope`.

    A manifest without knobs and table has one implicit row, 0. Raises `FactoryError` where no row holds.
    """
    if not manifest.table and not manifest.knobs:
        return 0
    for index, row in enumerate(manifest.table):
        holds = expressions.evaluate(str(row.get("when", "true")), {**axes, **names}, functions)
        if not isinstance(holds, bool):
            raise FactoryError(f"`when` of table row {index + 1} gives {holds}; a comparison, true or false, is expected")
        if holds:
            return index
    sizes = ", ".join(f"{name} = {length}" for name, length in axes.items())
    raise FactoryError(f'no row of the table holds for {sizes}; end the table with a row `when: "true"`')


def scope(
    workload: Workload, knobs: Mapping[str, KnobValue] = MappingProxyType({})
) -> tuple[dict[str, expressions.Value], expressions.Functions]:
    """What expressions of a manifest know on a workload: names with their values (a tensor's is its name), and functions over tensors."""
    layouts = {**workload.inputs, **workload.outputs}
    dtypes = {**{name: layout.dtype for name, layout in layouts.items()}, **workload.dtypes}
    names: dict[str, expressions.Value] = {**{name: name for name in dtypes}, **workload.axes, **workload.scalars, **knobs}
    return names, tensors.functions(layouts, dtypes)


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
