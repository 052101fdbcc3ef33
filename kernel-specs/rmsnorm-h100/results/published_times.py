"""Times QuACK and PyTorch as published figures do, one event pair a call: `python published_times.py SPEC OUT`, on the machine that judged.

The judge times a graph of calls, in which nothing lies between two kernels. Here each call is launched alone between two events, the
second-level cache is cleared before it, and PyTorch allocates its output: `triton.testing.do_bench`, medians of about 100 ms. QuACK takes
the configurations that the judge's tuning kept on this machine; the fastest counts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from triton.testing import do_bench

from runner.spec.load import LoadedSpec, load_spec
from runner.spec.workload import Workload
from runner.spec.workloads import public
from runner.targets.cuda.baselines import kept_configs, read_configs
from runner.targets.protocol import Device
from runner.targets.registry import target_for


def main(folder: Path, out: Path) -> None:
    """Write milliseconds a call for every public workload."""
    sys.path.insert(0, str(folder))
    loaded = load_spec(folder)
    device = target_for(loaded.spec).device()
    found: dict[str, dict[str, Any]] = {}
    for workload in public(loaded.spec):
        found[workload.name] = times_of(loaded, workload, device)
        print(workload.name, found[workload.name], flush=True)
        out.write_text(json.dumps({"device": device.name, "torch": torch.__version__, "ms": found}, indent=1) + "\n")


def times_of(loaded: LoadedSpec, workload: Workload, device: Device) -> dict[str, Any]:
    """QuACK with its configuration, PyTorch's `rms_norm` with a weight of x's dtype, and a copy."""
    import baselines

    rows, cols = workload.axes["rows"], workload.axes["cols"]
    x = torch.randn(rows, cols, device="cuda", dtype=torch.bfloat16)
    y, weight = torch.empty_like(x), torch.rand(cols, device="cuda") + 0.5
    narrow = weight.to(x.dtype)
    quack = next(one for one in loaded.spec.baselines if one.name == "quack")
    kept = read_configs(kept_configs(quack, loaded, workload, device))
    times = {text: _ms(partial(baselines.quack, x, weight, None, y, None, 1e-6, text)) for text in (kept.texts if kept else ())}
    best = min(times, key=times.__getitem__, default="")
    return {
        "quack": times.get(best),
        "config": best,
        "rms_norm": _ms(lambda: torch.nn.functional.rms_norm(x, (cols,), narrow, 1e-6)),
        "copy": _ms(lambda: y.copy_(x)),
    }


def _ms(call: Callable[[], object]) -> float:
    return float(do_bench(call, warmup=10, rep=100, return_mode="median"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
