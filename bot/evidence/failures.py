"""Which knob value failures share: told only when chance would hardly line them up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import hypergeom

from runner.manifest import KnobValue

ALPHA = 0.02
PERMUTATIONS = 1999
MIN_FAILURES = 2
MIN_SHARE = 0.8  # of a value's points must fail before the value is blamed


@dataclass(frozen=True)
class Cause:
    """`failed` of the `tried` points with `knob = value` failed; `points` are the indices of those."""

    knob: str
    value: KnobValue
    failed: int
    tried: int
    points: tuple[int, ...]


def find_causes(points: Sequence[Mapping[str, KnobValue]], failed: Sequence[bool]) -> list[Cause]:
    """The knob values that failures among distinct `points` share, the one that explains most first.

    After each find the points with that value are set aside and the rest is looked at anew. Each step's statistic, the smallest
    of Fisher's one-sided tests over all values, is compared with what permuted outcomes give. The same input gives the same answer.
    """
    generator = np.random.default_rng(len(points))
    left = list(range(len(points)))
    causes: list[Cause] = []
    while True:
        cause = _cause([points[row] for row in left], np.asarray([failed[row] for row in left], dtype=np.bool_), generator)
        if cause is None:
            return causes
        rows = tuple(left[row] for row in cause.points)
        causes.append(Cause(cause.knob, cause.value, cause.failed, cause.tried, rows))
        left = [row for row in left if points[row][cause.knob] != cause.value]


def _cause(points: Sequence[Mapping[str, KnobValue]], failed: npt.NDArray[np.bool_], generator: np.random.Generator) -> Cause | None:
    total, failures = len(points), int(failed.sum())
    if failures < MIN_FAILURES or failures == total:
        return None
    values = [(knob, value) for knob in points[0] for value in dict.fromkeys(point[knob] for point in points)]
    has = np.asarray([[point[knob] == value for point in points] for knob, value in values], dtype=np.int64)
    tried = has.sum(axis=1)
    # tails[v, k]: the chance that k or more of the value's points are among the failures.
    tails = np.stack([hypergeom.sf(np.arange(-1, total), total, failures, count) for count in tried])
    hits = has @ failed.astype(np.int64)
    seen = tails[np.arange(len(values)), hits]
    seen = np.where(hits >= MIN_SHARE * tried, seen, 1.0)
    best = int(np.argmin(seen))
    if hits[best] < MIN_FAILURES:
        return None
    shuffled = np.stack([generator.permutation(failed) for _ in range(PERMUTATIONS)], axis=1).astype(np.int64)
    by_chance = np.take_along_axis(tails, has @ shuffled, axis=1).min(axis=0)
    if (1 + int(np.sum(by_chance <= seen[best] * (1 + 1e-9)))) / (PERMUTATIONS + 1) > ALPHA:
        return None
    knob, value = values[best]
    rows = tuple(int(row) for row in np.flatnonzero(has[best].astype(np.bool_) & failed))
    return Cause(knob, value, int(hits[best]), int(tried[best]), rows)
