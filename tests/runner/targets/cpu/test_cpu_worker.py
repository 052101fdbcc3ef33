"""The worker with honest kernels: buffers, scratch, arguments, placements; and that nothing outlives the judge."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from scale_bench import FACTOR, HONEST, LAUNCH, Bench, values

from runner.targets.cpu import memory
from runner.targets.protocol import Placement
from runner.verdict import Rejected, Verdict


@pytest.mark.parametrize("placement", Placement)
@pytest.mark.parametrize("n", [0, 1, 7, 1024, 100_003])
@pytest.mark.parametrize("offset", [0, 3])
def test_an_honest_kernel_is_right_in_every_placement(bench: Bench, placement: Placement, n: int, offset: int) -> None:
    with bench.open(HONEST, n=n, slots=3, placement=placement, offset=offset) as worker:
        given = [values(n) for _ in range(3)]
        for slot, inputs in enumerate(given):
            worker.load(slot, inputs)
        worker.flush()
        assert worker.run([2, 0, 1, 0], 5) > 0
        for slot, inputs in enumerate(given):
            found = worker.inspect(slot)
            assert found.trespasses == ()
            assert torch.equal(found.outputs["y"], inputs["x"] * FACTOR)


def test_only_the_slots_of_the_order_are_called(bench: Bench) -> None:
    with bench.open(HONEST, slots=3) as worker:
        for slot in range(3):
            worker.load(slot, values())
        worker.run([1], 5)
        assert [bool(worker.inspect(slot).trespasses) for slot in range(3)] == [True, False, True]
        worker.run([], 5)
        assert [bool(worker.inspect(slot).trespasses) for slot in range(3)] == [True, False, True]


def test_outputs_are_poisoned_anew(bench: Bench) -> None:
    with bench.open("#include <cstdint>\n" + 'extern "C" void scale(const float*, float*, std::int64_t, float) {}') as worker:
        seen = set()
        for _ in range(8):
            worker.load(0, values())
            output = worker.inspect(0).outputs["y"]
            assert output.isnan().all()
            seen.add(int(output.view(torch.int32)[0]))
        assert len(seen) > 1


def test_nan_that_a_kernel_computes_is_not_taken_for_poison(bench: Bench) -> None:
    source = HONEST.replace("factor * x[i]", "(x[i] - x[i]) / (x[i] - x[i])")
    with bench.open(source) as worker:
        for _ in range(8):
            worker.load(0, values())
            worker.run([0], 5)
            assert worker.inspect(0).trespasses == ()


def test_scratch_is_poisoned_or_zeroed_in_every_call(bench: Bench) -> None:
    source = """
#include <cstdint>
extern "C" void scale(const float* x, float* y, std::int64_t n, float factor, float* zeroed, const float* poisoned) {
    const bool clean = zeroed[0] == 0 && zeroed[n - 1] == 0, dirty = poisoned[0] != poisoned[0] && poisoned[n - 1] != poisoned[n - 1];
    for (std::int64_t i = 0; i < n; ++i) y[i] = clean && dirty ? factor * x[i] : 0;
    for (std::int64_t i = 0; i < n; ++i) zeroed[i] = 1;
}
"""
    arguments = [*LAUNCH["launches"][0]["args"], "zeroed", "poisoned"]
    source = source.replace("const float* poisoned", "float* poisoned")
    scratch = {"zeroed": {"dtype": "float32", "shape": ["n"], "fill": "zero"}, "poisoned": {"dtype": "float32", "shape": ["n"]}}
    with bench.open(source, launches=[{"function": "scale", "args": arguments}], scratch=scratch) as worker:
        inputs = values()
        worker.load(0, inputs)
        worker.run([0, 0], 5)
        found = worker.inspect(0)
        assert found.trespasses == ()
        assert torch.equal(found.outputs["y"], inputs["x"] * FACTOR)


def test_scratch_has_guard_bands_too(bench: Bench) -> None:
    source = HONEST.replace("float factor) {", "float factor, float* room) { room[n] = 1;")
    launches = [{"function": "scale", "args": [*LAUNCH["launches"][0]["args"], "room"]}]
    with bench.open(source, launches=launches, scratch={"room": {"dtype": "float32", "shape": ["n"]}}) as worker:
        worker.load(0, values())
        worker.run([0], 5)
        assert worker.inspect(0).trespasses == ("wrote 4 bytes past the end of room (from 0 bytes past it)",)


def test_launches_run_in_order(bench: Bench) -> None:
    source = (
        HONEST + 'extern "C" void add(float* y, std::int64_t n, std::int32_t by) { for (std::int64_t i = 0; i < n; ++i) y[i] += by; }\n'
    )
    launches = [*LAUNCH["launches"], {"function": "add", "args": ["y", {"i64": "n"}, {"i32": "2 + 3"}]}]
    with bench.open(source, launches=launches) as worker:
        inputs = values()
        worker.load(0, inputs)
        worker.run([0], 5)
        assert torch.equal(worker.inspect(0).outputs["y"], inputs["x"] * FACTOR + 5)


def test_special_values_arrive_as_they_are(bench: Bench) -> None:
    special = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-45, 3.4e38])
    with bench.open(HONEST.replace("factor * x[i]", "x[i]"), n=7) as worker:
        worker.load(0, {"x": special})
        worker.run([0], 5)
        found = worker.inspect(0)
        assert found.trespasses == ()
        assert torch.equal(found.outputs["y"].view(torch.int32), special.view(torch.int32))


def test_many_slots_can_be_opened_and_closed(bench: Bench) -> None:
    with bench.open(HONEST, n=64, slots=256) as worker:
        for slot in range(256):
            worker.load(slot, values(64))
        worker.run(list(range(256)), 5)
        assert all(worker.inspect(slot).trespasses == () for slot in range(256))
    worker.close()


def test_memory_is_used_again_and_shows_nothing_of_the_last_worker(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that looks for another's values behind its own tensor, in the page where the other's lay."""
    monkeypatch.setattr(memory, "_kept", [])
    with bench.open(HONEST, n=50_000, slots=4) as worker:
        for slot in range(4):
            worker.load(slot, {"x": torch.full((50_000,), 77.0)})
        worker.run([0, 1, 2, 3], 5)
        address = worker._arena.address
    peek = """
#include <cstdint>
extern "C" void scale(const float* x, float* y, std::int64_t n, float) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = 0;
    for (std::int64_t i = -64; i < 800; ++i) {
        if (x[n + i] == 77.0f || x[n + i] == 231.0f) y[0] += 1;
    }
}
"""
    with bench.open(peek, n=1, slots=4) as worker:
        assert worker._arena.address == address, "the memory is the same"
        worker.load(0, values(1))
        worker.run([0], 5)
        assert worker.inspect(0).outputs["y"].eq(0).all()


def test_twins_change_a_slots_addresses_where_many_calls_are_timed(bench: Bench) -> None:
    tells = HONEST.replace("for (", "y[n - 1] = float(reinterpret_cast<std::uintptr_t>(x) >> 12 & 0xffffff); for (", 1).replace(
        "i < n", "i < n - 1"
    )
    with bench.open(tells, slots=40) as worker:
        seen = set()
        for _ in range(12):
            worker.load(0, values())
            worker.run([0], 5)
            found = worker.inspect(0)
            assert found.trespasses == ()
            seen.add(float(found.outputs["y"][-1]))
        assert 2 <= len(seen) <= 5


def test_a_worker_that_was_killed_says_so(bench: Bench) -> None:
    with bench.open(HONEST) as worker:
        worker.load(0, values())
        os.kill(worker._process.pid, signal.SIGKILL)
        with pytest.raises(Rejected) as refused:
            worker.run([0], 5)
    assert refused.value.verdict is Verdict.LAUNCH_ERROR
    assert "SIGKILL" in refused.value.message


def test_nothing_outlives_a_judge_that_is_killed(bench: Bench, state: Path) -> None:
    script = """
import sys, time
sys.path.insert(0, sys.argv[1])
from scale_bench import HONEST, LAUNCH, Bench, values
from runner.spec.load import LoadedSpec
from runner.spec.models import Spec
from runner.targets.cpu.target import CpuTarget
from pathlib import Path
bench = Bench(CpuTarget(), LoadedSpec(Spec.model_validate_json(sys.argv[2]), Path(sys.argv[3]), ""))
stopped = bench.open(HONEST)
stopped.load(0, values())
stopped.run([0], 5)
baseline = bench.target.open_baseline(bench.spec.spec.baselines[0], bench.spec, bench.workload(), 1)
print(stopped._process.pid, stopped._process._running._bubblewrap.pid, baseline._process.pid, flush=True)
time.sleep(600)
"""
    arguments = [str(Path(__file__).parent), bench.spec.spec.model_dump_json(by_alias=True), str(bench.spec.folder)]
    environment = {**os.environ, "KERNEL_FACTORY_STATE": str(state)}
    with subprocess.Popen([sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, text=True, env=environment) as judge:
        assert judge.stdout is not None
        pids = [int(word) for word in judge.stdout.readline().split()]
        assert len(pids) == 3
        assert all(_lives(pid) for pid in pids)
        judge.kill()
        judge.wait()
    deadline = time.monotonic() + 10
    while any(_lives(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(_lives(pid) for pid in pids)


def _lives(pid: int) -> bool:
    """Whether a process exists and is no zombie (whoever inherits it may take its time to reap it)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False
