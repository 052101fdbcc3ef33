"""The best existing implementations, called like a kernel: inputs, outputs and scalars by name, results into the given outputs."""

from __future__ import annotations

import itertools
import json
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch


def rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    residual: torch.Tensor | None,
    y: torch.Tensor,
    residual_out: torch.Tensor | None,
    eps: float,
) -> None:
    """PyTorch's RMSNorm, written into `y` (rows, cols); with a residual the fp32 sum goes into `residual_out`."""
    if residual is not None:
        assert residual_out is not None
        torch.add(x.float(), residual, out=residual_out)
        x = residual_out.to(x.dtype) if weight.dtype == x.dtype else residual_out
    y.copy_(torch.nn.functional.rms_norm(x, weight.shape, weight, eps))


def in_float(
    x: torch.Tensor,
    weight: torch.Tensor,
    residual: torch.Tensor | None,
    y: torch.Tensor,
    residual_out: torch.Tensor | None,
    eps: float,
) -> None:
    """RMSNorm with all arithmetic in fp32, for the compiler to fuse into one kernel."""
    total = x.float() if residual is None else x.float() + residual.float()
    if residual_out is not None:
        residual_out.copy_(total)
    y.copy_(total * torch.rsqrt(total.square().mean(dim=-1, keepdim=True) + eps) * weight.float())


def quack(
    x: torch.Tensor,
    weight: torch.Tensor,
    residual: torch.Tensor | None,
    y: torch.Tensor,
    residual_out: torch.Tensor | None,
    eps: float,
    config: str = "",
) -> str:
    """QuACK's RMSNorm, written into the given outputs, as its own heuristic configures it or as `config` says (its fields in JSON)."""
    from quack.rmsnorm import rmsnorm_fwd_tuned
    from quack.rmsnorm_config import RmsNormFwdConfig

    heuristic = RmsNormFwdConfig.from_analytical_heuristic(x.shape[-1], 8 * x.element_size())
    chosen = RmsNormFwdConfig(**json.loads(config)) if config else heuristic
    rmsnorm_fwd_tuned.fn(x, weight, y, residual=residual, residual_out=residual_out, eps=eps, config=chosen)
    return ("the heuristic's " if chosen == heuristic else "") + str(chosen)


def quack_configs(sets: Sequence[Mapping[str, Any]], seconds: float) -> list[str]:
    """QuACK's heuristic, the best five of its tuner's configurations, and the best three of those with 8, 16 or 32 threads a row, which
    its tuner leaves out: each timed over all sets in one graph, as many as `seconds` allow."""
    from quack.cache.async_compile import CompilePending, pool_scope
    from quack.rmsnorm_config import RmsNormFwdConfig, get_all_fwd_configs

    x = sets[0]["x"]
    cols = x.shape[-1]
    heuristic = RmsNormFwdConfig.from_analytical_heuristic(cols, 8 * x.element_size())
    narrow = [
        RmsNormFwdConfig(threads, row, 1, reload)
        for row, threads, reload in itertools.product((8, 16, 32), (128, 256), (None, "smem"))
        if row <= cols <= 128 * row
    ]
    # A cluster wider than its row's vectors of four is made narrower by QuACK itself, and becomes one of the others.
    tuned = [
        one
        for one in get_all_fwd_configs()
        if one.threads_per_row <= cols <= 256 * one.threads_per_row * one.cluster_n
        and (one.cluster_n == 1 or 4 * one.threads_per_row * one.cluster_n <= cols)
    ]
    wanted = [heuristic, *narrow, *tuned]
    waiting = deque(dict.fromkeys(wanted))
    times: dict[RmsNormFwdConfig, float] = {}
    end = time.monotonic() + seconds
    with pool_scope():
        while waiting and time.monotonic() < end:
            one = waiting.popleft()
            try:
                times[one] = _graph_ms(sets, json.dumps(asdict(one)))
            except CompilePending:
                waiting.append(one)
                time.sleep(0.01)
            except RuntimeError:
                continue  # it needs more than an SM has
    ranked = sorted(times, key=times.__getitem__)
    chosen = [heuristic, *[one for one in ranked if one not in narrow][:5], *[one for one in ranked if one in narrow][:3]]
    return [json.dumps(asdict(one)) for one in dict.fromkeys(chosen)]


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
