"""Correctness on the real target: right kernels pass, and each way of being wrong is found with a message that says which."""

from __future__ import annotations

from pathlib import Path

import pytest
from specs import RIGHT, write_kernel, write_spec

from runner.candidate import read_candidate
from runner.contestant import prepare
from runner.correctness import FULL, SCREENING, Check, Effort, check
from runner.inputs import Pool
from runner.oracle import Oracle
from runner.spec import workloads
from runner.spec.workload import Workload
from runner.targets.registry import target_for
from runner.verdict import Verdict

SIGNATURE = 'extern "C" void scale(const float* x, const float* shift, float* y, std::int64_t rows, std::int64_t cols, float factor) {\n'
LOOP = """\
    for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t col = 0; col < cols; ++col) y[row * cols + col] = x[row * cols + col] * factor + shift[col];
"""


def checked(tmp_path: Path, *, body: str = RIGHT, source: str | None = None, workload: str = "small", effort: Effort = FULL) -> Check:
    loaded = write_spec(tmp_path)
    candidate = read_candidate(write_kernel(tmp_path / "candidate", body, source=source), loaded.spec.policy)
    contestant = prepare(target_for(loaded.spec), loaded, candidate, lambda row, rows: None)
    every: dict[str, Workload] = {one.name: one for one in (*workloads.public(loaded.spec), *workloads.edge(loaded.spec))}
    return check(loaded, Oracle(loaded), Pool(1), every[workload], contestant.open, 5, effort)


def whole(before: str = "", after: str = "", static: str = "") -> str:
    """A source with code before and after a right loop."""
    return f"#include <cstdint>\n#include <cstring>\n{static}\n{SIGNATURE}{before}{LOOP}{after}}}\n"


@pytest.mark.parametrize("effort", [FULL, SCREENING])
@pytest.mark.parametrize("workload", ["small", "no rows", "odd", "offset"])
def test_a_right_kernel_passes(tmp_path: Path, workload: str, effort: Effort) -> None:
    found = checked(tmp_path, workload=workload, effort=effort)
    assert found.row.verdict is Verdict.ACCEPTED, found.row.message
    assert found.mismatch is None
    if workload != "no rows":
        assert found.row.max_ulp is not None
        assert found.row.max_ulp <= 2
        assert found.scales["y"] > 0


def test_a_large_workload_is_compared_in_full_once(tmp_path: Path) -> None:
    """One wrong element among a million, which samples of rows would miss nearly always."""
    body = f"{RIGHT}\n            if (row == 777 && col == 3 && rows == 1024) y[row * cols + col] += 1;"
    found = checked(tmp_path, workload="large", body=body)
    assert found.row.verdict is Verdict.INCORRECT
    assert found.mismatch is not None
    assert found.mismatch.index == (777, 3)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("            if (col < cols - cols / 6) y[row * cols + col] = x[row * cols + col] * factor + shift[col];", "unwritten"),
        ("            y[row * cols + col] = x[row * cols + col] * factor;", "elements are wrong"),
        ("            y[row * cols + col] = 0;", "elements are wrong"),
        ("            y[row * cols + col] = x[row * cols + col] * factor + shift[col] * 1.00001f;", "ulp off, at most 8 allowed"),
    ],
)
def test_wrong_values_are_found(tmp_path: Path, body: str, message: str) -> None:
    found = checked(tmp_path, body=body)
    assert found.row.verdict is Verdict.INCORRECT
    assert message in found.row.message


def test_a_write_past_the_end_is_found(tmp_path: Path) -> None:
    found = checked(tmp_path, source=whole(after="    if (rows) y[rows * cols] = 1;\n"))
    assert found.row.verdict is Verdict.INCORRECT
    assert "past the end of y" in found.row.message


def test_a_read_past_the_end_is_found(tmp_path: Path) -> None:
    """It changes no result and hits no guard band: only memory that faults shows it."""
    found = checked(tmp_path, source=whole(after="    volatile float sink = x[rows * cols]; (void)sink;\n"))
    assert found.row.verdict is Verdict.LAUNCH_ERROR
    assert "SIGSEGV" in found.row.message
    assert "right after each tensor" in found.row.message


def test_a_read_before_the_start_is_found(tmp_path: Path) -> None:
    found = checked(tmp_path, source=whole(after="    volatile float sink = x[-1]; (void)sink;\n"))
    assert found.row.verdict is Verdict.LAUNCH_ERROR
    assert "right before each tensor" in found.row.message


def test_an_edited_input_is_found(tmp_path: Path) -> None:
    found = checked(tmp_path, source=whole(after="    if (rows) const_cast<float*>(x)[0] = 0;\n"))
    assert found.row.verdict is Verdict.INCORRECT
    assert "input x was modified" in found.row.message


def test_an_answer_kept_by_address_is_found(tmp_path: Path) -> None:
    """The first answer for an address is given again whenever that address comes back."""
    static = "static const float* known = nullptr; static float kept[1 << 20];"
    before = "    if (known == x) { std::memcpy(y, kept, sizeof(float) * rows * cols); return; }\n"
    after = "    known = x; std::memcpy(kept, y, sizeof(float) * rows * cols);\n"
    found = checked(tmp_path, source=whole(before, after, static))
    assert found.row.verdict is Verdict.INCORRECT


def test_an_answer_kept_by_a_fingerprint_is_found(tmp_path: Path) -> None:
    """The fingerprint is a hash of the first row: values that differ elsewhere get the old answer."""
    static = "static float mark = 0; static float kept[1 << 20];"
    before = "    if (rows && mark == x[0] + x[1]) { std::memcpy(y, kept, sizeof(float) * rows * cols); return; }\n"
    after = "    mark = x[0] + x[1]; std::memcpy(kept, y, sizeof(float) * rows * cols);\n"
    found = checked(tmp_path, source=whole(before, after, static))
    assert found.row.verdict is Verdict.INCORRECT


def test_a_call_that_is_left_out_is_found(tmp_path: Path) -> None:
    """Every third call does nothing."""
    found = checked(tmp_path, source=whole("    if (++calls % 3 == 0) return;\n", static="static int calls = 0;"))
    assert found.row.verdict is Verdict.INCORRECT
    assert "unwritten" in found.row.message


def test_a_rare_race_is_found(tmp_path: Path) -> None:
    """Wrong once in about fifteen calls, as a race would be."""
    found = checked(tmp_path, source=whole(after="    if (++calls % 15 == 0) y[0] = 7;\n", static="static int calls = 0;"))
    assert found.row.verdict is Verdict.INCORRECT


def test_a_kernel_that_does_not_end_is_a_timeout(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path)
    text = (loaded.folder / "spec.yaml").read_text() + "policy: {run_seconds: 1}\n"
    loaded = write_spec(tmp_path, text)
    source = whole("    for (volatile std::int64_t i = 0; i >= 0; i = i) {}\n")
    candidate = read_candidate(write_kernel(tmp_path / "candidate", source=source), loaded.spec.policy)
    contestant = prepare(target_for(loaded.spec), loaded, candidate, lambda row, rows: None)
    found = check(loaded, Oracle(loaded), Pool(1), workloads.public(loaded.spec)[0], contestant.open, 5)
    assert found.row.verdict is Verdict.TIMEOUT
    assert "1 s" in found.row.message
