"""From a manifest and a workload to plain launches: every name, extent and argument computed, nothing left to evaluate.

Pure arithmetic: what only the device knows (how many CTAs it runs at once) is asked through `Device`, for which a machine without a GPU
has a stand-in. Whatever can't be is `Rejected` with `launch_error` and a message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from runner.arguments import Scope
from runner.errors import FactoryError
from runner.manifest import (
    F32,
    F64,
    I32,
    I64,
    OCCUPANCY,
    SM_COUNT,
    TEMPLATE,
    DeviceArgument,
    DeviceLaunch,
    KnobValue,
    Manifest,
    MapArgument,
    TensorArgument,
    TensorMap,
    scope,
)
from runner.spec import expressions
from runner.spec.tensors import ITEM_BYTES, numel
from runner.spec.workload import Workload
from runner.verdict import Rejected, Verdict

Extent = tuple[int, int, int]
C_TYPES = {
    "float32": "float",
    "float64": "double",
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "int32": "int",
    "int64": "long long",
}
MAX_SCRATCH = 1 << 36
MAX_SHARED = 227 << 10
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_BLOCK = (1024, 1024, 64)
MAX_THREADS = 1024
MAX_CLUSTER = 16
_NAME = re.compile(r"[A-Za-z_]\w*(::[A-Za-z_]\w*)*(<[\w\s:,<>-]*>)?")
_PIECE = re.compile(r"[A-Za-z_][\w:]*( [A-Za-z_]\w*)*")


@dataclass(frozen=True)
class Block:
    """Memory that a call needs: `offset` bytes past an address aligned to `align`."""

    name: str
    size: int
    align: int
    offset: int


@dataclass(frozen=True)
class Argument:
    """One argument: the address of a block (`name` None: null), a tensor map by name, or the low `size` bytes of a word."""

    kind: str
    name: str | None = None
    word: int = 0
    size: int = 8


@dataclass(frozen=True)
class Launch:
    """One kernel launch. `number` is its place in the manifest, `after` the places of launches that it waits for."""

    number: int
    kernel: str
    grid: Extent
    block: Extent
    cluster: Extent
    shared: int
    args: tuple[Argument, ...]
    pdl: bool
    cooperative: bool
    carveout: int
    after: tuple[int, ...]


@dataclass(frozen=True)
class Map:
    """A tensor map as the driver wants it: axes innermost first, strides in bytes without the innermost."""

    of: str
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: str
    l2: str
    oob: str


@dataclass(frozen=True)
class Call:
    """One workload's call: the memory of a slot, which scratch is zeroed within the timed call, maps, and launches in order."""

    blocks: tuple[Block, ...]
    zeroed: tuple[str, ...] = ()
    maps: Mapping[str, Map] = field(default_factory=dict)
    launches: tuple[Launch, ...] = ()


class Device(Protocol):
    """What a launch may ask of the device."""

    @property
    def sm_count(self) -> int:
        """How many SMs it has."""

    def active_ctas(self, kernel: str, block: Extent, shared: int) -> int:
        """CTAs of this kernel that one SM runs at once."""

    def active_clusters(self, kernel: str, block: Extent, cluster: Extent, shared: int) -> int:
        """Clusters of this kernel that the whole device runs at once."""


@dataclass(frozen=True)
class Nominal:
    """Stands in for the device where there is none: what an H100 or H200 would run if only threads were counted."""

    sm_count: int = 132

    def active_ctas(self, kernel: str, block: Extent, shared: int) -> int:
        """See `Device`."""
        return max(1, min(2048 // max(1, numel(block)), 32, MAX_SHARED // max(1, shared)))

    def active_clusters(self, kernel: str, block: Extent, cluster: Extent, shared: int) -> int:
        """See `Device`."""
        return max(1, self.sm_count * self.active_ctas(kernel, block, shared) // numel(cluster))


def kernel_name(launch: DeviceLaunch, known: Scope) -> str:
    """The kernel's name expression with everything in braces computed."""

    def piece(match: re.Match[str]) -> str:
        value = known.value(match.group(1), "kernel")
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int) or (isinstance(value, str) and _PIECE.fullmatch(value)):
            return str(value)
        raise Rejected(
            Verdict.LAUNCH_ERROR, f"launch.yaml: kernel: `{match.group(1)}` gives `{value}`; allowed: whole numbers and type names"
        )

    name = TEMPLATE.sub(piece, launch.kernel)
    if not _NAME.fullmatch(name):
        raise Rejected(Verdict.LAUNCH_ERROR, f"launch.yaml: kernel: `{name}` is not a kernel's name with plain template arguments")
    return name


def naming_scope(workload: Workload, knobs: Mapping[str, KnobValue]) -> Scope:
    """What the expressions in a kernel's name know: knobs, and tensors through functions."""
    names, functions = scope(workload, knobs)
    return Scope(names, {**functions, "ctype": lambda name: C_TYPES[functions["dtype"](name)], "int": int})


def kernel_names(manifest: Manifest, knobs: Mapping[str, KnobValue], workload: Workload) -> tuple[str, ...]:
    """The instances that a workload needs, each once."""
    known = naming_scope(workload, knobs)
    return tuple(dict.fromkeys(kernel_name(launch, known) for launch in manifest.kernels))


def workload_blocks(workload: Workload) -> tuple[Block, ...]:
    """The tensors of a workload as blocks."""
    return tuple(
        Block(layout.name, layout.numel * ITEM_BYTES[layout.dtype], layout.align, layout.offset * ITEM_BYTES[layout.dtype])
        for layout in (*workload.inputs.values(), *workload.outputs.values())
    )


def plan_call(manifest: Manifest, knobs: Mapping[str, KnobValue], workload: Workload, device: Device) -> Call:
    """Compute everything of a workload's call. Raises `Rejected`."""
    return _Planner(manifest, knobs, workload, device).call()


class _Planner:
    def __init__(self, manifest: Manifest, knobs: Mapping[str, KnobValue], workload: Workload, device: Device) -> None:
        self._manifest = manifest
        self._workload = workload
        self._device = device
        names, functions = scope(workload, knobs)
        plain: dict[str, expressions.Value] = {**names, SM_COUNT: device.sm_count}
        self._static = Scope(plain, functions)
        self._known = Scope(plain, {**functions, OCCUPANCY[0]: self._active_ctas, OCCUPANCY[1]: self._active_clusters})
        self._naming = naming_scope(workload, knobs)

    def call(self) -> Call:
        blocks = [*workload_blocks(self._workload)]
        for name, scratch in self._manifest.scratch.items():
            size = ITEM_BYTES[scratch.dtype] * numel(self._length(item, f"scratch {name}") for item in scratch.shape)
            if size > MAX_SCRATCH:
                raise _refused(f"scratch {name} would take {size} bytes; allowed: up to {MAX_SCRATCH}")
            blocks.append(Block(name, size, scratch.align, 0))
        present = {block.name for block in blocks}
        maps = {name: self._map(name, one) for name, one in self._manifest.tensor_maps.items() if one.of in present}
        zeroed = tuple(name for name, scratch in self._manifest.scratch.items() if scratch.fill == "zero")
        launches = [self._launch(number, launch, present, maps) for number, launch in enumerate(self._manifest.kernels)]
        if launches and launches[0].pdl:
            raise _refused("launch 0: `pdl` on a call's first launch would let it overlap the call before; allowed: on later launches")
        kept = _without_gaps(launches)
        used = {argument.name for launch in kept for argument in launch.args if argument.kind == "map"}
        return Call(tuple(blocks), zeroed, {name: one for name, one in maps.items() if name in used}, kept)

    def _length(self, item: int | str, what: str) -> int:
        value = self._known.whole(item, 40, what)
        if value < 0:
            raise _refused(f"{what}: `{item}` is {value}; a length is at least 0")
        return value

    def _extent(self, items: Sequence[int | str], what: str, most: Sequence[int], known: Scope) -> Extent:
        first, second, third = (known.whole(item, 31, what) for item in items)
        for value, limit in zip((first, second, third), most, strict=True):
            if not 0 <= value <= limit:
                raise _refused(f"{what} is [{first}, {second}, {third}]; allowed: 0 to {list(most)}")
        return first, second, third

    def _launch(self, number: int, launch: DeviceLaunch, present: set[str], maps: Mapping[str, Map]) -> Launch:
        what = f"launch {number}"
        block, cluster, shared = self._shape(number)
        grid = self._extent(launch.grid, f"{what}: grid", MAX_GRID, self._known)
        if any(extent % size for extent, size in zip(grid, cluster, strict=True)):
            raise _refused(f"{what}: the grid {list(grid)} is no multiple of the cluster {list(cluster)}")
        return Launch(
            number=number,
            kernel=kernel_name(launch, self._naming),
            grid=grid,
            block=block,
            cluster=cluster,
            shared=shared,
            args=tuple(self._argument(argument, present, maps, what) for argument in launch.args),
            pdl=launch.attributes.pdl,
            cooperative=launch.attributes.cooperative,
            carveout=launch.attributes.carveout,
            after=launch.after if launch.after is not None else (number - 1,) if number else (),
        )

    def _shape(self, number: int) -> tuple[Extent, Extent, int]:
        """Block, cluster and dynamic shared memory of a launch: what occupancy depends on, and so may not ask for it."""
        if not 0 <= number < len(self._manifest.kernels):
            raise _refused(f"there is no launch {number}; there are {len(self._manifest.kernels)}, counted from 0")
        launch, what = self._manifest.kernels[number], f"launch {number}"
        block = self._extent(launch.block, f"{what}: block", MAX_BLOCK, self._static)
        if not 1 <= numel(block) <= MAX_THREADS:
            raise _refused(f"{what}: a block of {numel(block)} threads; allowed: 1 to {MAX_THREADS}")
        cluster = (1, 1, 1)
        if launch.cluster is not None:
            cluster = self._extent(launch.cluster, f"{what}: cluster", (MAX_CLUSTER,) * 3, self._static)
            if not 1 <= numel(cluster) <= MAX_CLUSTER:
                raise _refused(f"{what}: a cluster of {numel(cluster)} CTAs; allowed: 1 to {MAX_CLUSTER}")
        shared = self._static.whole(launch.shared, 31, f"{what}: shared")
        if not 0 <= shared <= MAX_SHARED:
            raise _refused(f"{what}: {shared} bytes of dynamic shared memory; allowed: 0 to {MAX_SHARED}")
        return block, cluster, shared

    def _active_ctas(self, number: object) -> int:
        block, _, shared = self._shape(_launch_number(number))
        kernel = kernel_name(self._manifest.kernels[_launch_number(number)], self._naming)
        return self._device.sm_count * self._device.active_ctas(kernel, block, shared)

    def _active_clusters(self, number: object) -> int:
        block, cluster, shared = self._shape(_launch_number(number))
        kernel = kernel_name(self._manifest.kernels[_launch_number(number)], self._naming)
        return self._device.active_clusters(kernel, block, cluster, shared)

    def _argument(self, argument: DeviceArgument, present: set[str], maps: Mapping[str, Map], what: str) -> Argument:
        if isinstance(argument, I32 | I64 | F32 | F64):
            return Argument("word", word=self._known.word(argument), size=4 if isinstance(argument, I32 | F32) else 8)
        if isinstance(argument, MapArgument):
            if argument.map not in maps:
                raise _refused(f"{what}: the tensor map {argument.map} is over a tensor that this workload lacks")
            return Argument("map", argument.map, size=128)
        name = argument.tensor if isinstance(argument, TensorArgument) else argument
        return Argument("address", name if name in present else None)

    def _map(self, name: str, one: TensorMap) -> Map:
        what = f"tensor map {name}"
        layout = self._workload.inputs.get(one.of) or self._workload.outputs.get(one.of)
        if layout is not None:
            dtype, own = layout.dtype, layout.shape
        else:
            scratch = self._manifest.scratch[one.of]
            dtype, own = scratch.dtype, tuple(self._length(item, what) for item in scratch.shape)
        shape = tuple(self._length(item, what) for item in one.shape) if one.shape is not None else own
        strides = tuple(numel(shape[axis + 1 :]) for axis in range(len(shape)))
        if one.strides is not None:
            strides = tuple(self._length(item, what) for item in one.strides)
        box = tuple(self._length(item, what) for item in one.box)
        steps = one.element_strides or (1,) * len(box)
        if not len(shape) == len(strides) == len(box) == len(steps):
            raise _refused(f"{what}: shape, strides, box and element_strides must have as many axes as each other")
        size, offset = ITEM_BYTES[dtype], self._length(one.offset, what)
        if strides[-1] != 1:
            raise _refused(f"{what}: the innermost stride is {strides[-1]}; the copy engine wants 1")
        if offset + sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True)) >= numel(own) and all(shape):
            raise _refused(f"{what}: the view leaves {one.of}")
        return Map(
            of=one.of,
            dtype=dtype,
            offset=offset * size,
            shape=shape[::-1],
            strides=tuple(stride * size for stride in strides[-2::-1]),
            box=box[::-1],
            element_strides=tuple(steps)[::-1],
            swizzle=one.swizzle,
            l2=one.l2,
            oob=one.oob,
        )


def _without_gaps(launches: Sequence[Launch]) -> tuple[Launch, ...]:
    """The launches that have a CTA. Who waits for one that is left out waits for what that one waited for; the first overlaps nothing."""
    stand_ins: dict[int, tuple[int, ...]] = {}
    kept: list[Launch] = []
    for launch in launches:
        after = tuple(dict.fromkeys(one for other in launch.after for one in stand_ins.get(other, (other,))))
        if numel(launch.grid):
            kept.append(replace(launch, after=after, pdl=launch.pdl and bool(kept)))
        else:
            stand_ins[launch.number] = after
    return tuple(kept)


def _launch_number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise FactoryError(f"a launch is named by its number, not by `{value}`")
    return value


def _refused(message: str) -> Rejected:
    return Rejected(Verdict.LAUNCH_ERROR, f"launch.yaml: {message}")
