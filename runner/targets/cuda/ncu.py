"""NVIDIA's Nsight Compute over a candidate's calls: which counters are asked for, and how its CSV is read. The parser needs no GPU."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from runner.errors import FactoryError
from runner.targets.cuda import watching
from runner.targets.cuda.watching import Watched
from runner.targets.instruments import Launched

PROGRAM = "ncu"
SECONDS = 240.0
WARM_CALLS = 3
"""Calls before the one that is looked at: an idle GPU's clocks are low."""
_SECTIONS = ("SpeedOfLight", "MemoryWorkloadAnalysis", "MemoryWorkloadAnalysis_Tables", "Occupancy", "LaunchStats", "WarpStateStats")
_METRICS = (
    "gpu__time_duration.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio",
)
# The clocks are left alone: on a shared machine they are others' too.
_OPTIONS = ("--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none", "--target-processes", "all")

_STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+?)_per_issue_active\.ratio")
_LIMIT = re.compile(r"launch__occupancy_limit_(\w+)")
_SECONDS = {"s": 1.0, "second": 1.0, "ms": 1e-3, "msecond": 1e-3, "us": 1e-6, "usecond": 1e-6, "ns": 1e-9, "nsecond": 1e-9}
_COUNTERS = re.compile(r"ERR_NVGPUCTRPERM")
_FAILURE = re.compile(r"^==ERROR== (.*)$", re.M)
_Value = Callable[..., "float | None"]


def profile(one: Watched) -> list[Launched]:
    """The counters of each launch of one call. Raises `FactoryError` where the program is not here, or may not read them."""
    program = watching.find(PROGRAM)
    if program is None:
        raise FactoryError(
            f"{PROGRAM} (Nsight Compute) is not on this machine: it comes with the CUDA toolkit (NVIDIA: cuda-nsight-compute)"
        )
    launches = len(one.call.launches)
    if not launches:
        raise FactoryError(f"{one.name}: the call launches nothing, so there is nothing to profile")
    tool = [program, *_OPTIONS, "--launch-skip", str(WARM_CALLS * launches), "--launch-count", str(launches)]
    tool += [word for section in _SECTIONS for word in ("--section", section)]
    tool += ["--metrics", ",".join(_METRICS)]
    seen = watching.watch(tool, [replace(one, repeats=WARM_CALLS + 1)], SECONDS)
    if seen.status is None:
        raise FactoryError(f"{PROGRAM} did not finish within {SECONDS:g} s on {one.name}: name a smaller workload")
    return parse(seen.text)


def parse(text: str) -> list[Launched]:
    """The launches in the program's output of the raw page. Raises `FactoryError` with what it says where it has none."""
    lines = text.splitlines()
    first = next((index for index, line in enumerate(lines) if line.startswith('"ID",')), None)
    if first is None:
        raise FactoryError(_reason(text))
    rows = list(csv.DictReader(line for line in lines[first:] if line.startswith('"')))
    # The row under the heads has no launch's number, but the units.
    units = rows[0] if rows and not rows[0]["ID"] else {}
    launches = [_launched(row, units) for row in rows if row["ID"]]
    if not launches:
        raise FactoryError(_reason(text))
    return launches


def _reason(text: str) -> str:
    if _COUNTERS.search(text):
        return (
            f"{PROGRAM} may not read this GPU's counters (ERR_NVGPUCTRPERM): the driver keeps them for administrators, and no kernel is "
            "run with such rights. Load the driver's module with NVreg_RestrictProfilingToAdminUsers=0"
        )
    said = _FAILURE.findall(text) or [" ".join(text.split())[-300:] or "it printed nothing"]
    return f"{PROGRAM} did not work here: {'; '.join(dict.fromkeys(said))}"


def _launched(row: Mapping[str, str], units: Mapping[str, str]) -> Launched:
    def value(*names: str) -> float | None:
        """The first of these metrics that was counted."""
        return next((number for name in names if (number := _number(row.get(name))) is not None), None)

    def share(*names: str) -> float | None:
        number = value(*names)
        return None if number is None else number / 100

    duration, unit = value("gpu__time_duration.sum"), units.get("gpu__time_duration.sum", "ns")
    return Launched(
        kernel=row.get("Kernel Name", ""),
        grid=row.get("Grid Size", ""),
        block=row.get("Block Size", ""),
        seconds=None if duration is None else duration * _SECONDS.get(unit, 1e-9),
        bytes_read=value("dram__bytes_read.sum"),
        bytes_written=value("dram__bytes_write.sum"),
        memory_share=share("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "dram__throughput.avg.pct_of_peak_sustained_elapsed"),
        compute_share=share("sm__throughput.avg.pct_of_peak_sustained_elapsed"),
        occupancy=share("sm__warps_active.avg.pct_of_peak_sustained_active"),
        occupancy_limit=share("sm__maximum_warps_per_active_cycle_pct"),
        l2_hits=share("lts__t_sector_hit_rate.pct"),
        registers=value("launch__registers_per_thread"),
        shared_bytes=value("launch__shared_mem_per_block", "launch__shared_mem_per_block_allocated"),
        waves=value("launch__waves_per_multiprocessor"),
        limits=_matching(row, _LIMIT),
        stalls={name: cycles for name, cycles in _matching(row, _STALL).items() if name != "selected" and "not_issued" not in name},
        conflicts=_by_access(value, "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"),
        sectors=_by_access(value, "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{}.ratio"),
    )


def _by_access(value: _Value, pattern: str) -> dict[str, float]:
    found = {name: value(pattern.format(word)) for name, word in (("loads", "ld"), ("stores", "st"))}
    return {name: number for name, number in found.items() if number is not None}


def _matching(row: Mapping[str, str], pattern: re.Pattern[str]) -> dict[str, float]:
    """The metrics whose names match, by what the pattern calls them, the largest first."""
    found: Iterable[tuple[str, float]] = (
        (match[1], number)
        for name, text in row.items()
        if name and (match := pattern.fullmatch(name)) and (number := _number(text)) is not None
    )
    return dict(sorted(found, key=lambda item: -item[1]))


def _number(text: str | None) -> float | None:
    """A metric's value: digits may be grouped by commas, and one that could not be counted is `n/a` or `nan`."""
    try:
        number = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return number if number == number else None
