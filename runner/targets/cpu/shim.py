"""Generates the trusted C++ around a candidate: the declarations its functions must match, and `kf_call`, which calls them in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from runner.arguments import Scope
from runner.manifest import F32, F64, I32, I64, KnobValue, Manifest, scope
from runner.spec.models import Spec
from runner.spec.workload import Workload
from runner.targets.cpu.arena import ITEM_BYTES, Arena, Block
from runner.verdict import Rejected, Verdict

ENTRY = "kf_call"
C_TYPES = {
    "float32": "float",
    "float64": "double",
    "float16": "std::uint16_t",
    "bfloat16": "std::uint16_t",
    "int32": "std::int32_t",
    "int64": "std::int64_t",
}
_SCALARS: dict[type[I32 | I64 | F32 | F64], str] = {I32: "std::int32_t", I64: "std::int64_t", F32: "float", F64: "double"}
MAX_SCRATCH = 1 << 32


def _argument_type(spec: Spec, manifest: Manifest, argument: str | I32 | I64 | F32 | F64) -> str:
    if not isinstance(argument, str):
        return _SCALARS[type(argument)]
    if argument in spec.inputs:
        return f"const {C_TYPES[spec.inputs[argument].dtype]}*"
    if argument in spec.outputs:
        return f"{C_TYPES[spec.outputs[argument].dtype]}*"
    if argument in manifest.scratch:
        return f"{C_TYPES[manifest.scratch[argument].dtype]}*"
    known = ", ".join([*spec.inputs, *spec.outputs, *manifest.scratch])
    raise Rejected(Verdict.BUILD_ERROR, f"launch.yaml: `{argument}` is no input, output or scratch buffer; known: {known}")


def declarations(spec: Spec, manifest: Manifest) -> str:
    """What every source is compiled after: a function that doesn't match is then the compiler's error, at its line."""
    lines = ["#include <cstdint>"]
    for launch in manifest.calls:
        types = ", ".join(_argument_type(spec, manifest, argument) for argument in launch.args)
        line = f'extern "C" void {launch.function}({types});'
        if line not in lines:
            lines.append(line)
    return "\n".join(lines) + "\n"


def entry(spec: Spec, manifest: Manifest) -> str:
    """`kf_call`: the launches in order, each argument from its own 64-bit word."""
    calls = []
    word = 0
    for launch in manifest.calls:
        texts = []
        for argument in launch.args:
            kind = _argument_type(spec, manifest, argument)
            texts.append(f"reinterpret_cast<{kind}>(words[{word}])" if kind.endswith("*") else f"scalar<{kind}>(words[{word}])")
            word += 1
        calls.append(f"    {launch.function}({', '.join(texts)});")
    return "\n".join(
        [
            "#include <cstring>",
            "template <class T> static inline T scalar(const std::uint64_t& word) {",
            "    T value;",
            "    std::memcpy(&value, &word, sizeof value);",
            "    return value;",
            "}",
            f'extern "C" __attribute__((visibility("default"))) void {ENTRY}(const std::uint64_t* words) {{',
            *calls,
            "}",
            "",
        ]
    )


@dataclass(frozen=True)
class Call:
    """One workload's call: the blocks of a slot (inputs, outputs, scratch), the scratch that is zeroed in the timed call, and
    each argument: the name of a block, None for an absent tensor, or the 64 bits of a number."""

    blocks: tuple[Block, ...]
    zeroed: tuple[str, ...]
    arguments: tuple[str | int | None, ...]


def rows_of(call: Call, arena: Arena) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """The words of each set's call, for `Arena.command`: arguments, then address and size of what is cleared. The worker is ready."""
    width = len(call.arguments) + 2 * len(call.zeroed)
    rows = np.zeros((len(arena.plan.slots), width), dtype=np.uint64)
    named = [(column, name) for column, name in enumerate(call.arguments) if isinstance(name, str)]
    named += [(len(call.arguments) + 2 * index, name) for index, name in enumerate(call.zeroed)]
    for column, value in enumerate(call.arguments):
        if isinstance(value, int):
            rows[:, column] = value
    for column, name in named:
        rows[:, column] = arena.addresses(np.array([places[name].start for places in arena.plan.slots], dtype=np.uint64))
    for index, name in enumerate(call.zeroed):
        rows[:, len(call.arguments) + 2 * index + 1] = [places[name].size for places in arena.plan.slots]
    return rows


def workload_blocks(workload: Workload) -> list[Block]:
    """The tensors of a workload as blocks of an arena."""
    return [
        Block(layout.name, layout.numel * ITEM_BYTES[layout.dtype], layout.align, layout.offset * ITEM_BYTES[layout.dtype])
        for layout in [*workload.inputs.values(), *workload.outputs.values()]
    ]


def call_of(manifest: Manifest, knobs: Mapping[str, KnobValue], workload: Workload) -> Call:
    """Evaluate the manifest's expressions for a workload. Raises `Rejected` with `launch_error` where one has no sensible value."""
    known = Scope(*scope(workload, knobs))
    blocks = workload_blocks(workload)
    present = {block.name for block in blocks}
    for name, scratch in manifest.scratch.items():
        size = ITEM_BYTES[scratch.dtype]
        for length in scratch.shape:
            size *= known.whole(length, 63, f"scratch {name}")
        if not 0 <= size <= MAX_SCRATCH:
            raise Rejected(Verdict.LAUNCH_ERROR, f"launch.yaml: scratch {name} would take {size} bytes; allowed: 0 to {MAX_SCRATCH}")
        blocks.append(Block(name, size, scratch.align, 0))
        present.add(name)
    arguments: list[str | int | None] = []
    for launch in manifest.calls:
        for argument in launch.args:
            if isinstance(argument, str):
                arguments.append(argument if argument in present else None)
            else:
                arguments.append(known.word(argument))
    zeroed = tuple(name for name, scratch in manifest.scratch.items() if scratch.fill == "zero")
    return Call(tuple(blocks), zeroed, tuple(arguments))
