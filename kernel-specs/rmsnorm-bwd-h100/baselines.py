"""The best existing implementations, called like a kernel: inputs and outputs by name, results into the given outputs.

PyTorch's own fused gradient takes a weight of the dtype of x only, so here it stands for itself as plain and as compiled operations.
"""

from __future__ import annotations

import itertools
import json
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch


def rms_norm_backward(
    x: torch.Tensor, dy: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor, dx: torch.Tensor, dweight: torch.Tensor
) -> None:
    """The gradients with all arithmetic in fp32, into `dx` (rows, cols) and `dweight` (cols)."""
    factor = rstd.unsqueeze(-1)
    normalised = x.float() * factor
    gradient = dy.float()
    scaled = gradient * weight
    dx.copy_(factor * (scaled - normalised * (scaled * normalised).mean(dim=-1, keepdim=True)))
    dweight.copy_((gradient * normalised).sum(dim=0))


def quack(
    x: torch.Tensor,
    dy: torch.Tensor,
    weight: torch.Tensor,
    rstd: torch.Tensor,
    dx: torch.Tensor,
    dweight: torch.Tensor,
    config: str = "",
) -> str:
    """QuACK's gradient: partial sums of dweight, which PyTorch adds up into the output. `config` is JSON: its own configuration's fields,
    and how many `parts` there are; its heuristics choose where it is empty."""
    from quack.rmsnorm import rmsnorm_bwd_tuned
    from quack.rmsnorm_config import RmsNormBwdConfig

    default = json.loads(_heuristic(x))
    chosen = json.loads(config) if config else default
    partial = torch.empty((chosen["parts"], x.shape[-1]), device=x.device, dtype=torch.float32)
    fields = RmsNormBwdConfig(**chosen["config"])
    rmsnorm_bwd_tuned.fn(x, weight, dy, rstd, dx, dw_partial=partial, has_dw_partial=True, config=fields)
    torch.sum(partial, dim=0, out=dweight)
    return f"{'the heuristic: ' if chosen == default else ''}{fields}, {chosen['parts']} partial sums"


def _heuristic(x: torch.Tensor) -> str:
    """What QuACK chooses by itself."""
    from quack.rmsnorm_config import RmsNormBwdConfig, get_sm_count

    rows, cols = x.shape
    bits = 8 * x.element_size()
    config = RmsNormBwdConfig.from_analytical_heuristic(cols, bits, bits, T_hint=rows)
    return json.dumps({"config": asdict(config), "parts": get_sm_count(cols, x.device)})


def quack_configs(sets: Sequence[Mapping[str, Any]], seconds: float) -> list[str]:
    """QuACK's heuristic and the best five that were found in `seconds`: first configurations of its tuner and rows of 8, 16 or 32 threads,
    those nearest to the heuristic before the others (all 400 take minutes), then other numbers of partial sums, which it never tunes,
    with the best three."""
    from quack.rmsnorm_config import RmsNormBwdConfig, get_all_bwd_configs

    x = sets[0]["x"]
    cols, size = x.shape[-1], x.element_size()
    heuristic = json.loads(_heuristic(x))
    narrow = [
        RmsNormBwdConfig(threads, row, 1, reload, reload, False)
        for row, threads, reload in itertools.product((8, 16, 32), (128, 256), (None, "smem"))
        if row <= cols <= 64 * row
    ]
    grid = [asdict(one) for one in (*narrow, *get_all_bwd_configs()) if _fits(one, cols, size)]
    grid.sort(key=lambda one: sum(one[name] != value for name, value in heuristic["config"].items()))
    times: dict[str, float] = {}
    first = [heuristic, *({"config": one, "parts": heuristic["parts"]} for one in grid)]
    _time_all(sets, first, times, time.monotonic() + 0.6 * seconds)
    sms = torch.cuda.get_device_properties(x.device).multi_processor_count
    best = [json.loads(text) for text in sorted(times, key=times.__getitem__)[:3]]
    others = [{**one, "parts": parts} for parts in (sms // 2, sms, 2 * sms, 4 * sms, 8 * sms, 16 * sms) for one in best]
    _time_all(sets, others, times, time.monotonic() + 0.4 * seconds)
    ranked = sorted(times, key=times.__getitem__)[:5]
    return list(dict.fromkeys([json.dumps(heuristic), *ranked]))


def _fits(config: Any, cols: int, size: int) -> bool:
    """Whether a configuration is one of its own for rows of this length."""
    tile = cols // config.cluster_n
    return config.threads_per_row * config.cluster_n <= cols and not (config.use_tma and tile * size % 16)


def _time_all(sets: Sequence[Mapping[str, Any]], configs: Iterable[Mapping[str, Any]], times: dict[str, float], end: float) -> None:
    """Time each of the configurations that was not, until `end`, while QuACK compiles others."""
    from quack.cache.async_compile import CompilePending, pool_scope

    waiting = deque(text for text in dict.fromkeys(json.dumps(one) for one in configs) if text not in times)
    with pool_scope():
        while waiting and time.monotonic() < end:
            text = waiting.popleft()
            try:
                times[text] = _graph_ms(sets, text)
            except CompilePending:
                waiting.append(text)
                time.sleep(0.01)
            except RuntimeError:
                continue  # it needs more than an SM has


def _graph_ms(sets: Sequence[Mapping[str, Any]], config: str) -> float:
    """Milliseconds for a call on each of the sets, the fastest of three."""
    for one in sets[:2]:
        quack(**one, config=config)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="relaxed"):
        for one in sets:
            quack(**one, config=config)
    times = []
    for _ in range(3):
        begin, finish = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        finish.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(finish))
    return min(times)
