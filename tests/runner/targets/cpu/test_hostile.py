"""Host code that attacks the process, the memory and the clock: what each attempt comes to."""

from __future__ import annotations

import gc
import os
import platform
import random
import re
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from scale_bench import FACTOR, Bench, values

from runner.targets.cpu.worker import NativeWorker
from runner.targets.protocol import Placement
from runner.verdict import Rejected, Verdict

TEXT = (Path(__file__).parent / "hostile.cpp").read_text()
ATTACKS = re.findall(r"^ATTACK\((\w+)\)", TEXT, re.MULTILINE)
SOURCE = TEXT + "\n".join(
    [
        'extern "C" void scale(const float* x, float* y, std::int64_t n, float factor, std::int32_t mode) {',
        f"    static void (*const attacks[])(const Call&) = {{{', '.join(ATTACKS)}}};",
        "    attacks[mode]({x, y, n, factor});",
        "}",
        "",
    ]
)
SECONDS = 1.0
DONE = 64  # where the word lies in the arena, see `native/serve.hpp`


ARGUMENTS = ["x", "y", {"i64": "n"}, {"f32": "factor"}, {"i32": "mode"}]


def attack(bench: Bench, name: str, *, n: int = 1000, slots: int = 2, placement: Placement = Placement.SPACED) -> NativeWorker:
    launches = [{"function": "scale", "args": ARGUMENTS}]
    return bench.seconds(2).open(SOURCE, n=n, slots=slots, placement=placement, mode=ATTACKS.index(name), launches=launches)


def answered(worker: NativeWorker, slot: int = 0, x: torch.Tensor | None = None) -> tuple[bool, tuple[str, ...]]:
    """Load, run and inspect a slot once: whether the answer is right, and the trespasses."""
    inputs = values() if x is None else {"x": x}
    worker.load(slot, inputs)
    worker.run([slot], SECONDS)
    found = worker.inspect(slot)
    return torch.equal(found.outputs["y"], inputs["x"] * FACTOR), found.trespasses


@pytest.mark.parametrize("name", ATTACKS[: ATTACKS.index("fork_")])
def test_what_must_be_allowed_or_does_no_harm(bench: Bench, name: str) -> None:
    with attack(bench, name) as worker:
        assert answered(worker) == (True, ())
        assert answered(worker, 1) == (True, ())


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("fork_", "fork"),
        ("vfork_", "vfork"),
        ("clone3_", "fork"),
        ("execute", "execve"),
        ("open_a_socket", "socket"),
        ("write_a_file", "openat"),
        ("trace_itself", "ptrace"),
        ("kill_its_parent", "kill"),
        ("kill_everybody", "kill"),
        ("stop_itself", "tgkill"),
        ("continue_itself_by_timer", "setitimer"),
        ("hide_memory_in_a_file", "memfd_create"),
        ("make_code", "mmap"),
        ("change_code", "mprotect"),
        ("take_priority", "sched_setscheduler"),
        ("lock_memory", "mlockall"),
        ("read_another_process", "process_vm_readv"),
        ("unknown_call", "number 9999"),
        ("forbidden_in_a_thread", "socket"),
    ],
)
def test_a_forbidden_call_is_named(bench: Bench, name: str, call: str) -> None:
    with attack(bench, name) as worker, pytest.raises(Rejected) as refused:
        answered(worker)
    assert refused.value.verdict is Verdict.POLICY_VIOLATION
    assert refused.value.message == f"forbidden system call {call} in a call"


def test_a_forbidden_call_ends_the_process_even_with_its_signal_blocked(bench: Bench) -> None:
    with attack(bench, "forbidden_with_signals_blocked") as worker, pytest.raises(Rejected) as refused:
        answered(worker)
    assert (refused.value.verdict, refused.value.message) == (Verdict.POLICY_VIOLATION, "forbidden system call in a call")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("exit_cleanly", "ended its process (exit status 0)"),
        ("exit_at_once", "ended its process (exit status 3)"),
        ("end_its_thread", "ended its process (exit status 0)"),
        ("abort_", "aborted"),
        ("throw_", "aborted"),
        ("null_pointer", "crashed with SIGSEGV (reads or writes outside its buffers?)"),
        ("far_away", "crashed with SIGSEGV (reads or writes outside its buffers?)"),
        ("illegal_instruction", "crashed with SIGILL (an instruction that this CPU lacks?)"),
        ("divide_by_zero", "crashed with SIGFPE (an integer division by zero?)"),
    ],
)
def test_the_end_of_a_process_is_explained(bench: Bench, name: str, message: str) -> None:
    with attack(bench, name) as worker, pytest.raises(Rejected) as refused:
        answered(worker)
    assert refused.value.verdict is Verdict.LAUNCH_ERROR
    assert refused.value.message.startswith(f"{message} in a call")


@pytest.mark.parametrize("name", ["loop", "sleep_", "loop_with_threads"])
def test_what_never_ends_is_ended(bench: Bench, name: str) -> None:
    with attack(bench, name) as worker:
        pid = worker._process.pid
        with pytest.raises(Rejected) as refused:
            answered(worker)
    assert (refused.value.verdict, refused.value.message) == (Verdict.TIMEOUT, "did not finish within 1 s in a call")
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    ("name", "trespass"),
    [
        ("write_past_the_end", r"wrote 4 bytes past the end of y \(from 0 bytes past it\)"),
        ("write_before_the_start", r"wrote 4 bytes before the start of y \(up to 4 bytes before it\)"),
        ("write_past_an_input", r"wrote 4 bytes past the end of x \(from 20 bytes past it\)"),
        ("change_an_input", "input x was modified"),
        ("change_an_input_to_another_zero", "input x was modified"),
        ("leave_the_last_out", r"left 1 of 1000 elements of y unwritten \(the first is number 999\)"),
    ],
)
def test_trespasses_are_told(bench: Bench, name: str, trespass: str) -> None:
    with attack(bench, name) as worker:
        x = torch.randn(1000)
        x[::10] = 0.0
        _, found = answered(worker, x=x)
    assert len(found) == 1
    assert re.fullmatch(trespass, found[0])


@pytest.mark.parametrize(
    ("name", "placement"),
    [
        ("write_past_the_end", Placement.TIGHT),
        ("read_past_the_end", Placement.TIGHT),
        ("write_before_the_start", Placement.TIGHT_START),
        ("read_before_the_start", Placement.TIGHT_START),
    ],
)
def test_beside_a_fence_even_reading_outside_is_found(bench: Bench, name: str, placement: Placement) -> None:
    # 1024 floats are a multiple of the alignment, so that the end can touch the fence.
    with attack(bench, name, n=1024, placement=placement) as worker, pytest.raises(Rejected) as refused:
        answered(worker, x=torch.randn(1024))
    assert refused.value.verdict is Verdict.LAUNCH_ERROR
    assert "SIGSEGV" in refused.value.message


@pytest.mark.parametrize("placement", [Placement.TIGHT, Placement.TIGHT_START])
def test_memory_from_the_allocator_is_not_zero_where_correctness_is_checked(bench: Bench, placement: Placement) -> None:
    with attack(bench, "count_on_zeroed_heap", placement=placement) as worker:
        assert answered(worker)[0] is False


def test_work_that_is_put_off_is_not_seen(bench: Bench) -> None:
    with attack(bench, "finish_later") as worker:
        right, trespasses = answered(worker)
        time.sleep(0.7)
        assert not right
        assert trespasses == ("left 1000 of 1000 elements of y unwritten (the first is number 0)",)
        assert "left 1000 of 1000" in worker.inspect(0).trespasses[0], "nothing may run while the worker stands still"


def test_nothing_runs_between_calls(bench: Bench) -> None:
    with attack(bench, "watch_between_calls") as worker:
        assert answered(worker) == (True, ())
        inputs = values()
        worker.load(0, inputs)
        time.sleep(0.05)
        assert "left 1000 of 1000" in worker.inspect(0).trespasses[0]
        states = {
            Path(task, "stat").read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{worker._process.pid}/task").iterdir()
        }
        assert states == {"T"}


def test_whoever_claims_to_be_done_is_stopped_with_unfinished_outputs(bench: Bench) -> None:
    """The claim is made from here: it is the word in shared memory that a candidate would have to find."""
    with attack(bench, "take_its_time") as worker:
        worker.load(0, values())
        done = worker._arena.bytes[DONE : DONE + 4].view(np.uint32)
        liar = threading.Timer(0.1, lambda: done.__setitem__(0, worker._number))
        liar.start()
        worker.run([0], 30)
        liar.join()
        assert "left 1000 of 1000" in worker.inspect(0).trespasses[0]
        # Nor does the rest count for a later call: it is the earlier one that goes on.
        inputs = values()
        worker.load(0, inputs)
        worker.load(1, values())
        done[0] = worker._number + 1
        worker.run([1], 30)
        assert "left 1000 of 1000" in worker.inspect(1).trespasses[0]


@pytest.mark.parametrize("slots", [3, 40])
def test_work_on_calls_to_come_is_seen(bench: Bench, slots: int) -> None:
    """Whoever answers addresses that it knows writes to buffers of which the judge knows that no call has had them."""
    with attack(bench, "work_ahead", slots=slots) as worker:
        seen: set[str] = set()
        for _ in range(8):
            for slot in range(slots):
                worker.load(slot, values())
            worker.run(random.sample(range(slots), slots), SECONDS)
            seen |= {trespass for slot in range(slots) for trespass in worker.inspect(slot).trespasses}
    # Three slots keep their addresses, and the kernel never learns the twelve that it waits for.
    assert seen == ({"wrote to y of another call than the one that was made"} if slots == 40 else set())


@pytest.mark.parametrize("name", ["read_up_its_stack", "read_around_its_buffers"])
def test_nothing_lies_around_the_stack_and_the_buffers_of_a_call(bench: Bench, name: str) -> None:
    with attack(bench, name) as worker, pytest.raises(Rejected) as refused:
        answered(worker)
    assert refused.value.verdict is Verdict.LAUNCH_ERROR
    assert "SIGSEGV" in refused.value.message


@pytest.mark.parametrize("name", ["search_all_memory_it_knows", "ask_what_is_mapped"])
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the launcher hides its stack on x86-64 only")
def test_the_launchers_places_are_not_to_be_found(bench: Bench, name: str) -> None:
    with attack(bench, name) as worker:
        assert answered(worker) == (True, ())


@pytest.mark.parametrize(
    ("body", "verdict", "message"),
    [
        ("socket(2, 1, 0);", Verdict.POLICY_VIOLATION, "forbidden system call socket while it was loaded"),
        ("_exit(0);", Verdict.LAUNCH_ERROR, "ended its process (exit status 0) while it was loaded"),
        ("*(volatile int*)8 = 1;", Verdict.LAUNCH_ERROR, "crashed with SIGSEGV (reads or writes outside its buffers?) while it was loaded"),
        ("for (volatile int i = 0;; i = i) {}", Verdict.TIMEOUT, "did not finish within 1 s while it was loaded"),
    ],
)
def test_constructors_are_the_candidates_code_too(bench: Bench, body: str, verdict: Verdict, message: str) -> None:
    source = f"""
#include <cstdint>
#include <sys/socket.h>
#include <unistd.h>
__attribute__((constructor)) static void before() {{ {body} }}
extern "C" void scale(const float*, float*, std::int64_t, float) {{}}
"""
    with pytest.raises(Rejected) as refused:
        bench.seconds(1).open(source)
    assert (refused.value.verdict, refused.value.message) == (verdict, message)


def test_last_words_are_plain_text(bench: Bench) -> None:
    source = r"""
#include <cstdint>
#include <cstdio>
#include <cstdlib>
extern "C" void scale(const float*, float*, std::int64_t, float) {
    std::fprintf(stderr, "\x1b[31mred\n# heading\n\xff%s", "x");
    std::abort();
}
"""
    with bench.open(source) as worker, pytest.raises(Rejected) as refused:
        answered(worker)
    assert refused.value.message == "aborted in a call; it said: ?[31mred # heading ??x".replace("??x", "?x")


def test_nothing_is_left_behind(bench: Bench) -> None:
    def descriptors() -> int:
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir()))

    def children() -> set[str]:
        return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())

    with attack(bench, "plainly") as worker:
        answered(worker)
    before, families = descriptors(), children()
    for name in ("plainly", "loop_with_threads", "abort_", "write_a_file"):
        with attack(bench, name) as worker, suppress(Rejected):
            answered(worker)
        worker.close()
    assert descriptors() == before
    assert children() == families
