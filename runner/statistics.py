"""From block times to a speed-up with an honest interval: paired log-ratios, a bootstrap over processes and then blocks, an A/A bound.

The unit is the quad: four neighbouring blocks in the order ABBA or BAAB, which hold two pairs of neighbours, one in each order, so that
a linear drift falls out. Quads of one process share its luck (where its memory lies, which core it got), so processes are drawn first and
quads within them. Calls within a block are never treated as samples. A process's ratio is the Hodges–Lehmann estimate over its pairs
(the median of their pairwise means): on a shared machine a block now and then waits milliseconds for a core, on either side, and a mean
would follow it. With few processes the bare bootstrap is too narrow; `_widen` says how that is mended, and
`tests/runner/test_statistics.py` measures the false-positive rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

AA_BOUND = 0.005
"""How far the baseline may lie from itself before a row counts as noisy."""
REPLICATES = 4000

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Blocks:
    """Block times of one workload in seconds a call. `order[p]` is process p's pattern, such as `ABBABAAB` (A is the candidate)."""

    candidate: tuple[tuple[float, ...], ...]
    baseline: tuple[tuple[float, ...], ...]
    order: tuple[str, ...]


@dataclass(frozen=True)
class Estimate:
    """`speedup` is baseline over candidate; `interval` holds it at the asked confidence; `aa` is the baseline over itself."""

    speedup: float
    interval: tuple[float, float]
    aa: float
    noisy: bool


@dataclass(frozen=True)
class _Resampled:
    """The mean log-ratio of a workload, its bootstrap replicates, and its variance's two parts with their degrees of freedom."""

    center: float
    replicates: Array
    parts: tuple[tuple[float, int], ...]


def quads(blocks: Blocks) -> tuple[Array, Array]:
    """Log-ratios of baseline over candidate (processes × quads × 2 pairs), and of baseline over baseline (processes × quads), with the
    sign turned every second quad."""
    ratios, same = [], []
    for candidate, baseline, order in zip(blocks.candidate, blocks.baseline, blocks.order, strict=True):
        times = {"A": iter(candidate), "B": iter(baseline)}
        sequence = [(side, math.log(next(times[side]))) for side in order]
        if len(order) % 4 or order.count("A") != len(candidate) or order.count("B") != len(baseline):
            raise ValueError(f"the pattern {order} does not fit {len(candidate)} and {len(baseline)} blocks")
        row, twins = [], []
        for first in range(0, len(sequence), 4):
            quad = sequence[first : first + 4]
            mine = [time for side, time in quad if side == "A"]
            other = [time for side, time in quad if side == "B"]
            if len(mine) != 2:
                raise ValueError(f"the pattern {order} is not made of balanced quads")
            row.append([other[0] - mine[0], other[1] - mine[1]])
            # Which of the two came first alternates, so that a drift falls out of the mean.
            twins.append((other[0] - other[1]) * (1 if (first // 4) % 2 == 0 else -1))
        ratios.append(row)
        same.append(twins)
    return np.array(ratios, dtype=np.float64), np.array(same, dtype=np.float64)


def estimate(blocks: Blocks, confidence: float, seed: int) -> Estimate:
    """The speed-up on one workload."""
    ratios, twins = quads(blocks)
    sample = _resample(ratios, np.random.default_rng(seed))
    return _estimate([sample], float(_location(twins.reshape(-1))), confidence)


def geomean(workloads: Sequence[Blocks], confidence: float, seed: int) -> Estimate:
    """The geometric mean over workloads. Each is resampled on its own (its processes are its own) and the replicates are joined."""
    generator = np.random.default_rng(seed)
    pairs = [quads(blocks) for blocks in workloads]
    twins = float(np.mean([_location(twin.reshape(-1)) for _, twin in pairs]))
    return _estimate([_resample(ratios, generator) for ratios, _ in pairs], twins, confidence)


def typical(times: Sequence[Sequence[float]], confidence: float, seed: int) -> tuple[float, tuple[float, float]]:
    """The typical block of one side in seconds (processes × blocks, an even number in each), with the interval that holds it."""
    pairs = np.log(np.asarray(times, dtype=np.float64))
    sample = _resample(pairs.reshape(pairs.shape[0], -1, 2), np.random.default_rng(seed))
    found = _estimate([sample], 0.0, confidence)
    return found.speedup, found.interval


def median_seconds(times: Sequence[Sequence[float]]) -> float:
    """The median block of all processes."""
    return float(np.median(np.concatenate([np.asarray(process, dtype=np.float64) for process in times])))


def _estimate(samples: Sequence[_Resampled], twins: float, confidence: float) -> Estimate:
    center = float(np.mean([sample.center for sample in samples]))
    replicates = np.mean([sample.replicates for sample in samples], axis=0)
    tail = (1 - confidence) / 2
    low, high = (float(value) for value in np.quantile(replicates, [tail, 1 - tail]))
    factor = _widen(samples, confidence)
    low, high = center - (center - low) * factor, center + (high - center) * factor
    aa = math.exp(twins)
    noisy = abs(aa - 1) > AA_BOUND
    if noisy:
        # The run cannot tell the baseline from itself any better than this, so nor can it tell the candidate from the baseline.
        low, high = low - abs(twins), high + abs(twins)
    return Estimate(math.exp(center), (math.exp(min(low, center)), math.exp(max(high, center))), aa, noisy)


def _location(values: Array) -> Array:
    """The Hodges–Lehmann estimate along the last axis: the median of all pairwise means, a value with itself included."""
    first, second = np.triu_indices(values.shape[-1])
    location: Array = np.median((values[..., first] + values[..., second]) / 2, axis=-1)
    return location


def _resample(ratios: Array, generator: np.random.Generator) -> _Resampled:
    """Draw processes, then quads within each, and locate all their pairs together. The processes' own locations are spread by √(P/(P−1))
    about the centre, since a resample of P values has only (P−1)/P of their variance; a single process's quads likewise."""
    processes, count, _ = ratios.shape
    center = float(_location(ratios.reshape(-1)))
    locations = _location(ratios.reshape(processes, -1))
    apart = math.sqrt(processes / (processes - 1)) if processes > 1 else 0.0
    inner = ratios - locations[:, None, None]
    if processes == 1 and count > 1:
        inner = inner * math.sqrt(count / (count - 1))
    spread = center + apart * (locations - locations.mean())[:, None, None] + inner
    chosen = generator.integers(processes, size=(REPLICATES, processes, 1))
    picked = generator.integers(count, size=(REPLICATES, processes, count))
    replicates = _location(spread[chosen, picked].reshape(REPLICATES, -1))
    between = float(locations.var(ddof=1)) / processes if processes > 1 else 0.0
    within = max(float(replicates.var()) - between, 0.0)
    parts = [(between, processes - 1), (within, processes * (count - 1))]
    return _Resampled(center, replicates, tuple(part for part in parts if part[1] > 0))


def _widen(samples: Sequence[_Resampled], confidence: float) -> float:
    """The factor by which percentiles are spread because variances come from few values: Student's t over the normal quantile, with
    Satterthwaite's degrees of freedom of all variances that went in."""
    parts = [part for sample in samples for part in sample.parts]
    total = sum(variance for variance, _ in parts)
    if total == 0:
        return 1.0
    freedom = max(1.0, total**2 / sum(variance**2 / degrees for variance, degrees in parts))
    quantile = (1 + confidence) / 2
    return float(stats.t.ppf(quantile, freedom) / stats.norm.ppf(quantile))
