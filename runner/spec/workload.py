"""A workload: one concrete set of axis lengths with its input generators, as the judge uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from runner.spec.models import DType, Init


@dataclass(frozen=True)
class TensorLayout:
    """Where and what a tensor of a workload is: contiguous, `offset` elements past an address aligned to `align` bytes."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    offset: int
    align: int

    @property
    def numel(self) -> int:
        count = 1
        for length in self.shape:
            count *= length
        return count


@dataclass(frozen=True)
class Workload:
    """One concrete workload. `axes` holds every axis, `const` and `expr` ones too; absent optional tensors are in `dtypes` only."""

    name: str
    kind: Literal["public", "edge", "hidden"]
    axes: Mapping[str, int]
    scalars: Mapping[str, float | int]
    inputs: Mapping[str, TensorLayout]
    outputs: Mapping[str, TensorLayout]
    init: Mapping[str, Init]
    bytes: float
    flops: float
    dtypes: Mapping[str, DType] = field(default_factory=dict)
