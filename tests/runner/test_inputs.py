"""The full generator and the pool: distributions, special values, freshness and repeatability."""

from __future__ import annotations

import math

import pytest
import torch

from runner.errors import FactoryError
from runner.inputs import Pool, change_part, derive, draw_inputs, draw_tensor
from runner.spec.models import DType, Init, Special
from runner.spec.workload import TensorLayout, Workload


def workload(shape: tuple[int, ...], init: Init, dtype: DType = "float32") -> Workload:
    layout = TensorLayout("x", dtype, shape, 0, 64)
    return Workload("w", "public", {}, {}, {"x": layout}, {"y": layout}, {"x": init}, 0.0, 0.0)


def both(shape: tuple[int, ...], init: Init, dtype: DType = "float32") -> list[torch.Tensor]:
    """The same tensor by the full generator and by a pool that is much smaller than it."""
    one = workload(shape, init, dtype)
    return [draw_inputs(one, 5)["x"], Pool(9, elements=4099).fresh(one, 5)["x"].clone()]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_a_normal_input_has_its_mean_and_deviation(dtype: DType) -> None:
    for values in both((300, 500), Init(kind="normal", mean=2.0, std=0.5), dtype):
        assert str(values.dtype) == f"torch.{dtype}"
        assert float(values.double().mean()) == pytest.approx(2.0, abs=0.02)
        assert float(values.double().std()) == pytest.approx(0.5, rel=0.04)


def test_a_uniform_input_fills_its_range_and_stays_in_it() -> None:
    for values in both((300, 500), Init(kind="uniform", low=-3.0, high=5.0)):
        assert -3.0 <= float(values.min()) < -2.9
        assert 4.9 < float(values.max()) <= 5.0
        assert float(values.mean()) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("mean", [0.0, 3.0])
def test_rows_differ_in_scale(mean: float) -> None:
    for values in both((400, 100), Init(kind="normal", mean=mean, row_scale=(1e-3, 1e3))):
        sizes = (values.double().square().mean(dim=1) / (1 + mean**2)).sqrt().log10()
        assert float(sizes.min()) < -2.5
        assert float(sizes.max()) > 2.5


def test_special_values_are_planted_as_often_as_asked() -> None:
    init = Init(special=(Special(value="inf", count=3), Special(value="zero", count=5), Special(value="denormal", count=4)))
    for values in both((50, 40), init):
        assert int(torch.isinf(values).sum()) in (2, 3)  # a later special may take the place of an earlier one
        assert int((values == 0).sum()) in (4, 5)
        tiny = values.abs() < torch.finfo(torch.float32).smallest_normal
        assert int((tiny & (values != 0)).sum()) == 4


def test_a_special_fills_a_tensor_that_is_smaller_than_its_count() -> None:
    for values in both((3, 2), Init(special=(Special(value="max", count=99),))):
        assert bool((values == torch.finfo(torch.float32).max).all())


def test_a_constant_is_that_value() -> None:
    for values in both((3, 2), Init(kind="constant", value=7.0), "int32"):
        assert values.tolist() == [[7, 7]] * 3


def test_integers_lie_in_the_half_open_range() -> None:
    values = draw_inputs(workload((1000,), Init(kind="uniform", low=-2, high=3), "int64"), 1)["x"]
    assert sorted(set(values.tolist())) == [-2, -1, 0, 1, 2]


def test_row_scales_of_integers_are_refused() -> None:
    with pytest.raises(FactoryError, match="row scales are for floating-point"):
        draw_tensor(TensorLayout("n", "int32", (3,), 0, 64), Init(row_scale=(1, 2)), torch.Generator())


def test_the_same_seed_gives_the_same_values_and_another_one_others() -> None:
    one, pool = workload((64, 64), Init(row_scale=(0.5, 2))), Pool(1, elements=4099)
    for draw in (lambda seed: draw_inputs(one, seed)["x"].clone(), lambda seed: pool.fresh(one, seed)["x"].clone()):
        assert torch.equal(draw(3), draw(3))
        assert not torch.isclose(draw(3), draw(4)).float().mean() > 0.05


def test_changing_a_part_changes_one_element_of_each_tensor() -> None:
    inputs = {"a": torch.randn(50), "b": torch.zeros(3), "c": torch.tensor([math.inf]), "d": torch.arange(4), "e": torch.empty(0)}
    changed = change_part(inputs, 7)
    for name in "abcd":
        assert int((changed[name] != inputs[name]).sum()) == 1
        assert bool(torch.isfinite(changed[name].double()).all())
    assert changed["e"].numel() == 0


def test_derived_seeds_depend_on_every_word() -> None:
    seeds = {derive(1), derive(1, "a"), derive(1, "a", "b"), derive(1, "ab"), derive(2, "a"), derive(1, "a", 0), derive(1, "a", 1)}
    assert len(seeds) == 7
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_no_row_of_a_fresh_input_is_a_scaled_piece_of_the_pool() -> None:
    """A kernel that has learned the pool could answer a row from a few of its elements, without reading the others."""
    pool = Pool(3, elements=1 << 14)
    rows = pool.fresh(workload((8, 2000), Init(row_scale=(0.5, 2))), 7)["x"].double()
    numbers = pool._numbers["normal", torch.float32].double()
    windows = numbers.unfold(0, 2000, 1)
    for row in rows:
        # The piece of the pool that is most like the row, up to a factor: nearly all of it, but never all.
        likeness = (windows @ row).abs() / windows.norm(dim=1) / row.norm()
        best = windows[int(likeness.argmax())]
        ratio = row / best
        same = (ratio / ratio.median() - 1).abs() < 1e-4
        assert 1990 <= int(same.sum()) < 2000
