"""What a result must agree with: its kernel, spec and harness, its own samples, and a second measurement."""

from __future__ import annotations

from pathlib import Path

import pytest
from results import make_result, make_row
from specs import write_spec

from runner.candidate import read_candidate
from runner.errors import FactoryError
from runner.identity import harness_hash
from runner.reproduce import find_spec, find_subject, identity_differences, measured_differences, notes, own_differences
from runner.result import Geomean, Identity, Result, write_result
from runner.spec.models import Accept
from runner.verdict import Verdict

ACCEPT = Accept()


def test_an_honest_result_agrees_with_itself() -> None:
    assert own_differences(make_result(), ACCEPT) == ()


def test_a_speed_up_that_the_samples_don_t_give_is_told() -> None:
    result = make_result((make_row("a", 1.5, speedup=1.9), make_row("b", 1.3)))
    assert own_differences(result, ACCEPT) == ("a: speed-up and medians do not follow from the row's own samples",)


def test_a_median_that_the_samples_don_t_give_is_told() -> None:
    assert "medians" in own_differences(make_result((make_row("a", 1.5, median_ms=0.5),)), ACCEPT)[0]


def test_a_geomean_or_verdict_of_its_own_is_told() -> None:
    honest = make_result()
    twice = honest.model_copy(update={"geomean": Geomean(speedup=2, interval=(1.9, 2.1))})
    assert own_differences(twice, ACCEPT) == ("the geomean does not follow from the rows",)
    slower = make_result((make_row("a", 1.0),))
    edited = slower.model_copy(update={"verdict": Verdict.ACCEPTED})
    assert own_differences(edited, ACCEPT) == ("the verdict accepted does not follow from the rows and the geomean",)


def test_samples_out_of_order_are_told() -> None:
    row = make_row("a")
    samples = row.samples.model_copy(update={"order": ("ABBA",) * 3})
    edited = make_result().model_copy(update={"rows": (row.model_copy(update={"samples": samples}),)})
    assert "not blocks in balanced order" in own_differences(edited, ACCEPT)[0]


def test_a_second_measurement_within_noise_holds() -> None:
    then, now = make_result(), make_result((make_row("64x256", 1.49, seed=8), make_row("8x4096", 1.21, seed=9)))
    assert measured_differences(then, now) == ()


def test_another_verdict_does_not_hold() -> None:
    now = make_result((), verdict=Verdict.INCORRECT, message="y[0] is 1, expected 2")
    assert measured_differences(make_result(), now) == ("the verdict was accepted, now it is incorrect: y[0] is 1, expected 2",)


def test_times_edited_consistently_do_not_hold() -> None:
    """All samples of the candidate halved: the result agrees with itself, and a measurement shows what it is."""
    honest = (make_row("64x256", 1.5, seed=1), make_row("8x4096", 1.2, seed=2))
    edited = make_result((make_row("64x256", 3.0, seed=1), make_row("8x4096", 2.4, seed=2)))
    assert own_differences(edited, ACCEPT) == ()
    found = measured_differences(edited, make_result(honest))
    assert len(found) == 3
    assert found[0].startswith("the geomean was 2.6")


def test_one_edited_row_among_many_is_found() -> None:
    rows = [make_row(f"w{index}", 1.3, seed=index) for index in range(10)]
    edited = make_result((*rows[:9], make_row("w9", 1.7, seed=9)))
    assert any(text.startswith("w9 was 1.7") for text in measured_differences(edited, make_result(tuple(rows))))


def test_a_row_that_was_not_measured_again_is_told() -> None:
    found = measured_differences(make_result((make_row("a", 1.5), make_row("b", 1.5))), make_result((make_row("a", 1.5),)))
    assert found == ("b was not measured again: the spec does not have it",)


def test_another_device_is_a_note() -> None:
    again = make_result(device_id="cpu-2", device="Another", environment={"torch": "2.14.0", "cores": 2})
    assert notes(make_result(), again) == (
        "the result is from another device: A processor (2 cores); this one is Another",
        "torch was 2.13.0, now 2.14.0",
    )


def judged(tmp_path: Path) -> tuple[Path, Result]:
    loaded = write_spec(tmp_path)
    champion = read_candidate(loaded.folder / "kernel", loaded.spec.policy)
    identity = Identity(kernel_tree=champion.tree, spec_hash=loaded.spec_hash, harness=harness_hash())
    path = loaded.folder / "results" / "r" / "result.json"
    result = make_result(identity=identity)
    write_result(result, path)
    return path, result


def test_the_spec_around_a_result_is_found(tmp_path: Path) -> None:
    path, result = judged(tmp_path)
    loaded = find_spec(result, path, None)
    assert loaded.folder.name == "scale-cpu"
    assert identity_differences(result, loaded, find_subject(result, loaded, None)) == ()


def test_what_is_not_the_judged_thing_is_told(tmp_path: Path) -> None:
    path, result = judged(tmp_path)
    kernel = tmp_path / "scale-cpu" / "kernel" / "scale.cpp"
    kernel.write_text(kernel.read_text() + "\n")
    reference = tmp_path / "scale-cpu" / "reference.py"
    reference.write_text(reference.read_text() + "\n")
    loaded = find_spec(result, path, None)
    found = identity_differences(
        result.model_copy(update={"identity": result.identity.model_copy(update={"harness": "x"})}),
        loaded,
        find_subject(result, loaded, None),
    )
    assert [text.split(" is ")[0] for text in found] == ["the kernel's tree", "the spec's hash", "the harness"]


def test_a_spec_that_is_not_there_or_another_is_told(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_result(make_result(), path)
    with pytest.raises(FactoryError, match="name its folder with --spec"):
        find_spec(make_result(), path, tmp_path / "none")
    write_spec(tmp_path / "elsewhere")
    with pytest.raises(FactoryError, match=r"is about the spec other-cpu, and .* holds scale-cpu"):
        find_spec(make_result(spec="other-cpu"), path, tmp_path / "elsewhere" / "scale-cpu")
