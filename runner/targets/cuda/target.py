"""Targets with an NVIDIA GPU (`sm_90a`, `sm_100a`), as the judge sees them: see `runner.targets.protocol.Target`."""

from __future__ import annotations

import atexit
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from runner import sandbox
from runner.candidate import Candidate
from runner.errors import FactoryError
from runner.inputs import draw_inputs
from runner.lock import device_lock, precedence
from runner.manifest import KnobValue, choose_row, row_knobs, scope
from runner.spec import workloads
from runner.spec.load import LoadedSpec
from runner.spec.models import Baseline, Spec
from runner.spec.workload import Workload
from runner.targets.cuda import baselines, build, device, instruments, launchers, ncu, policy, sanitizer, trusted
from runner.targets.cuda.arena import Arena
from runner.targets.cuda.launching import Call, Launch, Nominal, kernel_names, plan_call, workload_blocks
from runner.targets.cuda.process import GpuProcess
from runner.targets.cuda.watching import Watched
from runner.targets.cuda.worker import GpuWorker, call_fields
from runner.targets.instruments import Finding, Launched
from runner.targets.protocol import Binary, Configs, Device, Placement

PROGRAM = ("-m", "runner.targets.cuda.serve")


class CudaTarget:
    """Judges on this machine's first GPU, which must be of the architecture `name`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._launchers = launchers.Pool(lambda: GpuProcess(PROGRAM), name, ahead=2)
        self._baselines: dict[Path, launchers.Pool] = {}
        self._said: dict[tuple[str, str], str] = {}
        atexit.register(self._close)

    def device(self) -> Device:
        """See the Protocol."""
        found = device.this_device()
        if device.architecture(found) != self.name:
            raise FactoryError(f"this machine's GPU is {found.name} ({device.architecture(found)}); the spec is for {self.name}")
        return found

    @contextmanager
    def lock(self) -> Iterator[None]:
        """See the Protocol."""
        with device_lock(self.device().id), precedence():
            yield

    @contextmanager
    def computing(self) -> Iterator[None]:
        """See the Protocol: on the GPU, in this process's own address space there."""
        with torch.device("cuda"):
            yield

    def condition(self) -> Mapping[str, str]:
        """See the Protocol."""
        return device.condition(self.device())

    def check(self, spec: LoadedSpec, candidate: Candidate) -> tuple[str, ...]:
        """See the Protocol."""
        return policy.check_sources(candidate.files, spec.spec)

    def build(self, spec: LoadedSpec, candidate: Candidate, knobs: Mapping[str, KnobValue]) -> Binary:
        """See the Protocol. All instances that written workloads, and some drawn ones, reach on the table's row are built together."""
        sandbox.probe()
        names: dict[str, None] = {}
        for workload in _reached(spec.spec, candidate, knobs):
            names |= dict.fromkeys(kernel_names(candidate.manifest, knobs, workload))
        binary = build.build(spec.spec.policy, candidate, knobs, tuple(names), self.name)
        for workload in _reached(spec.spec, candidate, knobs):
            for launch in plan_call(candidate.manifest, knobs, workload, Nominal()).launches:
                _check_arguments(binary, launch)
        return binary

    def open_candidate(
        self,
        binary: Binary,
        spec: LoadedSpec,
        candidate: Candidate,
        workload: Workload,
        slots: int,
        placement: Placement,
        *,
        fresh: bool = True,
    ) -> GpuWorker:
        """See the Protocol. A process serves one candidate only; each worker has memory of its own, and the binary loaded anew."""
        sandbox.probe()
        names = kernel_names(candidate.manifest, binary.knobs, workload)
        if not set(names) <= set(build.symbols(binary)):
            every = tuple(dict.fromkeys((*build.symbols(binary), *names)))
            binary = build.build(spec.spec.policy, candidate, binary.knobs, every, self.name)
        symbols = build.symbols(binary)
        process = self._launchers.take(candidate.tree)
        module = launchers.load(process, binary, "the kernel")
        sms = int(self.device().facts["sms"])
        try:
            call = plan_call(candidate.manifest, binary.knobs, workload, launchers.Occupancy(process, module, symbols, sms))
            for launch in call.launches:
                _check_arguments(binary, launch)
        except BaseException:
            self._release(process, module, candidate.tree)
            raise
        fields = call_fields(call, module, symbols, build.variables(binary))
        return self._worker(process, call, workload, slots, placement, fields, lambda one: self._release(one, module, candidate.tree))

    def _release(self, process: GpuProcess, module: int, owner: str) -> None:
        launchers.unload(process, module)
        self._launchers.give(process, owner)

    def _worker(
        self,
        process: GpuProcess,
        call: Call,
        workload: Workload,
        slots: int,
        placement: Placement,
        fields: Mapping[str, Any],
        release: Callable[[GpuProcess], None],
        kind: type[GpuWorker] = GpuWorker,
        **options: Any,
    ) -> GpuWorker:
        try:
            arena = Arena(call.blocks, slots, placement)
        except BaseException:
            release(process)
            raise
        return kind(process, call, workload.inputs, workload.outputs, arena, slots, fields=fields, release=release, **options)

    def open_baseline(self, baseline: Baseline, spec: LoadedSpec, workload: Workload, slots: int, config: str = "") -> GpuWorker:
        """See the Protocol. One process serves all of a spec's baselines, since PyTorch starts and compiles slowly; memory is fresh."""
        sandbox.probe()
        baselines.require(baseline)
        folder = spec.folder.resolve()
        pool = self._baselines.setdefault(folder, launchers.Pool(lambda: baselines.start(folder), self.name))
        process = pool.take("")
        fields = baselines.fields(baseline, spec, workload, config)

        def release(one: GpuProcess) -> None:
            pool.give(one, "")

        def described(one: str) -> None:
            self._said[baseline.name, workload.name] = one

        return self._worker(
            process,
            Call(workload_blocks(workload)),
            workload,
            slots,
            Placement.SPACED,
            fields,
            release,
            lost=f"the baseline {baseline.name} on {workload.name}",
            first_seconds=baselines.PREPARE_SECONDS,
            described=described,
        )

    def baseline_configs(self, baseline: Baseline, spec: LoadedSpec, workload: Workload, *, again: bool) -> Configs:
        """See the Protocol. Kept for a device, the versions of what is installed, the function's file and the workload."""
        if baseline.configs is None:
            return Configs()
        place = baselines.kept_configs(baseline, spec, workload, self.device())
        kept = None if again else baselines.read_configs(place)
        if kept is not None:
            return kept
        # Between them the sets are more than the cache holds.
        slots = max(2, min(16, 3 * self.device().cache_bytes // max(1, int(workload.bytes)) + 1))
        with self.open_baseline(baseline, spec, workload, slots) as worker:
            inputs = draw_inputs(workload, secrets.randbits(62))
            for slot in range(slots):
                worker.load(slot, inputs)
            try:
                texts, note = worker.configs(baseline.configs, baseline.config_seconds)
            except FactoryError as error:
                return Configs(note=f"its configurations could not be searched: {error}"[:400])
        found = Configs(tuple(texts) or ("",), note)
        baselines.write_configs(place, found)
        return found

    def baseline_config(self, baseline: Baseline, spec: LoadedSpec, workload: Workload) -> str:
        """See the Protocol."""
        said = self._said.get((baseline.name, workload.name))
        return f"{baselines.config(baseline)}; {said}" if said else baselines.config(baseline)

    def open_copy(self, name: str, workload: Workload, slots: int) -> GpuWorker:
        """See the Protocol."""
        sandbox.probe()
        copy = trusted.copy_workload(name, workload.bytes)
        binary, call = trusted.binary(self.name), trusted.copy_call(copy)
        process = self._launchers.take("the copies")
        module = launchers.load(process, binary, "the copies")
        fields = call_fields(call, module, build.symbols(binary), {})

        def release(one: GpuProcess) -> None:
            self._release(one, module, "the copies")

        lost = f"the copy {name}"
        return self._worker(process, call, copy, slots, Placement.SPACED, fields, release, kind=trusted.CopyWorker, lost=lost)

    def copies(self) -> Sequence[str]:
        """See the Protocol."""
        return trusted.COPIES

    def sanitizers(self) -> Sequence[str]:
        """See `runner.targets.instruments.Instrumented`."""
        return sanitizer.TOOLS if sanitizer.available() else ()

    def sanitize(
        self, spec: LoadedSpec, candidate: Candidate, runs: Sequence[tuple[Binary, Workload, Mapping[str, torch.Tensor]]]
    ) -> Sequence[Finding]:
        """See `runner.targets.instruments.Instrumented`."""
        return sanitizer.sanitize([self._watched(spec, candidate, *run) for run in runs])

    def profile(
        self, spec: LoadedSpec, candidate: Candidate, binary: Binary, workload: Workload, inputs: Mapping[str, torch.Tensor]
    ) -> Sequence[Launched]:
        """See `runner.targets.instruments.Instrumented`."""
        return ncu.profile(self._watched(spec, candidate, binary, workload, inputs))

    def _watched(
        self, spec: LoadedSpec, candidate: Candidate, binary: Binary, workload: Workload, inputs: Mapping[str, torch.Tensor]
    ) -> Watched:
        sms = int(self.device().facts["sms"])
        return instruments.watched(binary, spec.spec.policy, candidate, workload, inputs, self.name, sms)

    def _close(self) -> None:
        for pool in (self._launchers, *self._baselines.values()):
            pool.close()


def _check_arguments(binary: Binary, launch: Launch) -> None:
    build.check_arguments(binary, launch.kernel, [argument.size for argument in launch.args], launch.number)


def _reached(spec: Spec, candidate: Candidate, knobs: Mapping[str, KnobValue]) -> Iterator[Workload]:
    """The workloads that select a table row with these knobs: those that are written, and one draw of each hidden one."""
    for workload in (*workloads.public(spec), *workloads.edge(spec), *workloads.hidden(spec, 0)):
        try:
            row = choose_row(candidate.manifest, workload.axes, *scope(workload))
        except FactoryError:
            continue  # it is refused where a row is needed
        if row_knobs(candidate.manifest, row) == dict(knobs):
            yield workload
