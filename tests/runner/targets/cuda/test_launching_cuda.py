"""What a workload's call is computed to be: extents, arguments, order, and what is refused; no GPU is asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runner.candidate import Candidate, read_candidate
from runner.manifest import choose_row, row_knobs, scope
from runner.spec import workloads
from runner.spec.load import load_spec
from runner.spec.models import Policy
from runner.spec.workload import Workload
from runner.targets.cuda.launching import Call, Nominal, kernel_names, plan_call
from runner.verdict import Rejected, Verdict

ROOT = Path(__file__).resolve().parents[4]
H100 = load_spec(ROOT / "kernel-specs" / "rmsnorm-h100")
SMALL = load_spec(ROOT / "tests" / "adversarial" / "specs" / "rmsnorm-small-cuda")
LAUNCH: dict[str, Any] = {"kernel": "one", "grid": ["rows", 1, 1], "block": [128, 1, 1], "args": ["x", "y", {"i32": "cols"}]}


def workload(name: str, spec: Any = SMALL) -> Workload:
    return next(one for one in (*workloads.public(spec.spec), *workloads.edge(spec.spec)) if one.name == name)


def candidate(folder: Path, manifest: Mapping[str, Any]) -> Candidate:
    folder.mkdir(exist_ok=True)
    (folder / "one.cu").write_text('extern "C" __global__ void one() {}\n')
    (folder / "launch.yaml").write_text(json.dumps({"sources": ["one.cu"], **manifest}))
    return read_candidate(folder, Policy())


def planned(folder: Path, *launches: Mapping[str, Any], on: str = "256x512", **more: Any) -> Call:
    one = candidate(folder, {"launches": [{**LAUNCH, **launch} for launch in launches], **more})
    return plan_call(one.manifest, row_knobs(one.manifest, 0), workload(on), Nominal())


@pytest.mark.parametrize(
    ("name", "threads", "kernel"),
    [
        ("bf16 32768x256", 64, "rmsnorm<__nv_bfloat16, float, 64>"),
        ("bf16 8192x262144", 1024, "rmsnorm<__nv_bfloat16, float, 1024>"),
        ("fp16 weight", 128, "rmsnorm<__half, __half, 128>"),
        ("fp32", 256, "rmsnorm<float, float, 256>"),
    ],
)
def test_the_champion_s_call_follows_from_the_workload(name: str, threads: int, kernel: str) -> None:
    champion, on = read_candidate(H100.folder / "kernel", Policy()), workload(name, H100)
    knobs = row_knobs(champion.manifest, choose_row(champion.manifest, on.axes, *scope(on)))
    assert kernel_names(champion.manifest, knobs, on) == (kernel,)
    (launch,) = plan_call(champion.manifest, knobs, on, Nominal()).launches
    assert (launch.kernel, launch.grid, launch.block) == (kernel, (on.axes["rows"], 1, 1), (threads, 1, 1))
    addresses = [argument.name for argument in launch.args if argument.kind == "address"]
    assert addresses == ["x", None, "weight", "y", None]
    assert next((argument.word, argument.size) for argument in launch.args if argument.kind == "word") == (on.axes["cols"], 8)


def test_launches_follow_each_other_unless_they_say_what_they_wait_for(tmp_path: Path) -> None:
    chain = planned(tmp_path / "chain", {}, {}, {})
    assert [launch.after for launch in chain.launches] == [(), (0,), (1,)]
    fork = planned(tmp_path / "fork", {}, {"after": []}, {"after": [0, 1]})
    assert [launch.after for launch in fork.launches] == [(), (), (0, 1)]


def test_a_launch_without_a_cta_is_left_out_and_who_waits_for_it_waits_for_what_it_waited_for(tmp_path: Path) -> None:
    call = planned(tmp_path, {}, {"grid": ["rows // 1000", 1, 1]}, {})
    assert [(launch.number, launch.after) for launch in call.launches] == [(0, ()), (2, (0,))]


def test_the_first_launch_of_a_call_overlaps_nothing(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="first launch would let it overlap the call before") as caught:
        planned(tmp_path / "first", {"attributes": {"pdl": True}})
    assert caught.value.verdict is Verdict.LAUNCH_ERROR
    second = planned(tmp_path / "second", {}, {"attributes": {"pdl": True}})
    assert [launch.pdl for launch in second.launches] == [False, True]
    left_out = planned(tmp_path / "left-out", {"grid": ["rows // 1000", 1, 1]}, {"attributes": {"pdl": True}})
    assert [launch.pdl for launch in left_out.launches] == [False]


def test_zeroed_scratch_is_part_of_the_call_and_poisoned_scratch_is_not(tmp_path: Path) -> None:
    scratch = {
        "sums": {"dtype": "float32", "shape": ["rows"], "fill": "zero"},
        "rest": {"dtype": "float32", "shape": ["rows"], "fill": "poison"},
    }
    call = planned(tmp_path, {"args": ["x", "y", "sums", "rest"]}, scratch=scratch)
    assert call.zeroed == ("sums",)
    assert {block.name: block.size for block in call.blocks}["sums"] == 4 * 256


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        ({"block": [2048, 1, 1]}, "block"),
        ({"grid": ["rows * 100000000", 1, 1]}, "grid"),
        ({"cluster": [32, 1, 1]}, "cluster"),
        ({"cluster": [3, 1, 1]}, "cluster"),
        ({"shared": "300 * 1024"}, "shared"),
        ({"grid": ["rows // 0", 1, 1]}, "divi|zero"),
        ({"grid": [-1, 1, 1]}, "grid"),
    ],
)
def test_impossible_extents_are_refused_before_any_gpu_is_asked(tmp_path: Path, launch: dict[str, Any], message: str) -> None:
    with pytest.raises(Rejected, match=message) as caught:
        planned(tmp_path, launch)
    assert caught.value.verdict is Verdict.LAUNCH_ERROR
    assert "launch.yaml" in caught.value.message


def test_scratch_has_a_bound(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="scratch huge would take"):
        planned(tmp_path, {}, scratch={"huge": {"dtype": "float32", "shape": ["rows", 1 << 30]}})
