"""The generated C++ and the arguments of calls."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from scale_bench import Bench

from runner.manifest import Manifest
from runner.targets.cpu import shim
from runner.verdict import Rejected, Verdict


def manifest(*arguments: Any, **other: Any) -> Manifest:
    return Manifest.model_validate({"sources": ["a.cpp"], "launches": [{"function": "scale", "args": list(arguments)}], **other})


def test_declarations_and_entry(bench: Bench) -> None:
    made = manifest("x", "y", "room", {"i64": "n"}, {"f32": "factor"}, scratch={"room": {"dtype": "bfloat16", "shape": ["n"]}})
    assert shim.declarations(bench.spec.spec, made) == (
        '#include <cstdint>\nextern "C" void scale(const float*, float*, std::uint16_t*, std::int64_t, float);\n'
    )
    assert shim.entry(bench.spec.spec, made).splitlines()[-2:] == [
        "    scale(reinterpret_cast<const float*>(words[0]), reinterpret_cast<float*>(words[1]), "
        "reinterpret_cast<std::uint16_t*>(words[2]), scalar<std::int64_t>(words[3]), scalar<float>(words[4]));",
        "}",
    ]


def test_an_unknown_argument_is_named(bench: Bench) -> None:
    with pytest.raises(Rejected, match="`z` is no input, output or scratch buffer; known: x, y") as refused:
        shim.declarations(bench.spec.spec, manifest("z"))
    assert refused.value.verdict is Verdict.BUILD_ERROR


def test_arguments_are_the_bits_of_their_types(bench: Bench) -> None:
    made = manifest("x", {"i32": "-n"}, {"i64": "-n"}, {"f32": "factor / 2"}, {"f64": "factor / 2"}, {"i32": "wide"})
    call = shim.call_of(made, {"wide": 8}, bench.workload(n=10))
    single = int.from_bytes(struct.pack("<f", 1.5), "little")
    double = int.from_bytes(struct.pack("<d", 1.5), "little")
    assert call.arguments == ("x", 2**32 - 10, 2**64 - 10, single, double, 8)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"i32": "n * 2 ** 40"}, "which is no 32-bit whole number"),
        ({"i32": "n / 3"}, "which is no 32-bit whole number"),
        ({"i64": "2 ** 63"}, "which is no 64-bit whole number"),
        ({"i64": "'text'"}, "which is no 64-bit whole number"),
        ({"f32": "'text'"}, "is text, not a number"),
        ({"f32": "1 / (n - n)"}, "division by zero"),
        ({"f32": "2.0 ** 60 * 2.0 ** 60 * 2.0 ** 20"}, "too large"),
        ({"i32": "unknown"}, "`unknown` is not known here"),
    ],
)
def test_arguments_without_a_sensible_value_are_refused(bench: Bench, argument: dict[str, str], message: str) -> None:
    with pytest.raises(Rejected) as refused:
        shim.call_of(manifest(argument), {}, bench.workload(n=10))
    assert refused.value.verdict is Verdict.LAUNCH_ERROR
    assert message in refused.value.message


@pytest.mark.parametrize("length", ["-1", "2 ** 40", "n / 3", 10**10])
def test_scratch_is_bounded(bench: Bench, length: str | int) -> None:
    with pytest.raises(Rejected) as refused:
        shim.call_of(manifest("x", scratch={"room": {"dtype": "float32", "shape": [length]}}), {}, bench.workload(n=10))
    assert refused.value.verdict is Verdict.LAUNCH_ERROR
    assert "scratch room" in refused.value.message


def test_a_tensor_that_the_workload_lacks_is_null(bench: Bench) -> None:
    assert shim.call_of(manifest("x", "absent"), {}, bench.workload()).arguments == ("x", None)
