"""The report: a row a workload, and names that can't break out of it."""

from __future__ import annotations

import pytest
from results import make_result, make_row

from runner.report import as_json, code, markdown, milliseconds, prose, text
from runner.result import Reproduction
from runner.verdict import Verdict

HOSTILE = "a|b `c` <img src=x> @maintainer [x](http://e.vil) **b** #12 \n## head"


def test_a_row_a_workload() -> None:
    result = make_result((make_row("64x256", 1.5), make_row("behind", 0.8, verdict=Verdict.SLOWER), make_row("wild", noise=0.2)))
    table = [line for line in markdown(result).splitlines() if line.startswith("|")][:5]
    assert [line.split("|")[1].strip() for line in table] == ["workload", "---", "64x256", "behind", "wild"]
    assert "1.00 ms" in table[2]
    assert "torch 1.50 ms" in table[2]
    assert "90 % (memcpy)" in table[2]
    assert "40 %" in table[2]
    assert "behind" in table[3].split("|")[-2]
    assert "noisy (A/A" in table[4]


def test_the_figures_for_programs() -> None:
    result = make_result()
    assert result.geomean is not None
    figures = as_json(result)
    assert list(figures) == ["spec", "device", "harness", "geomean", "rows"]
    assert figures["geomean"] == {"speedup": result.geomean.speedup, "interval": list(result.geomean.interval)}
    assert list(figures["rows"][0]) == [
        *("workload", "axes", "dtype", "verdict", "error", "median_ms", "baseline", "speedup", "interval", "roofline", "copy"),
    ]
    assert figures["rows"][0]["baseline"] == {"name": "torch", "config": "compiled", "median_ms": result.rows[0].baseline.median_ms}


def test_a_refused_kernel_has_no_table_and_no_geomean() -> None:
    result = make_result((), verdict=Verdict.BUILD_ERROR, message="kernel.cpp:3:1: error: `x`\nkernel.cpp:4:1: error: y", checks=())
    shown = markdown(result)
    assert shown.startswith("## scale-cpu: build\\_error\n\n```text\nkernel.cpp:3:1: error: `x`\n")
    assert "| workload |" not in shown
    assert as_json(result)["geomean"] is None


def test_a_failure_is_shown_small_with_its_command() -> None:
    small = Reproduction(
        workload="odd",
        axes={"rows": 1, "cols": 5},
        command="kernel-runner evaluate s --workload odd --axes rows=1,cols=5",
        index=(0, 3),
        output="y",
        actual="nan",
        expected="0.5",
    )
    shown = markdown(make_result((), reproduction=small))
    assert "(odd, rows = 1, cols = 5): `kernel-runner evaluate s --workload odd --axes rows=1,cols=5`" in shown
    assert "there `y[0, 3]` is `nan`, expected `0.5`" in shown


def test_a_selection_is_told_beside_the_geomean() -> None:
    assert "on 2 selected workloads only" in markdown(make_result(selection=("64x256", "8x4096")))


def test_hostile_names_stay_in_their_cell() -> None:
    line = HOSTILE.replace("\n", " ")
    result = make_result((make_row(HOSTILE), make_row("b")), spec=HOSTILE, message=line, environment={HOSTILE: HOSTILE})
    shown = markdown(result)
    rows = [line for line in shown.splitlines() if line.startswith("| a")]
    assert len(rows) == 2
    # The table's row has as many unescaped bars as its head.
    assert rows[0].replace("\\|", "").count("|") == 9
    assert "@maintainer" not in shown
    assert "<img" not in shown.replace("\\<img", "")
    assert "[x](" not in shown
    assert "\n## head" not in shown
    assert "#12" not in shown
    assert "http://" not in shown


@pytest.mark.parametrize("value", ["plain", "a `b` c", "``", "x ``` y", "`", HOSTILE])
def test_code_spans_hold_anything(value: str) -> None:
    span = code(value)
    fence = span[: len(span) - len(span.lstrip("`"))]
    inner = span[len(fence) : -len(fence)]
    assert fence not in [run for run in inner.split(" ") if run.strip("`") == "" and run]
    assert "\n" not in span


def test_lines_of_a_compiler_are_a_block_that_they_can_t_end() -> None:
    block = prose("error:\n```\n# injected\n````")
    assert block.startswith("`````text\n")
    assert block.endswith("\n`````")


def test_a_long_name_is_cut() -> None:
    assert len(text("x" * 1000)) <= 201


@pytest.mark.parametrize(
    ("value", "shown"), [(8.912, "8.91 ms"), (123.4, "123 ms"), (12.34, "12.3 ms"), (0.4312, "431 µs"), (0.00512, "5.12 µs")]
)
def test_times_have_three_digits(value: float, shown: str) -> None:
    assert milliseconds(value) == shown
