"""Workloads are what the spec says; hidden ones follow from the seed, within their ranges and the constraints."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.errors import FactoryError
from runner.spec.load import load_spec
from runner.spec.models import Draw, HiddenSpec, Spec, VarAxis
from runner.spec.workloads import draw, edge, hidden, holds, public, resolve_axes, screening, seeded

SPEC = load_spec(Path(__file__).parents[2] / "data" / "specs" / "good-spec").spec


def test_public_workloads_are_resolved() -> None:
    small, no_bias = public(SPEC)
    assert (small.name, small.kind) == ("small", "public")
    assert dict(small.axes) == {"rows": 16, "cols": 64, "half": 32, "lanes": 8}
    assert small.inputs["bias"].shape == (32,)
    assert small.inputs["x"].align == 32
    assert small.outputs["out"].shape == (16, 32)
    assert small.outputs["out"].numel == 512
    assert dict(small.scalars) == {"scale": 0.15, "n": -(2**31)}
    assert small.bytes == 4 * (16 * 64 + 16 * 32) + 8 * 16
    assert small.flops == 3 * 16 * 32
    assert small.init["x"].row_scale == (1, 1)
    assert "bias" not in no_bias.inputs
    assert "bias" not in no_bias.init
    assert no_bias.init["x"].std == 3
    assert no_bias.init["x"].row_scale is None


def test_edge_workloads_may_be_empty_and_offset() -> None:
    empty, odd = edge(SPEC)
    assert empty.inputs["x"].numel == 0
    assert odd.inputs["x"].offset == 1
    assert odd.outputs["out"].offset == 3
    assert odd.inputs["ids"].offset == 0


def test_screening_takes_the_named_workloads_or_all() -> None:
    assert [workload.name for workload in screening(SPEC)] == ["small"]
    without = SPEC.model_copy(update={"workloads": SPEC.workloads.model_copy(update={"screening": ()})})
    assert screening(without) == public(without)


@settings(max_examples=30)
@given(st.integers(0, 2**64))
def test_hidden_workloads_follow_from_the_seed_within_their_ranges(seed: int) -> None:
    drawn = hidden(SPEC, seed)
    assert drawn == hidden(SPEC, seed)
    assert [workload.name for workload in drawn] == [
        "hidden-any-0",
        "hidden-any-1",
        "hidden-any-2",
        "hidden-fixed rows-0",
        "hidden-fixed rows-1",
    ]
    for workload in drawn:
        assert workload.kind == "hidden"
        assert workload.axes["cols"] % 2 == 0
        assert all(holds(constraint, workload.axes, SPEC.scalars) for constraint in SPEC.constraints)
    for workload in drawn[:3]:
        assert 1 <= workload.axes["rows"] <= 64
        assert 2 <= workload.axes["cols"] <= 99
        assert workload.inputs["x"].offset == 1
    for workload in drawn[3:]:
        assert workload.axes["rows"] == 7
        assert workload.axes["cols"] in range(16, 101, 16)


def test_seeds_differ() -> None:
    shapes = {tuple(tuple(workload.axes.items()) for workload in hidden(SPEC, seed)) for seed in range(20)}
    assert len(shapes) == 20


def with_hidden(*items: HiddenSpec) -> Spec:
    return SPEC.model_copy(update={"workloads": SPEC.workloads.model_copy(update={"hidden": items}), "constraints": ()})


def test_one_more_hidden_spec_leaves_the_others_as_they_were() -> None:
    first, second = SPEC.workloads.hidden
    assert hidden(with_hidden(second), 5) == hidden(with_hidden(first, second), 5)[3:]


@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize(("low", "high", "step"), [(0, 3, 1), (1, 4, 1), (5, 5, 1), (10, 40, 10), (7, 23, 8)])
def test_every_value_of_a_range_is_drawn_and_no_other(scale: str, low: int, high: int, step: int) -> None:
    range_ = Draw.model_validate({"low": low, "high": high, "scale": scale, "multiple_of": step})
    written = HiddenSpec(name="h", axes={"rows": range_, "cols": 2})
    spec = with_hidden(written)
    found = {draw(spec, written, "h", seeded(seed, "h", 0)).axes["rows"] for seed in range(300)}
    assert found == {value for value in range(low, high + 1) if value % step == 0}


def test_a_logarithmic_draw_takes_small_values_more_often() -> None:
    def mean(scale: str) -> float:
        written = HiddenSpec(name="h", axes={"rows": Draw.model_validate({"low": 1, "high": 4096, "scale": scale}), "cols": 2})
        return sum(draw(with_hidden(written), written, "h", seeded(seed, "h", 0)).axes["rows"] for seed in range(200)) / 200

    assert mean("log") < 1000 < mean("linear")


def test_constraints_that_no_draw_meets_are_an_expected_error() -> None:
    written = HiddenSpec(name="h", axes={"rows": 3, "cols": 3})
    with pytest.raises(FactoryError, match="hidden workload `h`: not one of 1000 draws met the constraints"):
        draw(SPEC, written, "h", seeded(1, "h", 0))


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ({"rows": 1}, "the length of the axis `cols` is not given"),
        ({"rows": 1, "cols": 2, "half": 1}, "`half` is not an axis of type var; allowed: `rows`, `cols`"),
        ({"rows": 5000, "cols": 2}, "the axis `rows` is 5000; allowed: between 0 and 4096"),
        ({"rows": 1, "cols": 1}, "the axis `cols` is 1; allowed: at least 2"),
    ],
)
def test_impossible_lengths(lengths: dict[str, int], message: str) -> None:
    with pytest.raises(FactoryError, match=message):
        resolve_axes(SPEC.axes, SPEC.scalars, lengths)


def test_an_axis_is_never_larger_than_memory() -> None:
    with pytest.raises(FactoryError, match=r"a length is a whole number from 0 to 2\^40"):
        resolve_axes({**SPEC.axes, "rows": VarAxis(type="var"), "half": SPEC.axes["half"]}, SPEC.scalars, {"rows": 1, "cols": 2**42})
