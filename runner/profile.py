"""Profiles a kernel's launches on one workload, and says in words and figures what holds each of them back."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from runner.candidate import Candidate
from runner.contestant import check_policy, row_for
from runner.errors import FactoryError
from runner.inputs import DTYPES, derive, draw_inputs
from runner.manifest import row_knobs
from runner.report import text
from runner.spec import workloads
from runner.spec.load import LoadedSpec
from runner.spec.workload import Workload
from runner.targets.instruments import Instrumented, Launched
from runner.targets.protocol import Device, Target

MAX_INPUT_BYTES = 1 << 30
STALLS = 4
_STALL_WORDS = {
    "long_scoreboard": "global or local memory",
    "short_scoreboard": "shared memory, or special functions",
    "lg_throttle": "too many global accesses queued",
    "mio_throttle": "too many shared-memory or special instructions queued",
    "barrier": "other warps, at a barrier",
    "membar": "a memory fence",
    "wait": "a fixed latency of the instruction before",
    "math_pipe_throttle": "the arithmetic pipe",
    "not_selected": "other warps that were ready too",
    "no_instruction": "instructions to be fetched",
    "drain": "stores to leave before the warp ends",
    "gmma": "the tensor cores",
    "sleeping": "its own sleep",
    "branch_resolving": "a branch",
    "tex_throttle": "the texture pipe",
    "dispatch_stall": "the dispatcher",
    "imc_miss": "constant memory",
}


@dataclass(frozen=True)
class Profile:
    """The counters of every launch of one call, with what the call has to move and the device's peak for it."""

    spec: str
    workload: Workload
    kernel_tree: str
    device: Device
    launches: tuple[Launched, ...]

    def as_json(self) -> dict[str, Any]:
        """What programs read. Shares lie between 0 and 1, times are in seconds, and a counter that could not be had is null."""
        return {
            "spec": self.spec,
            "workload": self.workload.name,
            "axes": dict(self.workload.axes),
            "kernel_tree": self.kernel_tree,
            "device": self.device.name,
            "bytes": self.workload.bytes,
            "peak_bytes_per_s": self.device.peak_bytes_per_s,
            "launches": [{**asdict(one), "bandwidth": one.bandwidth} for one in self.launches],
        }


def profile(target: Target, loaded: LoadedSpec, candidate: Candidate, name: str | None) -> Profile:
    """Build and profile a candidate on a public or edge workload; the largest public one that a profiler can be given where none is named.

    Raises `FactoryError` for a workload that there is not, or is too large, and what the target raises; `Rejected` for policy and build.
    """
    if not isinstance(target, Instrumented):
        raise FactoryError(f"{loaded.spec.id}: there is no profiler for the target {target.name}; `profile` is for GPUs")
    with target.lock(), target.computing():
        device = target.device()
        workload = _chosen(loaded, name)
        check_policy(target, loaded, candidate)
        binary = target.build(loaded, candidate, row_knobs(candidate.manifest, row_for(candidate, workload)))
        launches = target.profile(loaded, candidate, binary, workload, draw_inputs(workload, derive(0, "profile")))
    return Profile(loaded.spec.id, workload, candidate.tree, device, tuple(launches))


def _chosen(loaded: LoadedSpec, name: str | None) -> Workload:
    every = {one.name: one for one in (*workloads.public(loaded.spec), *workloads.edge(loaded.spec))}
    if name is None:
        few = [one for one in workloads.public(loaded.spec) if _input_bytes(one) <= MAX_INPUT_BYTES]
        if not few:
            raise FactoryError(
                f"{loaded.spec.id}: every public workload has more than {MAX_INPUT_BYTES >> 20} MiB of inputs: name an edge one"
            )
        return max(few, key=lambda one: one.bytes)
    if name not in every:
        raise FactoryError(f"no workload is called {name!r}; there are {', '.join(every)}")
    if _input_bytes(every[name]) > MAX_INPUT_BYTES:
        raise FactoryError(
            f"{name} has {_input_bytes(every[name]) >> 20} MiB of inputs; a profiler is given at most {MAX_INPUT_BYTES >> 20} MiB"
        )
    return every[name]


def _input_bytes(workload: Workload) -> int:
    return sum(layout.numel * DTYPES[layout.dtype].itemsize for layout in workload.inputs.values())


def markdown(profile: Profile) -> str:
    """The profile for people: a table a launch, and what its warps wait for."""
    least = profile.workload.bytes / profile.device.peak_bytes_per_s
    total = sum(one.seconds or 0.0 for one in profile.launches)
    parts = [
        f"## {text(profile.spec)}: {text(profile.workload.name)}",
        f"On {text(profile.device.name)}, cold caches, one call. It has to move {profile.workload.bytes / 1e6:.3f} MB, which takes "
        f"{least * 1e6:.1f} µs at the vendor's peak; its launches took {total * 1e6:.1f} µs together.",
        *(_launch(number, one) for number, one in enumerate(profile.launches)),
    ]
    return "\n\n".join(parts) + "\n"


def _launch(number: int, one: Launched) -> str:
    rows = [
        ("time", _shown(one.seconds, "µs", 1e6)),
        ("device memory", _joined(_shown(one.bandwidth, "GB/s", 1e-9), _percent(one.memory_share, "of its peak"))),
        ("read, written", _joined(_shown(one.bytes_read, "MB", 1e-6), _shown(one.bytes_written, "MB", 1e-6))),
        ("found in the L2 cache", _percent(one.l2_hits, "of sectors")),
        ("arithmetic", _percent(one.compute_share, "of its peak")),
        ("occupancy", _joined(_percent(one.occupancy, "achieved"), _percent(one.occupancy_limit, "possible"))),
        (
            "CTAs that an SM has room for",
            ", ".join(f"{count:g} by {name.replace('_', ' ')}" for name, count in sorted(one.limits.items(), key=lambda item: item[1])),
        ),
        ("waves", _shown(one.waves, "", 1)),
        ("registers, shared memory", _joined(_shown(one.registers, "a thread", 1), _shown(one.shared_bytes, "bytes a CTA", 1))),
        ("bank conflicts", ", ".join(f"{count:g} in {name}" for name, count in one.conflicts.items())),
        ("sectors a request of global memory", ", ".join(f"{count:.1f} in {name}" for name, count in one.sectors.items())),
        ("a warp waits for", _stalls(one)),
    ]
    body = "\n".join(f"| {name} | {shown} |" for name, shown in rows if shown)
    return f"### Launch {number}: {text(one.kernel)}, grid {text(one.grid)}, block {text(one.block)}\n\n| | |\n|---|---|\n{body}"


def _stalls(one: Launched) -> str:
    """The reasons that count, in cycles an instruction, the largest first."""
    first = list(one.stalls.items())[:STALLS]
    return "; ".join(f"{text(_STALL_WORDS.get(name, name))} ({text(name)}): {cycles:.2f} cycles an instruction" for name, cycles in first)


def _shown(value: float | None, unit: str, factor: float) -> str:
    return "" if value is None else f"{value * factor:.4g} {unit}".rstrip()


def _percent(value: float | None, what: str) -> str:
    return "" if value is None else f"{100 * value:.1f} % {what}"


def _joined(*shown: str) -> str:
    return ", ".join(one for one in shown if one)
