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
from runner.inputs import DTYPES, derive, dice
from runner.spec.expressions import names
from runner.spec.load import LoadedSpec
from runner.spec.models import Spec
from runner.spec.workload import Workload

SLICE_ELEMENTS = 1 << 20
SLICE_ON_GPU = 1 << 27
"""Elements of the largest tensor in one slice: on a CPU the float64 intermediates of a slice stay in a cache; a GPU wants long ones."""


@dataclass(frozen=True)
class Sample:
    """The right outputs on some indices of their independent axes. By output: the indices, and which of its dimensions that axis is."""

    indices: Mapping[str, torch.Tensor]
    axis: Mapping[str, int]
    expected: Mapping[str, torch.Tensor]

    def pick(self, name: str, actual: torch.Tensor) -> torch.Tensor:
        """The same part of an actual output."""
        return actual.index_select(self.axis[name], self.indices[name])

    def restore(self, name: str, index: Sequence[int]) -> tuple[int, ...]:
        """An index into the part as an index into the whole output."""
        at, indices = self.axis[name], self.indices[name]
        return tuple(int(indices[place]) if dimension == at else place for dimension, place in enumerate(index))


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
        self._axes = _sliceable(loaded)

    def expected(self, workload: Workload, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Every element of every output: float64 (integer outputs keep their dtype), the layout's shape."""
        largest = max(layout.numel for layout in (*workload.inputs.values(), *workload.outputs.values()))
        most = SLICE_ELEMENTS if torch.get_default_device().type == "cpu" else SLICE_ON_GPU
        if largest <= most or not self._sliced(workload):
            return self._call(workload, inputs, None, 0)
        whole = {name: torch.empty(layout.shape, dtype=_wide(layout.dtype)) for name, layout in workload.outputs.items()}
        for axis in dict.fromkeys(self._axes[name] for name in workload.outputs):
            length = workload.axes[axis]
            step = max(1, length * most // largest)
            for first in range(0, length, step):
                indices = slice(first, min(first + step, length))
                part = self._call(workload, self._cut(inputs, axis, indices), axis, indices.stop - indices.start)
                for name in self._outputs_of(workload, axis):
                    whole[name].narrow(self._output_dimension(name), indices.start, indices.stop - indices.start).copy_(part[name])
        return whole

    def sample(self, workload: Workload, inputs: Mapping[str, torch.Tensor], seed: int, *, slices: int, elements: int = 0) -> Sample | None:
        """The right outputs on random indices of their independent axes: at least `slices` of each axis, and so many that the largest
        output has about `elements` elements there. None when the spec names no axes that can be sliced."""
        if not self._sliced(workload):
            return None
        largest = max(1, *(layout.numel for layout in workload.outputs.values()))
        chosen: dict[str, torch.Tensor] = {}
        expected: dict[str, torch.Tensor] = {}
        for axis in dict.fromkeys(self._axes[name] for name in workload.outputs):
            length = workload.axes[axis]
            count = max(slices, length * elements // largest)
            indices = torch.randperm(length, generator=dice(derive(seed, axis)))[:count] if count < length else torch.arange(length)
            part = self._call(workload, self._cut(inputs, axis, indices), axis, len(indices))
            for name in self._outputs_of(workload, axis):
                chosen[name], expected[name] = indices, part[name]
        return Sample(chosen, {name: self._output_dimension(name) for name in workload.outputs}, expected)

    def _sliced(self, workload: Workload) -> bool:
        return bool(self._axes) and all(workload.axes[self._axes[name]] for name in workload.outputs)

    def _cut(self, inputs: Mapping[str, torch.Tensor], axis: str, indices: slice | torch.Tensor) -> dict[str, torch.Tensor]:
        """The inputs, those that have the axis on these of its indices only."""
        part = {}
        for name, tensor in inputs.items():
            shape = self._loaded.spec.inputs[name].shape
            if axis not in shape:
                part[name] = tensor
            elif isinstance(indices, slice):
                part[name] = tensor.narrow(shape.index(axis), indices.start, indices.stop - indices.start)
            else:
                part[name] = tensor.index_select(shape.index(axis), indices)
        return part

    def _outputs_of(self, workload: Workload, axis: str) -> list[str]:
        return [name for name in workload.outputs if self._axes[name] == axis]

    def _output_dimension(self, name: str) -> int:
        return self._loaded.spec.outputs[name].shape.index(self._axes[name])

    def _call(self, workload: Workload, inputs: Mapping[str, torch.Tensor], axis: str | None, length: int) -> dict[str, torch.Tensor]:
        """Run the reference on the inputs, or on a slice of them of this length along the axis."""
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
        return self._named(workload, answer, axis, length)

    def _named(self, workload: Workload, answer: Any, axis: str | None, length: int) -> dict[str, torch.Tensor]:
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
            declared = self._loaded.spec.outputs[name].shape
            shape = [length if item == axis else full for item, full in zip(declared, layout.shape, strict=True)]
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


def _sliceable(loaded: LoadedSpec) -> dict[str, str]:
    """For each output the axis along which it can be had in slices; empty unless every output has one."""
    spec = loaded.spec
    found = {}
    for name, output in spec.outputs.items():
        said = (output.independent,) if output.independent is not None else spec.independent
        axis = next((axis for axis in said if axis in output.shape and _plain(spec, axis)), None)
        if axis is None:
            return {}
        found[name] = axis
    return found


def _plain(spec: Spec, axis: str) -> bool:
    """Whether an axis hides in no tensor's or axis's expression, and is a tensor's once at most."""
    shapes = [*(tensor.shape for tensor in spec.inputs.values()), *(tensor.shape for tensor in spec.outputs.values())]
    hidden = any(isinstance(length, str) and length != axis and axis in names(length) for shape in shapes for length in shape)
    follows = any(one.type == "expr" and axis in names(one.expr) for one in spec.axes.values())
    return not hidden and not follows and not any(shape.count(axis) > 1 for shape in shapes)
