"""Fills a workload's inputs: the full generator for correctness, and for timing a secret pool that makes fresh values as fast as a copy.

Every number follows from the evaluation's seed, which no worker ever sees, so that a failure can be shown again.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Mapping
from functools import lru_cache

import torch

from runner.errors import FactoryError
from runner.spec.models import Init
from runner.spec.workload import TensorLayout, Workload

POOL_ELEMENTS = (1 << 22) + 4099
"""Elements in a pool: it fits in a last-level cache, so that refilling a slot costs little more than writing it."""

POOL_ON_GPU = (1 << 28) + 4099
"""The same where the judge computes on a GPU: long pieces, since there every operation costs a launch."""

EXCHANGED = 1024

DTYPES: Mapping[str, torch.dtype] = {
    "float32": torch.float32,
    "float64": torch.float64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int32": torch.int32,
    "int64": torch.int64,
}


def dice(seed: int) -> torch.Generator:
    """A generator of random numbers where the judge computes (torch's default device)."""
    return torch.Generator(torch.get_default_device()).manual_seed(seed)


def derive(seed: int, *words: str | int) -> int:
    """A 63-bit seed that follows from `seed` and the words, and tells nothing about either."""
    text = "\0".join(str(word) for word in (seed, *words))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def draw_inputs(workload: Workload, seed: int) -> dict[str, torch.Tensor]:
    """All inputs of a workload, each element drawn on its own: where the judge computes, contiguous, the layout's shape and dtype."""
    return {name: draw_tensor(layout, workload.init[name], dice(derive(seed, name))) for name, layout in workload.inputs.items()}


def draw_tensor(layout: TensorLayout, init: Init, generator: torch.Generator) -> torch.Tensor:
    """One tensor by the full generator. Raises `FactoryError` where an init has no meaning for the dtype."""
    dtype = DTYPES[layout.dtype]
    if not dtype.is_floating_point:
        return _draw_integers(layout, init, dtype, generator)
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    values = torch.empty(layout.shape, dtype=wide)
    if init.kind == "normal":
        values.normal_(init.mean, init.std, generator=generator)
    elif init.kind == "uniform":
        values.uniform_(init.low, init.high, generator=generator)
    else:
        values.fill_(init.value)
    if init.row_scale is not None and values.ndim:
        values.mul_(_row_factors(layout, init.row_scale, generator, wide))
    _plant(values, init, dtype, generator)
    return values.to(dtype)


def change_part(inputs: Mapping[str, torch.Tensor], seed: int) -> dict[str, torch.Tensor]:
    """The same inputs but for one element of each tensor, moved to another finite value, against answers kept by a fingerprint."""
    chooser = random.Random(seed)
    changed = {}
    for name, tensor in inputs.items():
        copy = tensor.clone()
        if copy.numel():
            flat = copy.view(-1)
            place = chooser.randrange(flat.numel())
            old = float(flat[place])
            scale = max(abs(old), 1e-30) if math.isfinite(old) else 1.0
            flat[place] = old + 1 if not copy.is_floating_point() else (-scale if old > 0 else scale) * chooser.uniform(0.4, 0.9)
        changed[name] = copy
    return changed


class Pool:
    """Private random numbers from which fresh inputs are made by a secret unaligned offset, a sign and a small factor.

    Tensors longer than a part of the pool are made of several pieces, and some elements of every row are exchanged: who learns the pool
    and tells a piece from its first elements still has to read the tensor. Values follow the init: its kind, mean, deviation
    (within 3 %), range and row scales. The same seed gives the same values again, so nothing need be kept for verification.
    """

    def __init__(self, seed: int, elements: int | None = None) -> None:
        self._seed = seed
        self._elements = elements or (POOL_ELEMENTS if torch.get_default_device().type == "cpu" else POOL_ON_GPU)
        self._numbers: dict[tuple[str, torch.dtype], torch.Tensor] = {}
        self._scratch: dict[tuple[str, str, tuple[int, ...]], torch.Tensor] = {}

    def fresh(self, workload: Workload, seed: int) -> dict[str, torch.Tensor]:
        """Inputs for one slot. The tensors are reused: they are valid until the next call for the same workload."""
        return {name: self._tensor(layout, workload.init[name], derive(seed, name), None) for name, layout in workload.inputs.items()}

    def write(self, workload: Workload, seed: int, into: Mapping[str, torch.Tensor]) -> None:
        """Store what `fresh` gives for the same seed in the tensors of `into`, contiguous, by name."""
        for name, layout in workload.inputs.items():
            values = self._tensor(layout, workload.init[name], derive(seed, name), into[name])
            if values is not into[name]:
                into[name].copy_(values)

    def _tensor(self, layout: TensorLayout, init: Init, seed: int, into: torch.Tensor | None) -> torch.Tensor:
        """The values: in `into` where they can be made there, else in memory of the pool."""
        dtype = DTYPES[layout.dtype]
        if not dtype.is_floating_point or init.kind == "constant":
            return draw_tensor(layout, init, dice(seed))
        wide = torch.float64 if dtype is torch.float64 else torch.float32
        if into is not None and dtype is wide:
            values = into
        else:
            key = (layout.name, layout.dtype, layout.shape)
            values = self._scratch.setdefault(key, torch.empty(0, dtype=wide))
            if values.shape != layout.shape:
                values = self._scratch[key] = torch.empty(layout.shape, dtype=wide)
        chooser = random.Random(seed)
        rows = layout.shape[0] if layout.shape else 1
        width = layout.numel // rows if rows else 0
        longest = self._elements // 4
        if init.row_scale is not None and 0 < width <= longest and init.kind == "normal" and init.mean == 0:
            # The row factor takes the place of the piece's factor: still one pass over the memory.
            factors = _row_factors(layout, init.row_scale, dice(seed), wide).view(rows, 1) * init.std
            table, step = values.view(rows, width), longest // width
            for first in range(0, rows, step):
                part = table[first : first + step]
                torch.mul(self._piece(init, wide, part.numel(), chooser).view_as(part), factors[first : first + step], out=part)
        else:
            flat = values.view(-1)
            for first in range(0, layout.numel, longest):
                self._fill(flat[first : first + longest], init, wide, chooser)
            if init.row_scale is not None and values.ndim:
                values.mul_(_row_factors(layout, init.row_scale, dice(seed), wide))
        _exchange(values, dice(derive(seed, "exchange")))
        if init.special:
            _plant(values, init, dtype, dice(derive(seed, "special")))
        return values if dtype is wide else values.to(dtype)

    def _fill(self, part: torch.Tensor, init: Init, wide: torch.dtype, chooser: random.Random) -> None:
        piece = self._piece(init, wide, part.numel(), chooser)
        sign = chooser.choice((-1.0, 1.0))
        if init.kind == "normal":
            torch.mul(piece, sign * init.std * chooser.uniform(0.97, 1.03), out=part)
            if init.mean:
                part.add_(init.mean)
        else:
            torch.mul(piece, sign * (init.high - init.low), out=part)
            part.add_(init.low if sign > 0 else init.high)

    def _piece(self, init: Init, wide: torch.dtype, count: int, chooser: random.Random) -> torch.Tensor:
        numbers = self._numbers.get((init.kind, wide))
        if numbers is None:
            generator = dice(derive(self._seed, init.kind, str(wide)))
            numbers = torch.empty(self._elements, dtype=wide)
            if init.kind == "normal":
                numbers.normal_(generator=generator)
            else:
                numbers.uniform_(generator=generator).clamp_(2.0**-24, 1 - 2.0**-24)
            self._numbers[init.kind, wide] = numbers
        first = chooser.randrange(self._elements - count + 1)
        return numbers[first : first + count]


def _exchange(values: torch.Tensor, generator: torch.Generator) -> None:
    """Give one random element of each `EXCHANGED` of a row the value of another of the same row, in place."""
    width = values.shape[-1] if values.ndim else 0
    if values.numel() < 2 or width < 2:
        return
    starts, firsts, lengths = _parts(values.numel(), width, torch.get_default_device())
    to = firsts + (torch.rand(firsts.shape, generator=generator) * lengths).long()
    source = starts + (torch.rand(firsts.shape, generator=generator) * width).long()
    flat = values.view(-1)
    # A product of two single-precision numbers may round up to the length itself.
    flat[to.view(-1).clamp(max=flat.numel() - 1)] = flat[source.view(-1).clamp(max=flat.numel() - 1)]


@lru_cache(maxsize=8)
def _parts(count: int, width: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of rows `width` long, `count` elements in all: where each begins (rows × 1), where their parts begin (rows × parts), and the
    parts' lengths (1 × parts)."""
    starts = torch.arange(0, count, width, device=device).view(-1, 1)
    parts = torch.arange(0, width, EXCHANGED, device=device).view(1, -1)
    return starts, starts + parts, (width - parts).clamp(max=EXCHANGED)


def _row_factors(layout: TensorLayout, scale: tuple[float, float], generator: torch.Generator, wide: torch.dtype) -> torch.Tensor:
    low, high = math.log(scale[0]), math.log(scale[1])
    factors = torch.empty(layout.shape[0], dtype=torch.float64).uniform_(low, max(high, low + 1e-12), generator=generator).exp()
    return factors.to(wide).view(-1, *([1] * (len(layout.shape) - 1)))


def _plant(values: torch.Tensor, init: Init, dtype: torch.dtype, generator: torch.Generator) -> None:
    """Set `count` random elements to each special value, in place."""
    if not values.numel():
        return
    info = torch.finfo(dtype)
    flat = values.view(-1)
    for special in init.special:
        count = min(special.count, flat.numel())
        places = torch.randperm(flat.numel(), generator=generator)[:count]
        if special.value == "denormal":
            parts = torch.rand(count, generator=generator, dtype=torch.float64) * 0.9 + 0.05
            flat[places] = (parts * info.smallest_normal).to(values.dtype)
        else:
            value = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan, "zero": 0.0, "max": info.max}[special.value]
            flat[places] = value


def _draw_integers(layout: TensorLayout, init: Init, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    if init.special or init.row_scale is not None:
        raise FactoryError(f"input {layout.name}: special values and row scales are for floating-point inputs, this one is {layout.dtype}")
    if init.kind == "uniform":
        low, high = math.ceil(init.low), math.ceil(init.high)
        return torch.randint(low, max(high, low + 1), layout.shape, generator=generator, dtype=dtype)
    if init.kind == "normal":
        return torch.empty(layout.shape, dtype=torch.float64).normal_(init.mean, init.std, generator=generator).round_().to(dtype)
    return torch.full(layout.shape, int(init.value), dtype=dtype)
