"""Target `cpu`, as the judge sees it: see `runner.targets.protocol.Target`.

What a worker needs is imported when one is opened: it takes PyTorch, whose import takes longer than policy and build, which do without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from runner import sandbox
from runner.candidate import Candidate
from runner.lock import device_lock, precedence
from runner.manifest import KnobValue
from runner.spec.load import LoadedSpec
from runner.spec.models import Baseline
from runner.spec.workload import Workload
from runner.targets.cpu import build, device, policy, shim
from runner.targets.protocol import Binary, Configs, Device, Placement

if TYPE_CHECKING:
    from runner.targets.cpu.worker import NativeWorker


class CpuTarget:
    """Judges on this machine's processors."""

    name = "cpu"

    def device(self) -> Device:
        """See the Protocol."""
        return device.this_device()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """See the Protocol. Both sides and the judge take precedence over other programs meanwhile, where the system lets them."""
        with device_lock(self.device().id), precedence():
            yield

    def computing(self) -> AbstractContextManager[None]:
        """See the Protocol."""
        return nullcontext()

    def condition(self) -> Mapping[str, str]:
        """See the Protocol."""
        return {}

    def check(self, spec: LoadedSpec, candidate: Candidate) -> tuple[str, ...]:
        """See the Protocol."""
        return policy.check_sources(candidate.files, spec.spec)

    def build(self, spec: LoadedSpec, candidate: Candidate, knobs: Mapping[str, KnobValue]) -> Binary:
        """See the Protocol. A CPU feature that this machine lacks is `Rejected` with `launch_error`, before anything is compiled."""
        sandbox.probe()
        return build.build(spec.spec, candidate, knobs)

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
    ) -> NativeWorker:
        """See the Protocol. Every process is fresh."""
        from runner.targets.cpu.launching import Program, open_worker
        from runner.targets.cpu.worker import NativeWorker

        sandbox.probe()
        build.require_runnable(build.architecture(candidate.manifest.build, binary.knobs))
        program = Program(binary.path, shim.ENTRY, shim.call_of(candidate.manifest, binary.knobs, workload))
        seconds = spec.spec.policy.run_seconds
        return open_worker(NativeWorker, program, workload.inputs, workload.outputs, slots, placement, start_seconds=seconds)

    def open_baseline(self, baseline: Baseline, spec: LoadedSpec, workload: Workload, slots: int, config: str = "") -> NativeWorker:
        """See the Protocol. There is no `config` but the baseline's own choice."""
        from runner.targets.cpu.baselines import prepare

        sandbox.probe()
        return prepare.open_baseline(baseline, spec, workload, slots)

    def baseline_configs(self, baseline: Baseline, spec: LoadedSpec, workload: Workload, *, again: bool) -> Configs:
        """See the Protocol."""
        return Configs()

    def baseline_config(self, baseline: Baseline, spec: LoadedSpec, workload: Workload) -> str:
        """See the Protocol."""
        from runner.targets.cpu.baselines import prepare

        return prepare.plan_for(baseline, spec, workload).config

    def open_copy(self, name: str, workload: Workload, slots: int) -> NativeWorker:
        """See the Protocol."""
        from runner.targets.cpu import copies

        sandbox.probe()
        return copies.open_copy(name, workload, slots)

    def copies(self) -> Sequence[str]:
        """See the Protocol."""
        from runner.targets.cpu import copies

        return copies.names()
