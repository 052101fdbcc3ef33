"""What NVIDIA's tools print, read without a GPU: texts of the forms that their manuals show, and what of it counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

pytest.importorskip("cuda.bindings")

from runner import profile as profiles
from runner import sanitize as sanitizing
from runner.candidate import read_candidate
from runner.errors import FactoryError
from runner.inputs import draw_inputs
from runner.manifest import row_knobs
from runner.spec import workloads
from runner.spec.load import load_spec
from runner.targets.cuda import instruments, ncu, sanitizer, watching
from runner.targets.cuda.target import CudaTarget
from runner.targets.instruments import Finding, Launched
from runner.targets.protocol import Binary, Device
from runner.verdict import Verdict

SPECS = Path(__file__).parents[4] / "kernel-specs"

MEMCHECK = """\
========= COMPUTE-SANITIZER
kernel-runner: call one row
kernel-runner: call odd 7x13
========= Invalid __global__ read of size 4 bytes
=========     at void rmsnorm<float, float, (int)64>(const T1 *, float)+0x270
=========     by thread (13,0,0) in block (6,0,0)
=========     Access at 0x7f3a4ec0016c is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f3a4ec00000 of size 364 bytes
=========
========= Invalid __global__ read of size 4 bytes
=========     at void rmsnorm<float, float, (int)64>(const T1 *, float)+0x270
=========     by thread (14,0,0) in block (6,0,0)
=========     Access at 0x7f3a4ec00170 is out of bounds
=========
kernel-runner: failed CUDA_ERROR_LAUNCH_FAILED (cuCtxSynchronize)
========= ERROR SUMMARY: 2 errors
"""

RACECHECK = """\
========= COMPUTE-SANITIZER
kernel-runner: call fp32
========= Error: Race reported between Write access at sum(float *)+0x140
=========     and Read access at sum(float *)+0xe0 [4 hazards]
=========     and Write access at sum(float *)+0x140 [5 hazards]
=========
========= Warning: Race reported between Write access at sum(float *)+0x150
=========     and Read access at sum(float *)+0xf0 [4 hazards]
=========
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
"""

INITCHECK = """\
========= COMPUTE-SANITIZER
kernel-runner: call zeros
========= Uninitialized __global__ memory read of size 4 bytes
=========     at sum_partials(const float *, float *)+0x50
=========     by thread (1,0,0) in block (0,0,0)
=========     Access at 0x7f3a4ec00004
=========
========= ERROR SUMMARY: 1 error
"""


def test_what_memcheck_finds_is_told_once_for_each_place() -> None:
    found = sanitizer.parse("memcheck", MEMCHECK)
    assert [(one.tool, one.workload, one.certain) for one in found] == [("memcheck", "odd 7x13", True)] * 2
    assert found[0].message.startswith("Invalid __global__ read of size 4 bytes; at void rmsnorm<float, float, (int)64>")
    assert "1 bytes after the nearest allocation" in found[0].message
    assert found[1].message == "the call failed: CUDA_ERROR_LAUNCH_FAILED (cuCtxSynchronize)"


def test_a_race_is_a_note() -> None:
    found = sanitizer.parse("racecheck", RACECHECK)
    assert [(one.workload, one.certain) for one in found] == [("fp32", False), ("fp32", False)]
    assert [one.message.partition(":")[0] for one in found] == ["Error", "Warning"]
    assert "and Read access at sum(float *)+0xe0 [4 hazards]" in found[0].message


def test_a_read_of_what_nobody_wrote_is_a_note() -> None:
    (found,) = sanitizer.parse("initcheck", INITCHECK)
    assert (found.workload, found.certain) == ("zeros", False)


@pytest.mark.parametrize("summary", ["ERROR SUMMARY: 0 errors", "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"])
def test_a_clean_run_has_no_findings(summary: str) -> None:
    assert sanitizer.parse("memcheck", f"========= COMPUTE-SANITIZER\nkernel-runner: call fp32\n========= {summary}\n") == []


@pytest.mark.parametrize("text", ["", "========= COMPUTE-SANITIZER\n========= Error: Device not supported\n"])
def test_a_tool_that_did_not_come_to_its_end_found_nothing_out(text: str) -> None:
    with pytest.raises(FactoryError, match="did not work here"):
        sanitizer.parse("memcheck", text)


def test_what_is_certain_makes_a_kernel_incorrect() -> None:
    certain = [Finding("memcheck", "odd", f"Invalid read {number}") for number in range(5)]
    note = Finding("initcheck", "odd", "Uninitialized read", certain=False)
    assert sanitizing.Sanitized(("odd",), (note,)).wrong() is None
    wrong = sanitizing.Sanitized(("odd",), (note, *certain)).wrong()
    assert wrong is not None
    assert wrong.verdict is Verdict.INCORRECT
    assert wrong.message.splitlines() == [*(f"odd: memcheck: Invalid read {number}" for number in range(3)), "and 2 more"]


def test_small_workloads_of_every_kind_are_looked_at() -> None:
    loaded = load_spec(SPECS / "rmsnorm-bwd-h100")
    candidate = read_candidate(loaded.folder / "kernel", loaded.spec.policy)
    chosen = sanitizing.smallest(loaded, candidate, 1)
    assert 1 < len(chosen) <= sanitizing.MAX_CALLS
    assert all(layout.numel <= sanitizing.MAX_ELEMENTS for one in chosen for layout in one.inputs.values())
    assert any(one.inputs["x"].offset for one in chosen)
    assert len({one.inputs["x"].dtype for one in chosen}) > 1


HEADS = [
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device", "CC"),
    *("dram__bytes_read.sum", "dram__bytes_write.sum", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"),
    *("gpu__time_duration.sum", "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"),
    *("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"),
    *("launch__occupancy_limit_registers", "launch__occupancy_limit_warps", "launch__registers_per_thread"),
    *("launch__shared_mem_per_block", "launch__waves_per_multiprocessor", "lts__t_sector_hit_rate.pct"),
    *("sm__maximum_warps_per_active_cycle_pct", "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_long_scoreboard_not_issued_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio",
]
UNITS = [
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "byte",
    "byte",
    "%",
    "ns",
    "sector/request",
    "",
    "",
    "block",
    "warp",
    "register/thread",
]
UNITS += ["byte/block", "", "%", "%", "%", "%", "inst", "inst", "inst", "inst"]
FIRST = [
    "0",
    "42",
    "python3.12",
    "127.0.0.1",
    "void rmsnorm<float, 64>(const T1 *, float)",
    "1",
    "13",
    "(64, 1, 1)",
    "(512, 1, 1)",
    "0",
    "9.0",
]
FIRST += ["8,389,632", "8,388,608", "71.5", "5,120", "16", "0", "1,024", "12", "32", "40", "1,032", "0.48", "50.25", "75", "12.5", "66.6"]
FIRST += ["1.25", "9", "20.75", "1"]
SECOND = [*FIRST[:4], "sum(float *)", *FIRST[5:11], "n/a", "n/a", "nan", "2,560", *["n/a"] * 16]


def table(*rows: list[str]) -> str:
    lines = "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)
    return f'==PROF== Connected to process 42 (/usr/bin/python3.12)\n==PROF== Profiling "rmsnorm": 0%....100% - 12 passes\n{lines}'


def test_counters_of_each_launch_are_read() -> None:
    first, second = ncu.parse(table(HEADS, UNITS, FIRST, SECOND))
    assert (first.kernel, first.grid, first.block) == ("void rmsnorm<float, 64>(const T1 *, float)", "(512, 1, 1)", "(64, 1, 1)")
    assert first.seconds == pytest.approx(5.12e-6)
    assert first.bandwidth == pytest.approx((8389632 + 8388608) / 5.12e-6)
    assert (first.memory_share, first.compute_share, first.l2_hits) == pytest.approx((0.715, 0.125, 0.5025))
    assert (first.occupancy, first.occupancy_limit, first.registers, first.shared_bytes) == pytest.approx((0.666, 0.75, 40, 1032))
    assert first.limits == {"warps": 32, "registers": 12}
    assert first.stalls == {"long_scoreboard": 20.75, "barrier": 1.25}
    assert first.conflicts == {"loads": 0, "stores": 1024}
    assert first.sectors == {"loads": 16}
    assert second.seconds == pytest.approx(2.56e-6)
    assert second.bandwidth is None
    assert not second.stalls


def test_microseconds_and_seconds_are_told_apart() -> None:
    units = [*UNITS]
    units[HEADS.index("gpu__time_duration.sum")] = "us"
    (one,) = ncu.parse(table(HEADS, units, FIRST))
    assert one.seconds == pytest.approx(5.12e-3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters", "NVreg_Restrict"),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n==ERROR== An error occurred", "LibraryNotLoaded; An error"),
        ("==WARNING== No kernels were profiled.\n", "No kernels were profiled"),
        ("", "it printed nothing"),
        (table(HEADS, UNITS), "did not work here"),
    ],
)
def test_a_profiler_that_counted_nothing_says_why(text: str, message: str) -> None:
    with pytest.raises(FactoryError, match=message):
        ncu.parse(text)


def test_a_machine_without_the_tools_says_where_they_come_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "find", lambda name: None)
    one = planned("one row")
    with pytest.raises(FactoryError, match=r"ncu .*is not on this machine"):
        ncu.profile(one)
    with pytest.raises(FactoryError, match="compute-sanitizer is not on this machine"):
        sanitizer.sanitize([one])
    assert not sanitizer.available()


def planned(name: str) -> watching.Watched:
    """A call of the forward champion, as a tool would watch it."""
    loaded = load_spec(SPECS / "rmsnorm-h100")
    candidate = read_candidate(loaded.folder / "kernel", loaded.spec.policy)
    workload = next(one for one in workloads.edge(loaded.spec) if one.name == name)
    binary: Binary = CudaTarget("sm_90a").build(loaded, candidate, row_knobs(candidate.manifest, 2))
    return instruments.watched(binary, loaded.spec.policy, candidate, workload, draw_inputs(workload, 1), "sm_90a", 132)


def test_a_watched_process_is_given_exactly_its_call(tmp_path: Path) -> None:
    one = planned("fp32")
    request = watching._written(tmp_path, 0, one)
    assert [block[0] for block in request["blocks"]] == ["x", "weight", "y"]
    assert {name: size for name, size, _ in request["blocks"]} == {"x": 512 * 4096 * 4, "weight": 4096 * 4, "y": 512 * 4096 * 4}
    stored = torch.frombuffer(bytearray((tmp_path / "0-x").read_bytes()), dtype=torch.float32)
    assert torch.equal(stored.view(512, 4096), one.inputs["x"])
    assert request["call"]["launches"][0]["grid"] == (512, 1, 1)
    assert (tmp_path / "0.cubin").read_bytes() == one.binary.read_bytes()
    json.dumps(request)


def test_a_profile_says_what_holds_a_launch_back() -> None:
    loaded = load_spec(SPECS / "rmsnorm-h100")
    device = Device("gpu-0", "NVIDIA H200", 60 << 20, 4.8e12, 2e13, 1e15)
    launches = tuple(ncu.parse(table(HEADS, UNITS, FIRST, SECOND)))
    profile = profiles.Profile(loaded.spec.id, workloads.public(loaded.spec)[0], "tree", device, launches)
    shown = profiles.markdown(profile)
    assert (
        "| a warp waits for | global or local memory (long\\_scoreboard): 20.75 cycles an instruction; other warps, at a barrier" in shown
    )
    assert "| CTAs that an SM has room for | 12 by registers, 32 by warps |" in shown
    assert "| device memory | 3277 GB/s, 71.5 % of its peak |" in shown
    assert json.loads(json.dumps(profile.as_json()))["launches"][1]["bandwidth"] is None
    assert isinstance(launches[0], Launched)
