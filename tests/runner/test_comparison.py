"""The comparison with the oracle: both bounds, special values, places and messages."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from runner.comparison import CHUNK, compare, percent, rms
from runner.spec.models import Tolerance

TOLERANCE = Tolerance(max_ulp=4, norm=1e-6)


def right(count: int = 1000, seed: int = 1) -> torch.Tensor:
    return torch.empty(count, dtype=torch.float64).normal_(generator=torch.Generator().manual_seed(seed))


def test_the_rounded_oracle_is_within_half_an_ulp() -> None:
    expected = right(3 * CHUNK + 17)
    found = compare("y", expected.float(), expected, TOLERANCE, rms(expected))
    assert found.mismatch is None
    assert found.max_ulp is not None
    assert found.max_ulp <= 0.5


@pytest.mark.parametrize("place", [0, 999, CHUNK - 1, CHUNK, 2 * CHUNK + 5])
def test_one_wrong_element_is_found_wherever_it_is(place: int) -> None:
    expected = right(2 * CHUNK + 6)
    actual = expected.float()
    actual[place] += 1e-3
    found = compare("y", actual, expected, TOLERANCE, rms(expected)).mismatch
    assert found is not None
    assert found.index == (place,)
    assert f"1 of {expected.numel()} elements are wrong" in found.message


def test_the_index_is_that_of_the_shape() -> None:
    expected = right(60).view(3, 4, 5)
    actual = expected.float()
    actual[2, 1, 3] = 9.0
    found = compare("y", actual, expected, TOLERANCE, 1.0).mismatch
    assert found is not None
    assert (found.index, found.actual) == ((2, 1, 3), "9")
    assert found.message.startswith("y[2, 1, 3] is 9, expected ")


def test_what_every_element_passes_the_whole_may_still_fail() -> None:
    expected = right()
    actual = (expected * (1 + 3e-7)).float()
    wide = Tolerance(max_ulp=1000, norm=1e-7)
    found = compare("y", actual, expected, wide, 1.0)
    assert found.mismatch is not None
    assert "as a whole is off" in found.mismatch.message
    assert compare("y", actual, expected, Tolerance(max_ulp=1000, norm=1e-5), 1.0).mismatch is None


def test_a_floor_forgives_near_zero_and_nothing_else() -> None:
    expected = torch.tensor([1.0, 1e-12], dtype=torch.float64)
    actual = torch.tensor([1.0, 1.0001e-12])
    assert compare("y", actual, expected, TOLERANCE, 0.7).mismatch is not None
    floored = Tolerance(max_ulp=4, norm=1e-6, floor=1e-3)
    assert compare("y", actual, expected, floored, 0.7).mismatch is None
    assert compare("y", torch.tensor([1.00001, 1e-12]), expected, floored, 0.7).mismatch is not None


@pytest.mark.parametrize("special", [math.inf, -math.inf, math.nan])
def test_special_values_must_match_exactly(special: float) -> None:
    expected = right(8)
    expected[3] = special
    assert compare("y", expected.float(), expected, TOLERANCE, 1.0).mismatch is None
    for wrong in {math.inf, -math.inf, 0.0} - {special}:
        actual = expected.float()
        actual[3] = wrong
        found = compare("y", actual, expected, TOLERANCE, 1.0).mismatch
        assert found is not None
        assert found.index == (3,)


@pytest.mark.parametrize("special", [math.inf, -math.inf, math.nan])
def test_special_values_are_wrong_where_a_number_is_expected(special: float) -> None:
    expected = right(8)
    actual = expected.float()
    actual[5] = special
    found = compare("y", actual, expected, TOLERANCE, 1.0).mismatch
    assert found is not None
    assert found.index == (5,)


def test_what_was_never_written_is_named() -> None:
    expected = right(100)
    actual = expected.float()
    actual[83:] = math.nan
    found = compare("y", actual, expected, TOLERANCE, 1.0).mismatch
    assert found is not None
    assert found.message.startswith("17 % of y is NaN or was never written")


def test_what_rounds_to_infinity_must_be_infinity() -> None:
    expected = torch.tensor([1e39, 1.0], dtype=torch.float64)
    assert compare("y", torch.tensor([math.inf, 1.0]), expected, TOLERANCE, 1.0).mismatch is None
    assert compare("y", torch.tensor([3.4e38, 1.0]), expected, TOLERANCE, 1.0).mismatch is not None


def test_denormals_are_compared_by_their_own_spacing() -> None:
    expected = torch.tensor([3e-45, 1e-40], dtype=torch.float64)
    found = compare("y", expected.float(), expected, TOLERANCE, 1e-40)
    assert found.mismatch is None
    assert compare("y", torch.tensor([3e-45, 2e-40]), expected, TOLERANCE, 1e-40).mismatch is not None


def test_another_shape_is_wrong() -> None:
    found = compare("y", torch.zeros(3), right(4), TOLERANCE, 1.0).mismatch
    assert found is not None
    assert found.message == "y has shape [3], expected [4]"


def test_integers_are_compared_exactly() -> None:
    expected = torch.arange(6).view(2, 3)
    assert compare("n", expected.clone(), expected, TOLERANCE, 0.0).mismatch is None
    actual = expected.clone()
    actual[1, 2] = 7
    found = compare("n", actual, expected, TOLERANCE, 0.0).mismatch
    assert found is not None
    assert found.message == "n[1, 2] is 7, expected 5; 1 of 6 elements are wrong"


def test_an_empty_output_has_nothing_to_compare() -> None:
    found = compare("y", torch.empty(0), torch.empty(0, dtype=torch.float64), TOLERANCE, 0.0)
    assert (found.max_ulp, found.norm, found.mismatch) == (None, None, None)


def test_rms_leaves_out_what_is_not_finite() -> None:
    values = torch.tensor([3.0, 4.0, math.inf, math.nan], dtype=torch.float64)
    assert rms(values) == pytest.approx(math.sqrt(12.5))


# Numbers whose neighbours are finite: numpy has no spacing for the largest.
@given(st.floats(-1.5 * 2.0**127, 1.5 * 2.0**127, width=32), st.integers(0, 40))
def test_ulps_are_counted_as_numpy_spaces_them(value: float, steps: int) -> None:
    """An actual value `steps` representable numbers above an exactly representable one is `steps` ulp off, below the next power of two."""
    actual = np.float32(value)
    for _ in range(steps):
        actual = np.nextafter(actual, np.float32(math.inf))
    spacing = max(float(np.spacing(np.abs(np.float32(value)))), 2.0**-149)
    off = abs(float(actual) - value) / spacing
    if not math.isfinite(float(actual)):
        return
    expected = torch.tensor([value], dtype=torch.float64)
    found = compare("y", torch.from_numpy(np.array([actual])), expected, Tolerance(max_ulp=10, norm=1e30), 0.0)
    assert found.max_ulp == pytest.approx(off)
    assert (found.mismatch is None) == (off <= 10)


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (17, 100, "17 %"),
        (1, 20, "5.0 %"),
        (1, 10_000, "1 of 10000 elements (0.0100 %)"),
        (9_999, 10_000, "9999 of 10000 elements (99.9900 %)"),
    ],
)
def test_percent(part: int, whole: int, text: str) -> None:
    assert percent(part, whole) == text
