"""Computes what a manifest's expressions give on a workload: lengths, extents, and number arguments as the bits that a call is given."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from runner.errors import FactoryError
from runner.manifest import F32, F64, I32, I64
from runner.spec import expressions
from runner.verdict import Rejected, Verdict


@dataclass(frozen=True)
class Scope:
    """Names and functions that expressions know. Whatever can't be computed is `Rejected` with `launch_error`."""

    names: dict[str, expressions.Value]
    functions: expressions.Functions

    def value(self, text: str, what: str) -> expressions.Value:
        """The value of an expression; `what` says in messages what it is for."""
        try:
            return expressions.evaluate(text, self.names, self.functions)
        except FactoryError as error:
            raise Rejected(Verdict.LAUNCH_ERROR, f"launch.yaml: {what}: {error}") from None

    def whole(self, text: int | str, bits: int, what: str) -> int:
        """A whole number of at most `bits` bits and a sign."""
        value = text if isinstance(text, int) else self.value(text, what)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or not -(1 << bits) <= value < 1 << bits:
            raise Rejected(Verdict.LAUNCH_ERROR, f"launch.yaml: {what}: `{text}` is {value}, which is no {bits + 1}-bit whole number")
        return int(value)

    def word(self, argument: I32 | I64 | F32 | F64) -> int:
        """A number argument as the low bits of a 64-bit word."""
        if isinstance(argument, I32):
            return self.whole(argument.i32, 31, "an argument") & 0xFFFFFFFF
        if isinstance(argument, I64):
            return self.whole(argument.i64, 63, "an argument") & 0xFFFFFFFFFFFFFFFF
        text = argument.f32 if isinstance(argument, F32) else argument.f64
        value = self.value(text, "an argument")
        if isinstance(value, str):
            raise Rejected(Verdict.LAUNCH_ERROR, f"launch.yaml: an argument: `{text}` is text, not a number")
        packed = struct.pack("<f", value) + bytes(4) if isinstance(argument, F32) else struct.pack("<d", value)
        return int.from_bytes(packed, "little")
