"""The float64 oracle: slices, samples, and references that do not keep to their spec."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from specs import SPEC, write_spec

from runner import oracle as oracle_module
from runner.errors import FactoryError, FaultsError
from runner.inputs import Pool, draw_inputs
from runner.oracle import Oracle, load_entry
from runner.soundness import check_sound
from runner.spec import workloads


def test_slices_together_are_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = write_spec(tmp_path)
    large = workloads.public(loaded.spec)[1]
    inputs = draw_inputs(large, 1)
    whole = Oracle(loaded).expected(large, inputs)["y"]
    monkeypatch.setattr(oracle_module, "SLICE_ELEMENTS", 5000)
    sliced = Oracle(loaded).expected(large, inputs)["y"]
    assert whole.dtype == torch.float64
    assert torch.equal(whole, sliced)


def test_scalars_are_what_the_kernel_sees(tmp_path: Path) -> None:
    """0.1 is not a float32 number; the oracle must use the one that the kernel is given."""
    loaded = write_spec(tmp_path)
    odd = workloads.edge(loaded.spec)[1]
    inputs = {"x": torch.ones(3, 17), "shift": torch.zeros(17)}
    assert float(Oracle(loaded).expected(odd, inputs)["y"][0, 0]) == float(torch.tensor(0.1))


def test_a_sample_holds_the_rows_that_it_names(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path)
    large = workloads.public(loaded.spec)[1]
    inputs = draw_inputs(large, 1)
    oracle = Oracle(loaded)
    whole = oracle.expected(large, inputs)["y"]
    sample = oracle.sample(large, inputs, 3, slices=7)
    assert sample is not None
    assert len(sample.indices["y"]) == 7
    assert torch.equal(sample.pick("y", whole), sample.expected["y"])
    assert sample.restore("y", (2, 5)) == (int(sample.indices["y"][2]), 5)


SUMS = SPEC.replace("y: {dtype: float32, shape: [rows, cols]}", "y: {dtype: float32, shape: [rows, cols], independent: rows}").replace(
    "reference:", "  sums: {dtype: float32, shape: [cols], independent: cols}\nreference:"
)
SUMS = SUMS.replace("independent: [rows]\n", "").replace("floor: 1.0e-3}", "floor: 1.0e-3}\n  sums: {max_ulp: 64, norm: 1.0e-6, floor: 1}")
SUM_REFERENCE = "def scale(x, shift, factor):\n    return x * factor + shift * x.abs().mean(dim=1, keepdim=True), x.sum(dim=0)\n"
SUM_BASELINES = "def scale(x, shift, y, sums, factor):\n    pass\n"


def test_each_output_may_have_an_independent_axis_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum over rows is checked by columns, where the other output's columns depend on each other."""
    loaded = write_spec(tmp_path, SUMS, SUM_REFERENCE, SUM_BASELINES)
    large = workloads.public(loaded.spec)[1]
    inputs = draw_inputs(large, 1)
    oracle = Oracle(loaded)
    whole = oracle.expected(large, inputs)
    sample = oracle.sample(large, inputs, 3, slices=4, elements=9 * 1024)
    assert sample is not None
    assert {name: len(indices) for name, indices in sample.indices.items()} == {"y": 9, "sums": 9}
    for name in ("y", "sums"):
        torch.testing.assert_close(sample.pick(name, whole[name]), sample.expected[name], rtol=1e-12, atol=1e-12)
    assert sample.restore("sums", (2,)) == (int(sample.indices["sums"][2]),)
    monkeypatch.setattr(oracle_module, "SLICE_ELEMENTS", 5000)
    sliced = oracle.expected(large, inputs)
    for name in ("y", "sums"):
        torch.testing.assert_close(sliced[name], whole[name], rtol=1e-12, atol=1e-12)
    check_sound(loaded, oracle, Pool(1), workloads.public(loaded.spec), 1)


def test_an_output_is_not_independent_along_an_axis_that_it_mixes(tmp_path: Path) -> None:
    mixed = "def scale(x, shift, factor):\n    return x * factor + shift, x.sum(dim=0) / x.abs().sum()\n"
    loaded = write_spec(tmp_path, SUMS, mixed, SUM_BASELINES)
    with pytest.raises(FactoryError, match=r"gives other values for sums .*calls independent \(cols\)"):
        check_sound(loaded, Oracle(loaded), Pool(1), workloads.public(loaded.spec), 1)


def test_an_independent_axis_is_one_of_the_output(tmp_path: Path) -> None:
    with pytest.raises(FaultsError, match="`rows` is not independent: it stands 0 times in the shape of `sums`"):
        write_spec(tmp_path, SUMS.replace("independent: cols", "independent: rows"), SUM_REFERENCE, SUM_BASELINES)


def test_without_an_independent_axis_there_is_no_sample(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path, SPEC.replace("independent: [rows]\n", ""))
    large = workloads.public(loaded.spec)[1]
    assert Oracle(loaded).sample(large, draw_inputs(large, 1), 3, slices=7) is None


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("def scale(x, shift, factor):\n    return x[:1]\n", "its shape is"),
        ("def scale(x, shift, factor):\n    return x, shift\n", "must return the outputs y"),
        ("def scale(x, shift, factor):\n    return {'z': x}\n", "must return the outputs y"),
        ("def scale(x, shift, factor):\n    raise KeyError('k')\n", "failed on workload small: KeyError"),
    ],
)
def test_a_reference_that_breaks_its_spec_is_told(tmp_path: Path, reference: str, message: str) -> None:
    loaded = write_spec(tmp_path, reference=reference)
    small = workloads.public(loaded.spec)[0]
    with pytest.raises(FactoryError, match=message):
        Oracle(loaded).expected(small, draw_inputs(small, 1))


def test_an_entry_that_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text("import nowhere_to_be_found\n")
    with pytest.raises(FactoryError, match="cannot be imported: ModuleNotFoundError"):
        load_entry(tmp_path, "reference.py:scale")
    (tmp_path / "reference.py").write_text("other = 1\n")
    with pytest.raises(FactoryError, match="has no function scale"):
        load_entry(tmp_path, "reference.py:scale")


def sound(tmp_path: Path, spec: str = SPEC, reference: str | None = None) -> None:
    loaded = write_spec(tmp_path, spec) if reference is None else write_spec(tmp_path, spec, reference)
    every = (*workloads.public(loaded.spec), *workloads.edge(loaded.spec), *workloads.hidden(loaded.spec, 1))
    check_sound(loaded, Oracle(loaded), Pool(1), every, 1)


def test_a_sound_spec_passes(tmp_path: Path) -> None:
    sound(tmp_path)


def test_an_answer_of_nothing_is_a_fault_of_the_spec(tmp_path: Path) -> None:
    with pytest.raises(FactoryError, match="an output y of zeros passes on the workload small"):
        sound(tmp_path, reference="def scale(x, shift, factor):\n    return 0 * x\n")


def test_an_input_without_effect_is_a_fault_of_the_spec(tmp_path: Path) -> None:
    with pytest.raises(FactoryError, match="does not depend on the input shift"):
        sound(tmp_path, reference="def scale(x, shift, factor):\n    return x * factor\n")


def test_rows_that_are_not_independent_are_a_fault_of_the_spec(tmp_path: Path) -> None:
    with pytest.raises(FactoryError, match="calls independent"):
        sound(tmp_path, reference="def scale(x, shift, factor):\n    return x * factor + shift + x.mean()\n")
