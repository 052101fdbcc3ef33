"""The float64 oracle: the spec's reference function, run by the judge over slices so that the largest workload fits.

The spec is trusted by whoever committed it, so its reference is imported into this process. What it returns lives in this process's
private memory only, where no worker can reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from runner.errors import FactoryError
from runner.inputs import DTYPES, dice
from runner.spec.expressions import names
from runner.spec.load import LoadedSpec
from runner.spec.workload import Workload

SLICE_ELEMENTS = 1 << 20
SLICE_ON_GPU = 1 << 27
"""Elements of the largest tensor in one slice: on a CPU the float64 intermediates of a slice stay in a cache; a GPU wants long ones."""


@dataclass(frozen=True)
class Sample:
    """The right outputs on some indices of the independent axis only. `axis` gives, for each output, which of its dimensions that is."""

    indices: torch.Tensor
    axis: Mapping[str, int]
    expected: Mapping[str, torch.Tensor]

    def pick(self, name: str, actual: torch.Tensor) -> torch.Tensor:
        """The same part of an actual output."""
        return actual.index_select(self.axis[name], self.indices)

    def restore(self, name: str, index: Sequence[int]) -> tuple[int, ...]:
        """An index into the part as an index into the whole output."""
        at = self.axis[name]
        return tuple(int(self.indices[place]) if dimension == at else place for dimension, place in enumerate(index))


def load_entry(folder: Path, entry: str) -> Callable[..., Any]:
    """The function that `file.py:function` names, from the spec's folder. Raises `FactoryError` when it cannot be had."""
    file, _, name = entry.partition(":")
    path = folder / file
    module = ModuleType(f"kernel_spec_{path.stem}")
    module.__file__ = str(path)
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    except Exception as error:  # a module may raise anything while it is imported
        raise FactoryError(f"{path}: cannot be imported: {type(error).__name__}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise FactoryError(f"{path}: has no function {name}")
    return function  # type: ignore[no-any-return]  # a module's attribute; callable() was checked


class Oracle:
    """Right answers in float64 for one spec. Raises `FactoryError` for a reference that fails or does not keep to its spec."""

    def __init__(self, loaded: LoadedSpec) -> None:
        self._loaded = loaded
        self._function = load_entry(loaded.folder, loaded.spec.reference)
        self._axis = _sliceable(loaded)

    def length(self, workload: Workload) -> int:
        """How many slices the workload has along the independent axis; 0 when the spec names none that can be sliced."""
        return workload.axes[self._axis] if self._axis is not None else 0

    def expected(self, workload: Workload, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Every element of every output: float64 (integer outputs keep their dtype), the layout's shape."""
        largest = max(layout.numel for layout in (*workload.inputs.values(), *workload.outputs.values()))
        length = self.length(workload)
        most = SLICE_ELEMENTS if torch.get_default_device().type == "cpu" else SLICE_ON_GPU
        if self._axis is None or largest <= most or length < 2:
            return self._call(workload, inputs, None)
        step = max(1, length * most // largest)
        whole = {name: torch.empty(layout.shape, dtype=_wide(layout.dtype)) for name, layout in workload.outputs.items()}
        for first in range(0, length, step):
            indices = slice(first, min(first + step, length))
            part = self._call(workload, self._cut(workload, inputs, indices), indices.stop - indices.start)
            for name, tensor in part.items():
                at = self._dimension(name, output=True)
                whole[name].narrow(at if at is not None else 0, indices.start, indices.stop - indices.start).copy_(tensor)
        return whole

    def sample(self, workload: Workload, inputs: Mapping[str, torch.Tensor], count: int, seed: int) -> Sample | None:
        """The right outputs on `count` random indices of the independent axis; None when the spec names none that can be sliced."""
        length = self.length(workload)
        if length == 0:
            return None
        generator = dice(seed)
        indices = torch.arange(length)
        if count < length:
            indices = torch.randperm(length, generator=generator)[:count]
        axis = {name: at for name in workload.outputs if (at := self._dimension(name, output=True)) is not None}
        return Sample(indices, axis, self._call(workload, self._cut(workload, inputs, indices), len(indices)))

    def _cut(self, workload: Workload, inputs: Mapping[str, torch.Tensor], indices: slice | torch.Tensor) -> dict[str, torch.Tensor]:
        part = {}
        for name, tensor in inputs.items():
            at = self._dimension(name, output=False)
            if at is None:
                part[name] = tensor
            elif isinstance(indices, slice):
                part[name] = tensor.narrow(at, indices.start, indices.stop - indices.start)
            else:
                part[name] = tensor.index_select(at, indices)
        return part

    def _dimension(self, name: str, *, output: bool) -> int | None:
        spec = self._loaded.spec
        shape = spec.outputs[name].shape if output else spec.inputs[name].shape
        return shape.index(self._axis) if self._axis is not None and self._axis in shape else None

    def _call(self, workload: Workload, inputs: Mapping[str, torch.Tensor], length: int | None) -> dict[str, torch.Tensor]:
        """Run the reference on (a slice of) the inputs. `length` is the slice's length along the independent axis."""
        spec = self._loaded.spec
        arguments: dict[str, Any] = dict.fromkeys(spec.inputs)
        arguments |= {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in inputs.items()}
        arguments |= {name: _rounded(value, spec.scalars[name].dtype) for name, value in workload.scalars.items()}
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            with torch.no_grad():
                answer = self._function(**arguments)
        except Exception as error:  # a reference may raise anything
            raise FactoryError(f"{spec.reference} failed on workload {workload.name}: {type(error).__name__}: {error}") from error
        finally:
            torch.set_default_dtype(before)
        return self._named(workload, answer, length)

    def _named(self, workload: Workload, answer: Any, length: int | None) -> dict[str, torch.Tensor]:
        order = list(workload.outputs)
        if isinstance(answer, torch.Tensor):
            answer = (answer,)
        if isinstance(answer, tuple | list) and len(answer) == len(order):
            answer = dict(zip(order, answer, strict=True))
        where = self._loaded.spec.reference
        if not isinstance(answer, Mapping) or set(answer) != set(order):
            raise FactoryError(f"{where} must return the outputs {', '.join(order)}: a tensor, a tuple in this order, or a mapping by name")
        right = {}
        for name, layout in workload.outputs.items():
            shape = list(layout.shape)
            at = self._dimension(name, output=True)
            if length is not None and at is not None:
                shape[at] = length
            tensor = answer[name]
            if not isinstance(tensor, torch.Tensor) or list(tensor.shape) != shape:
                had = list(tensor.shape) if isinstance(tensor, torch.Tensor) else type(tensor).__name__
                raise FactoryError(f"{where} returned {had} for {name} on workload {workload.name}; its shape is {shape}")
            right[name] = tensor.to(_wide(layout.dtype)).contiguous()
        return right


def _rounded(value: float, dtype: str) -> float | int:
    """A scalar as the kernel sees it: a float32 one is what remains of the written number in float32."""
    return torch.tensor(value, dtype=DTYPES[dtype]).item()


def _wide(dtype: str) -> torch.dtype:
    return {"int32": torch.int32, "int64": torch.int64}.get(dtype, torch.float64)


def _sliceable(loaded: LoadedSpec) -> str | None:
    """The first independent axis that is a dimension of every output and hides in no input's or output's expression."""
    spec = loaded.spec
    shapes = [tensor.shape for tensor in spec.inputs.values()] + [tensor.shape for tensor in spec.outputs.values()]
    for axis in spec.independent:
        hidden = any(isinstance(length, str) and length != axis and axis in names(length) for shape in shapes for length in shape)
        follows = any(a.type == "expr" and axis in names(a.expr) for a in spec.axes.values())
        twice = any(shape.count(axis) > 1 for shape in shapes)
        if not hidden and not follows and not twice and all(axis in output.shape for output in spec.outputs.values()):
            return axis
    return None
