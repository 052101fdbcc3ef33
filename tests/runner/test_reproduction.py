"""Failures made small, and the command that shows them again."""

from __future__ import annotations

import shlex
from pathlib import Path

from specs import SPEC, write_spec

from runner.comparison import Mismatch
from runner.correctness import Check
from runner.plan import with_axes
from runner.reproduction import reproduce_small
from runner.result import CheckRow
from runner.spec import workloads
from runner.spec.workload import Workload
from runner.verdict import Verdict


def checked(workload: Workload, verdict: Verdict) -> Check:
    row = CheckRow(workload=workload.name, kind=workload.kind, axes=dict(workload.axes), verdict=verdict, message="wrong")
    return Check(row, {}, Mismatch("y", (0, 1), "1", "2", "wrong") if verdict is Verdict.INCORRECT else None)


def test_the_smallest_lengths_that_still_fail_are_found(tmp_path: Path) -> None:
    """A kernel that is wrong from 5 columns on, whatever the rows."""
    loaded = write_spec(tmp_path)
    large = workloads.public(loaded.spec)[1]

    def recheck(workload: Workload) -> Check:
        return checked(workload, Verdict.INCORRECT if workload.axes["cols"] >= 5 else Verdict.ACCEPTED)

    small = reproduce_small(loaded, large, recheck(large), recheck, "some dir", 12)
    assert small.axes == {"rows": 1, "cols": 5}
    assert (small.index, small.actual, small.expected) == ((0, 1), "1", "2")
    words = shlex.split(small.command)
    assert words[:2] == ["kernel-runner", "evaluate"]
    options = {"--candidate": "some dir", "--workload": "large", "--axes": "rows=1,cols=5", "--seed": "12", "--out": "result.json"}
    assert dict(zip(words[3::2], words[4::2], strict=True)) == options


def test_another_failure_is_not_mistaken_for_this_one(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path)
    large = workloads.public(loaded.spec)[1]

    def recheck(workload: Workload) -> Check:
        return checked(workload, Verdict.INCORRECT if workload.axes["cols"] > 500 else Verdict.LAUNCH_ERROR)

    assert reproduce_small(loaded, large, recheck(large), recheck, "kernel", 1).axes["cols"] == 501


def test_a_timeout_is_not_tried_again(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path)
    large = workloads.public(loaded.spec)[1]

    def recheck(workload: Workload) -> Check:
        raise AssertionError("tried again")

    small = reproduce_small(loaded, large, checked(large, Verdict.TIMEOUT), recheck, "kernel", 1)
    assert small.axes == large.axes
    assert "--axes" not in small.command


def test_the_spec_s_constraints_hold_in_what_is_made_small(tmp_path: Path) -> None:
    constraints = 'constraints: ["rows <= cols", "cols % 2 == 0 or cols < 100"]'
    loaded = write_spec(tmp_path, SPEC.replace("reference: ref", f"{constraints}\nreference: ref"))
    small = workloads.public(loaded.spec)[0]
    found = reproduce_small(loaded, small, checked(small, Verdict.INCORRECT), lambda one: checked(one, Verdict.INCORRECT), "kernel", 1)
    assert found.axes == {"rows": 1, "cols": 1}


def test_other_lengths_keep_offsets_and_generators(tmp_path: Path) -> None:
    loaded = write_spec(tmp_path)
    offset = workloads.edge(loaded.spec)[2]
    changed = with_axes(loaded, offset, {"rows": 2})
    assert (changed.name, changed.kind) == ("offset", "edge")
    assert changed.axes == {"rows": 2, "cols": 33}
    assert changed.inputs["x"].offset == 1
    assert changed.outputs["y"].shape == (2, 33)
    assert changed.init == offset.init
