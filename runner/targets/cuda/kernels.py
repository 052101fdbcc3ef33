"""Inside the worker: prepared kernels and the calls made of them, down to the driver's structures."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as d

from runner.targets.cuda import driver
from runner.targets.cuda.driver import call

if TYPE_CHECKING:
    from runner.targets.cuda.serve import Server

PORTABLE_CLUSTER = 8
_TYPES = {
    "float32": "FLOAT32",
    "float64": "FLOAT64",
    "float16": "FLOAT16",
    "bfloat16": "BFLOAT16",
    "int32": "INT32",
    "int64": "INT64",
}
_KIND = d.CUlaunchAttributeID


class Prepared:
    """A kernel with its launch shape: `grid`, `block`, `cluster`, `shared`, and optionally `pdl`, `cooperative`, `carveout`."""

    def __init__(self, function: Any, launch: Mapping[str, Any]) -> None:
        self.function = function
        self._launch = launch
        cluster: Sequence[int] = launch["cluster"]
        self._clustered = cluster[0] * cluster[1] * cluster[2] > 1
        self._attributes = [*self._kinds()]
        kind = d.CUfunction_attribute
        if launch["shared"]:
            call(d.cuFuncSetAttribute, function, kind.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, launch["shared"])
        if cluster[0] * cluster[1] * cluster[2] > PORTABLE_CLUSTER:
            call(d.cuFuncSetAttribute, function, kind.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)
        if launch.get("carveout", -1) >= 0:
            call(d.cuFuncSetAttribute, function, kind.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, launch["carveout"])

    def _kinds(self) -> Sequence[Any]:
        found = []
        if self._clustered:
            one = d.CUlaunchAttribute()
            one.id = _KIND.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            one.value.clusterDim.x, one.value.clusterDim.y, one.value.clusterDim.z = self._launch["cluster"]
            found.append(one)
        if self._launch.get("cooperative"):
            one = d.CUlaunchAttribute()
            one.id = _KIND.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            one.value.cooperative = 1
            found.append(one)
        if self._launch.get("pdl"):
            one = d.CUlaunchAttribute()
            one.id = _KIND.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            one.value.programmaticStreamSerializationAllowed = 1
            found.append(one)
        return found

    def _config(self, stream: Any) -> Any:
        config = d.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = self._launch["grid"]
        config.blockDimX, config.blockDimY, config.blockDimZ = self._launch["block"]
        config.sharedMemBytes = self._launch["shared"]
        config.hStream = stream
        if self._attributes:
            config.attrs = self._attributes
            config.numAttrs = len(self._attributes)
        return config

    def launch(self, words: Sequence[tuple[int, int] | bytes], stream: Any) -> None:
        """Launch with arguments: each a word with its size in bytes, or bytes (a tensor map)."""
        self.launch_packed(Packed(words), stream)

    def launch_packed(self, packed: Packed, stream: Any) -> None:
        """Launch with arguments that were packed before."""
        call(d.cuLaunchKernelEx, self._config(stream), self.function, packed.address, 0)

    def active_ctas(self) -> int:
        """CTAs that one SM runs at once."""
        block = self._launch["block"]
        threads = block[0] * block[1] * block[2]
        return int(call(d.cuOccupancyMaxActiveBlocksPerMultiprocessor, self.function, threads, self._launch["shared"]))

    def active_clusters(self) -> int:
        """Clusters that the device runs at once."""
        return int(call(d.cuOccupancyMaxActiveClusters, self.function, self._config(0)))


class Packed:
    """Arguments in memory as the driver wants them: an array of pointers to values. The driver copies them at the launch."""

    def __init__(self, words: Sequence[tuple[int, int] | bytes]) -> None:
        self._values: list[Any] = []
        for word in words:
            if isinstance(word, bytes):
                # Tensor maps must be aligned to 64 bytes.
                room = (ctypes.c_uint8 * (len(word) + 64))()
                start = -ctypes.addressof(room) % 64
                ctypes.memmove(ctypes.addressof(room) + start, word, len(word))
                self._values.append((room, ctypes.addressof(room) + start))
            else:
                value = ctypes.c_uint64(word[0])
                self._values.append((value, ctypes.addressof(value)))
        self._pointers = (ctypes.c_void_p * max(1, len(words)))(*(address for _, address in self._values))
        self.address = ctypes.addressof(self._pointers)


class Calls:
    """The calls of a candidate: for each set, its launches with their arguments packed, and what is cleared or restored before them."""

    def __init__(self, server: Server, plan: Mapping[str, Any], addresses: Sequence[Mapping[str, int]]) -> None:
        self._launches: Sequence[Mapping[str, Any]] = plan["launches"]
        self._prepared = [Prepared(server.function(plan["module"], one["symbol"]), one) for one in self._launches]
        self._simple = all(
            list(one["after"]) == [before["number"]] for before, one in zip(self._launches, self._launches[1:], strict=False)
        )
        self._memory: list[driver.Mapping] = []
        self._zeroed = [[(places[name], size) for name, size in plan["zeroed"]] for places in addresses]
        self._restored = [self._pristine(*server.variable(plan["module"], symbol)) for symbol in plan["variables"]]
        self._packed = [self._pack(plan, places) for places in addresses]
        self._branches = [call(d.cuStreamCreate, int(d.CUstream_flags.CU_STREAM_NON_BLOCKING)) for _ in self._launches if not self._simple]
        self._overlapping = any(launch.get("pdl") for launch in self._launches)
        self._events = [call(d.cuEventCreate, int(d.CUevent_flags.CU_EVENT_DISABLE_TIMING)) for _ in range(len(self._launches) + 1)]

    def _pristine(self, address: int, size: int) -> tuple[int, int, int]:
        """A copy of a global variable as it is when the binary was just loaded, where no kernel finds it."""
        unit = driver.granularity()
        memory = driver.allocate(max(1, -(-size // unit)) * unit, driver.somewhere())
        self._memory.append(memory)
        call(d.cuMemcpyDtoD, memory.address, address, size)
        return address, memory.address, size

    def close(self) -> None:
        """Give back what was allocated."""
        for memory in self._memory:
            memory.close()
        self._memory = []

    def _pack(self, plan: Mapping[str, Any], places: Mapping[str, int]) -> list[Packed]:
        maps = {name: _encoded(one, places[one["of"]]) for name, one in plan["maps"].items()}
        packed = []
        for launch in self._launches:
            words: list[tuple[int, int] | bytes] = []
            for kind, name, word, size in launch["args"]:
                if kind == "word":
                    words.append((word, size))
                elif kind == "map":
                    words.append(maps[name])
                else:
                    words.append((places[name] if name is not None else 0, 8))
            packed.append(Packed(words))
        return packed

    def __call__(self, number: int, stream: Any) -> None:
        """Enqueue one call on a set."""
        for address, copy, size in self._restored:
            call(d.cuMemcpyDtoDAsync, address, copy, size, stream)
        for address, size in self._zeroed[number]:
            if size:
                call(d.cuMemsetD8Async, address, 0, size, stream)
        if self._simple:
            for prepared, packed, event in zip(self._prepared, self._packed[number], self._events, strict=False):
                prepared.launch_packed(packed, stream)
                if self._overlapping:
                    call(d.cuEventRecord, event, stream)
            if self._overlapping:
                # The last launch may end before an earlier one that it overlaps: what follows waits for each of them.
                for event in self._events[: len(self._prepared)]:
                    call(d.cuStreamWaitEvent, stream, event, 0)
        else:
            self._branched(number, stream)

    def _branched(self, number: int, stream: Any) -> None:
        """Each launch on a stream of its own, behind those that it waits for."""
        call(d.cuEventRecord, self._events[-1], stream)
        done = {launch["number"]: event for launch, event in zip(self._launches, self._events, strict=False)}
        for launch, prepared, packed, branch in zip(self._launches, self._prepared, self._packed[number], self._branches, strict=True):
            for event in [done[other] for other in launch["after"]] or [self._events[-1]]:
                call(d.cuStreamWaitEvent, branch, event, 0)
            prepared.launch_packed(packed, branch)
            call(d.cuEventRecord, done[launch["number"]], branch)
        for event in done.values():
            call(d.cuStreamWaitEvent, stream, event, 0)


def _encoded(one: Mapping[str, Any], base: int) -> bytes:
    """The 128 bytes of a tensor map."""
    rank = len(one["shape"])
    encoded = call(
        d.cuTensorMapEncodeTiled,
        getattr(d.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_TYPES[one['dtype']]}"),
        rank,
        base + one["offset"],
        [d.cuuint64_t(length) for length in one["shape"]],
        [d.cuuint64_t(stride) for stride in one["strides"]],
        [d.cuuint32_t(length) for length in one["box"]],
        [d.cuuint32_t(stride) for stride in one["element_strides"]],
        d.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(d.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{one['swizzle'].upper()}"),
        getattr(d.CUtensorMapL2promotion, "CU_TENSOR_MAP_L2_PROMOTION_" + ("NONE" if one["l2"] == "none" else f"L2_{one['l2']}")),
        getattr(
            d.CUtensorMapFloatOOBfill,
            "CU_TENSOR_MAP_FLOAT_OOB_FILL_" + ("NONE" if one["oob"] == "zero" else "NAN_REQUEST_ZERO_FMA"),
        ),
    )
    return ctypes.string_at(int(encoded.getPtr()), 128)
