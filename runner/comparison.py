"""Compares an actual output with the float64 oracle under a tolerance: every element, in chunks that stay in a cache."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from runner.spec.models import Bounds

CHUNK = 1 << 19
CHUNK_ON_GPU = 1 << 26
FEW = 8
"""Misrounded elements that are always allowed: a share of a handful says nothing."""
EXPONENT_MASK = 0x7FF0_0000_0000_0000


@dataclass(frozen=True)
class Mismatch:
    """The first wrong element of one output: where, what stands there and what should, and how much else is wrong."""

    output: str
    index: tuple[int, ...]
    actual: str
    expected: str
    message: str


@dataclass(frozen=True)
class Comparison:
    """`max_ulp` is the worst distance in spacings of the output's dtype, `norm` the relative distance of the whole; None where
    no finite element could be compared. `mismatch` is None when the tolerance holds."""

    max_ulp: float | None
    norm: float | None
    mismatch: Mismatch | None


def rms(expected: torch.Tensor) -> float:
    """The root mean square over the finite elements; 0 where there are none."""
    if not expected.is_floating_point() or not expected.numel():
        return 0.0
    total, count = 0.0, 0
    flat = expected.reshape(-1)
    step = _step(expected)
    for first in range(0, flat.numel(), step):
        square = flat[first : first + step].square()
        part = float(square.sum())
        if math.isfinite(part):
            total, count = total + part, count + square.numel()
        else:
            finite = square[torch.isfinite(square)]
            total, count = total + float(finite.sum()), count + finite.numel()
    return math.sqrt(total / count) if count else 0.0


def _step(tensor: torch.Tensor) -> int:
    """Elements of a chunk."""
    return CHUNK if tensor.device.type == "cpu" else CHUNK_ON_GPU


def compare(output: str, actual: torch.Tensor, expected: torch.Tensor, tolerance: Bounds, scale: float) -> Comparison:
    """Compare all elements. `scale` is the root mean square of the workload's whole expected output (see `rms`).

    Spacing is that of the output's dtype at the expected value, never smaller than at `tolerance.floor * scale`. Where the oracle,
    rounded to that dtype, is not finite, the actual value must be the same infinity or not-a-number.
    """
    if actual.shape != expected.shape:
        message = f"{output} has shape {list(actual.shape)}, expected {list(expected.shape)}"
        return Comparison(None, None, Mismatch(output, (), str(list(actual.shape)), str(list(expected.shape)), message))
    if not actual.is_floating_point():
        return _compare_integers(output, actual, expected)
    tally = _Tally()
    info = torch.finfo(actual.dtype)
    floor = tolerance.floor * scale
    had, right = actual.reshape(-1), expected.reshape(-1)
    step = _step(right)
    rounding = tolerance.misrounded is not None or tolerance.bias is not None
    for first in range(0, right.numel(), step):
        _chunk(tally, first, had[first : first + step], right[first : first + step], tolerance.max_ulp, floor, info, rounding)
    norm = tally.norm(float(info.smallest_normal))
    if tally.first is not None:
        return Comparison(tally.max_ulp, norm, _describe(output, actual, expected, tally, tolerance))
    if norm is not None and not norm <= tolerance.norm:
        message = f"{output} as a whole is off: the norm of its error is {norm:.3g} of its own, at most {tolerance.norm:.3g} is allowed"
        return Comparison(tally.max_ulp, norm, Mismatch(output, (), f"{norm:.6g}", f"<= {tolerance.norm:.6g}", message))
    return Comparison(tally.max_ulp, norm, _rounding_mismatch(output, tally, tolerance) if rounding else None)


def _rounding_mismatch(output: str, tally: _Tally, tolerance: Bounds) -> Mismatch | None:
    """What the errors of all elements together show that no single one does; chance is allowed for where there are few elements."""
    count = tally.compared
    if tolerance.misrounded is not None and tally.misrounded > FEW + tolerance.misrounded * count:
        share, most = percent(tally.misrounded, count), percent(round(tolerance.misrounded * count), count)
        message = f"{share} of {output} is not what the right result rounds to, at most {most} is allowed: too few bits within?"
        return Mismatch(output, (), share, f"<= {most}", message)
    if tolerance.bias is not None and count and abs(tally.signed / count) > tolerance.bias + 1.5 / math.sqrt(count):
        bias = tally.signed / count
        message = f"{output} is off in one direction: by {bias:.3g} ulp on average, at most {tolerance.bias:g} is allowed"
        return Mismatch(output, (), f"{bias:.4g} ulp", f"<= {tolerance.bias:g} ulp", message)
    return None


class _Tally:
    def __init__(self) -> None:
        self.max_ulp: float | None = None
        self.error = self.size = 0.0
        self.compared = self.wrong = self.nans = self.misrounded = 0
        self.signed = 0.0
        self.first: int | None = None

    def norm(self, smallest_normal: float) -> float | None:
        """The error's norm over the expected output's, which counts as no smaller than if every element were the smallest normal
        number: below it a right rounding alone is a large relative error."""
        if not self.compared:
            return None
        return math.sqrt(self.error) / max(math.sqrt(self.size), math.sqrt(self.compared) * smallest_normal)


def _chunk(
    tally: _Tally,
    first: int,
    actual: torch.Tensor,
    expected: torch.Tensor,
    max_ulp: float,
    floor: float,
    info: torch.finfo,
    rounding: bool,
) -> None:
    wide = actual.double()
    rounded = expected.to(actual.dtype)
    signed = wide - expected
    difference = signed.abs()
    squares = torch.dot(difference, difference)
    if math.isfinite(float(squares)) and math.isfinite(float(rounded.abs().max())):
        special = finite = None
        tally.error += float(squares)
        tally.size += float(torch.dot(expected, expected))
        tally.compared += expected.numel()
    else:
        special = ~torch.isfinite(rounded)
        finite = ~special & torch.isfinite(wide)
        tally.error += float(difference[finite].square().sum())
        tally.size += float(expected[finite].square().sum())
        tally.compared += int(finite.sum())
    # The spacing at a value is its power of two times the dtype's epsilon, and at least the smallest denormal.
    magnitude = expected.abs().clamp_(min=max(floor, float(info.smallest_normal)))
    power = magnitude.view(torch.int64).bitwise_and_(EXPONENT_MASK).view(torch.float64).mul_(info.eps)
    if rounding:
        ratio = signed.div_(power)
        if finite is not None:
            ratio = ratio[finite]
        tally.signed += float(ratio.sum())
        tally.misrounded += int(((actual != rounded) & torch.isfinite(wide) & torch.isfinite(rounded)).sum())
    ulp = difference.div_(power)
    wrong = ~(ulp <= max_ulp)
    if special is not None:
        same = (wide == rounded.double()) | (torch.isnan(wide) & torch.isnan(rounded))
        # A wide expected value that rounds to infinity is judged by the rounded value alone, as is anything that is not finite.
        wrong = torch.where(special | ~torch.isfinite(wide), ~same, wrong)
        ulp = ulp[~special & torch.isfinite(wide)]
    if ulp.numel():
        worst = float(ulp.max())
        tally.max_ulp = worst if tally.max_ulp is None else max(tally.max_ulp, worst)
    count = int(wrong.sum())
    if count:
        if tally.first is None:
            tally.first = first + int(wrong.to(torch.uint8).argmax())
        tally.wrong += count
        tally.nans += int((torch.isnan(wide) & ~torch.isnan(rounded)).sum())


def _describe(output: str, actual: torch.Tensor, expected: torch.Tensor, tally: _Tally, tolerance: Bounds) -> Mismatch:
    assert tally.first is not None
    index = _unravel(tally.first, tuple(expected.shape))
    had, right = float(actual.reshape(-1)[tally.first]), float(expected.reshape(-1)[tally.first])
    place = f"{output}[{', '.join(map(str, index))}]"
    message = f"{place} is {had:.9g}, expected {right:.9g}"
    if math.isfinite(had) and math.isfinite(right) and tally.max_ulp is not None:
        message += f" (the worst element is {tally.max_ulp:.3g} ulp off, at most {tolerance.max_ulp:g} allowed)"
    message += f"; {tally.wrong} of {expected.numel()} elements are wrong"
    if tally.nans:
        message = f"{percent(tally.nans, expected.numel())} of {output} is NaN or was never written: {message}"
    return Mismatch(output, index, f"{had:.9g}", f"{right:.9g}", message)


def _compare_integers(output: str, actual: torch.Tensor, expected: torch.Tensor) -> Comparison:
    wrong = (actual != expected).reshape(-1)
    count = int(wrong.sum())
    if not count:
        return Comparison(0.0, 0.0, None)
    first = int(wrong.to(torch.uint8).argmax())
    index = _unravel(first, tuple(expected.shape))
    had, right = str(int(actual.reshape(-1)[first])), str(int(expected.reshape(-1)[first]))
    message = f"{output}[{', '.join(map(str, index))}] is {had}, expected {right}; {count} of {expected.numel()} elements are wrong"
    return Comparison(None, None, Mismatch(output, index, had, right, message))


def percent(part: int, whole: int) -> str:
    """A share for people: at least two digits, never rounded to 0 % or 100 % when it is neither."""
    share = 100 * part / whole
    if 0 < share < 0.1 or 99.9 < share < 100:
        return f"{part} of {whole} elements ({share:.4f} %)"
    return f"{share:.1f} %" if share < 10 else f"{share:.0f} %"


def _unravel(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index = []
    for length in reversed(shape):
        flat, place = divmod(flat, length)
        index.append(place)
    return tuple(reversed(index))
