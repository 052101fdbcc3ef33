"""What expressions may ask about a workload's tensors: presence, dtype, size, alignment, strides. Never their contents.

A tensor's name in an expression stands for the text of that name, so that `present(residual)` is an ordinary call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from simpleeval import InvalidExpression

from runner.spec.models import DType
from runner.spec.workload import TensorLayout

ITEM_BYTES: Mapping[str, int] = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "int32": 4, "int64": 8}
FUNCTIONS = ("present", "dtype", "itemsize", "bytes", "aligned", "stride")


def functions(layouts: Mapping[str, TensorLayout], dtypes: Mapping[str, DType]) -> dict[str, Callable[..., Any]]:
    """The functions over tensors. `layouts` are those of the present ones; `dtypes` names every tensor, absent ones too."""

    def known(name: object) -> str:
        if not isinstance(name, str) or name not in dtypes:
            raise InvalidExpression(f"`{name}` is not a tensor; allowed: {', '.join(dtypes)}")
        return name

    def present(name: object) -> bool:
        return known(name) in layouts

    def dtype(name: object) -> str:
        return dtypes[known(name)]

    def itemsize(name: object) -> int:
        return ITEM_BYTES[dtypes[known(name)]]

    def size(name: object) -> int:
        layout = layouts.get(known(name))
        return layout.numel * ITEM_BYTES[layout.dtype] if layout is not None else 0

    def aligned(name: object, count: object) -> bool:
        layout = layouts.get(known(name))
        if not isinstance(count, int) or count < 1:
            raise InvalidExpression("`aligned` takes a tensor and a number of bytes of at least 1")
        return layout is None or (layout.align % count == 0 and layout.offset * ITEM_BYTES[layout.dtype] % count == 0)

    def stride(name: object, axis: object) -> int:
        layout = layouts.get(known(name))
        if layout is None:
            return 0
        if not isinstance(axis, int) or not 0 <= axis < len(layout.shape):
            raise InvalidExpression(f"`{name}` has {len(layout.shape)} axes, counted from 0")
        return numel(layout.shape[axis + 1 :])

    return {"present": present, "dtype": dtype, "itemsize": itemsize, "bytes": size, "aligned": aligned, "stride": stride}


def numel(shape: Iterable[int]) -> int:
    """The number of elements of a shape."""
    count = 1
    for length in shape:
        count *= length
    return count
