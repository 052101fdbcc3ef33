"""Baselines: captured from torch.compile or called through Python, in their own sandbox, and never a verdict on a candidate."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from scale_bench import FACTOR, Bench, values

from runner.errors import FactoryError
from runner.spec.models import Baseline
from runner.targets.cpu.baselines import prepare
from runner.targets.cpu.baselines.zygote import Forked, zygote

COMPILED = Baseline(name="compiled", entry="baselines.py:scale", autotune="fresh")
EAGER = Baseline(name="eager", entry="baselines.py:scale")


def checked(bench: Bench, baseline: Baseline, n: int) -> None:
    workload = bench.workload(n)
    with bench.target.open_baseline(baseline, bench.spec, workload, 3) as worker:
        given = [values(n) for _ in range(3)]
        for slot, inputs in enumerate(given):
            worker.load(slot, inputs)
        worker.flush()
        assert worker.run([2, 0], 20) > 0
        for slot in (0, 2):
            found = worker.inspect(slot)
            assert found.trespasses == ()
            assert torch.equal(found.outputs["y"], given[slot]["x"] * FACTOR)
        assert bool(worker.inspect(1).trespasses) == (n > 0)


@pytest.mark.parametrize("n", [0, 1, 1000, 100_003])
def test_a_compiled_baseline_is_served_without_python(bench: Bench, n: int) -> None:
    checked(bench, COMPILED, n)
    assert "called through Python" not in bench.target.baseline_config(COMPILED, bench.spec, bench.workload(n))


@pytest.mark.parametrize("n", [0, 1, 1000])
def test_an_eager_baseline_is_called_through_python(bench: Bench, n: int) -> None:
    checked(bench, EAGER, n)
    assert "called through Python" in bench.target.baseline_config(EAGER, bench.spec, bench.workload(n))


def test_what_cannot_be_captured_is_called_through_python_and_says_why(bench: Bench) -> None:
    baseline = Baseline(name="sorts", entry="baselines.py:sorts", autotune="fresh")
    workload = bench.workload(500)
    with bench.target.open_baseline(baseline, bench.spec, workload, 1) as worker:
        inputs = values(500)
        worker.load(0, inputs)
        worker.run([0], 20)
        assert torch.equal(worker.inspect(0).outputs["y"], inputs["x"].sort().values * FACTOR)
    assert "called through Python (" in bench.target.baseline_config(baseline, bench.spec, workload)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("baselines.py:fails", "ValueError: not today"),
        ("baselines.py:nothing", "AttributeError"),
        ("missing.py:scale", "FileNotFoundError"),
    ],
)
@pytest.mark.parametrize("autotune", ["none", "fresh"])
def test_a_baseline_that_fails_is_a_factory_error(bench: Bench, entry: str, message: str, autotune: str) -> None:
    baseline = Baseline.model_validate({"name": "broken", "entry": entry, "autotune": autotune})
    with pytest.raises(FactoryError, match=message):
        bench.target.open_baseline(baseline, bench.spec, bench.workload(10), 1)
    checked(bench, EAGER, 10)


def test_a_plan_is_made_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    first = prepare.plan_for(COMPILED, bench.spec, bench.workload(1000))

    def never(*_: object) -> None:
        raise AssertionError("the plan is there")

    monkeypatch.setattr(prepare, "_compiled", never)
    assert prepare.plan_for(COMPILED, bench.spec, bench.workload(1000)) == first


def test_a_stopped_baseline_does_nothing(bench: Bench) -> None:
    with bench.target.open_baseline(EAGER, bench.spec, bench.workload(100), 1) as worker:
        states = {
            Path(task, "stat").read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{worker._process.pid}/task").iterdir()
        }
        assert states == {"T"}


def test_a_baseline_sees_no_secrets_and_no_network(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
import os, socket
def looks(x, y, factor):
    reached = [place for place in ("/home", "/root/.ssh", "/etc/passwd", "/var") if os.path.exists(place)]
    reached += [name for name in os.environ if "SECRET" in name]
    try:
        socket.create_connection(("1.1.1.1", 53), 1)
        reached.append("network")
    except OSError:
        pass
    try:
        open("/spec/written", "w")
        reached.append("spec")
    except OSError:
        pass
    if reached:
        raise ValueError(str(reached))
    y.copy_(x * factor)
"""
    monkeypatch.setenv("A_SECRET", "x")
    (bench.spec.folder / "looking.py").write_text(source)
    home = Path.home()
    baseline = Baseline(name="looking", entry="looking.py:looks")
    if str(home).startswith("/root") or str(sys.base_prefix).startswith("/home"):
        source_ = source.replace('"/home", ', "").replace('"/root/.ssh", ', "")
        (bench.spec.folder / "looking.py").write_text(source_)
    checked(bench, baseline, 10)


def test_the_process_behind_ends_with_its_judge(bench: Bench) -> None:
    behind = zygote(bench.spec.folder, prepare._cache(torch.__version__))
    assert behind.alive()
    behind.close()
    assert not behind.alive()
    checked(bench, EAGER, 10)


def test_interpreter_and_judge_part_cleanly(bench: Bench) -> None:
    """A judge that used a baseline ends without warnings or leftovers."""
    script = f"""
from pathlib import Path
from runner.targets.cpu.baselines.zygote import Forked, zygote
from runner.targets.cpu.baselines.prepare import _cache
import torch
behind = zygote(Path({str(bench.spec.folder)!r}), _cache(torch.__version__))
print(behind._process.pid)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert not Path(f"/proc/{int(done.stdout)}").exists()


def test_a_process_that_ended_before_it_was_watched_still_says_why(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    script = "import socket, sys; one = socket.socket(fileno=int(sys.argv[1])); one.send(b'{}'); one.send(b'{\"error\": \"not today\"}')"
    with theirs:
        subprocess.run([sys.executable, "-c", script, str(theirs.fileno())], pass_fds=[theirs.fileno()], check=True)
    forked = Forked(ours, tmp_path / "log")
    with pytest.raises(FactoryError, match="not today"):
        forked.receive(10)
    forked.close()
