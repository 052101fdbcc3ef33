"""Which knobs change the speed, and by how much: an additive model of the log speed-up, chosen by permutation tests.

A search does not draw its points evenly (it returns to what looked good), so a knob's plain averages borrow the effects of the
knobs it was tried with. Here a knob counts only after the stronger ones are taken out: forward selection of whole knobs, each
step tested against the largest statistic of all knobs under permuted residuals (Freedman and Lane), which bounds the chance of
any false find by `ALPHA` a step. Effect sizes are contrasts of the final model with wild-bootstrap intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy.stats import f as f_distribution
from scipy.stats import norm as normal_distribution
from scipy.stats import t as t_distribution

from runner.manifest import KnobValue

ALPHA = 0.02
CONFIDENCE = 0.95
PERMUTATIONS = 999
BOOTSTRAPS = 2000
MIN_POINTS = 8
MIN_FREEDOM = 4  # residual degrees of freedom that a step must leave

Array = npt.NDArray[np.float64]
Key = tuple[KnobValue, ...]
Term = tuple[str, ...]


@dataclass(frozen=True)
class Contrast:
    """How much faster `better` is than `other`, the rest equal: the ratio of speeds and its interval, which excludes 1."""

    better: KnobValue
    other: KnobValue
    ratio: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Effect:
    """One knob that matters: contrasts of its best value, the largest first, and the indices of the points behind them."""

    knob: str
    contrasts: tuple[Contrast, ...]
    points: tuple[int, ...]


@dataclass(frozen=True)
class Interaction:
    """Two knobs that act together: where both have these values the speed is `ratio` of what their separate effects give."""

    knobs: tuple[str, str]
    values: tuple[KnobValue, KnobValue]
    ratio: float
    interval: tuple[float, float]
    points: tuple[int, ...]


def find_effects(points: Sequence[Mapping[str, KnobValue]], logs: Sequence[float]) -> tuple[list[Effect], list[Interaction]]:
    """The knobs, and the pairs of those knobs, that change the log speed-ups `logs` of distinct `points` (same knobs in each).

    Nothing is found in fewer than `MIN_POINTS` points. The same input always gives the same answer.
    """
    if len(points) < MIN_POINTS:
        return [], []
    response = np.asarray(logs, dtype=np.float64)
    generator = np.random.default_rng(len(points))
    terms: dict[Term, Array] = {(knob,): _indicators([(point[knob],) for point in points]) for knob in points[0]}
    chosen = _select(terms, [], response, generator)
    knobs = [name for (name,) in chosen]
    pairs: dict[Term, Array] = {
        pair: _indicators([tuple(point[knob] for knob in pair) for point in points]) for pair in combinations(knobs, 2)
    }
    model = [terms[name] for name in chosen]
    effects = [_effect(knob, points, model, response, generator) for knob in knobs]
    together = _select(pairs, model, response, generator)
    interactions = [_interaction(pair, points, model, pairs[pair], response, generator) for pair in together]
    return [effect for effect in effects if effect.contrasts], [found for found in interactions if found is not None]


def _indicators(keys: Sequence[Key]) -> Array:
    """One column a distinct key, 1 where the point has it; shape (points, keys)."""
    distinct = list(dict.fromkeys(keys))
    return np.asarray([[float(key == other) for other in distinct] for key in keys], dtype=np.float64)


def _select(terms: Mapping[Term, Array], model: Sequence[Array], response: Array, generator: np.random.Generator) -> list[Term]:
    """The terms that explain the response beyond `model` and each other, the strongest first."""
    chosen: list[Term] = []
    left = dict(terms)
    while left:
        base = _basis(np.hstack([np.ones((len(response), 1)), *model, *(terms[term] for term in chosen)]))
        added = {term: _basis(columns - base @ (base.T @ columns)) for term, columns in left.items()}
        added = {
            term: basis for term, basis in added.items() if basis.shape[1] and len(response) - base.shape[1] - basis.shape[1] >= MIN_FREEDOM
        }
        residual = response - base @ (base.T @ response)
        if not added or float(residual @ residual) <= 1e-18 * len(response):
            break
        shuffled = np.stack([generator.permutation(residual) for _ in range(PERMUTATIONS)], axis=1)
        shuffled -= base @ (base.T @ shuffled)
        freedom = len(response) - base.shape[1]
        seen = {term: float(_tail(basis, residual[:, None], freedom)[0]) for term, basis in added.items()}
        by_chance = np.min([_tail(basis, shuffled, freedom) for basis in added.values()], axis=0)
        best = min(seen, key=lambda term: seen[term])
        if (1 + int(np.sum(by_chance <= seen[best]))) / (PERMUTATIONS + 1) > ALPHA:
            break
        chosen.append(best)
        del left[best]
    return chosen


def _tail(basis: Array, residuals: Array, freedom: int) -> Array:
    """The log of the tail probability of each column's F statistic for the term with this basis: comparable between terms
    of any size, and without ties at zero."""
    size = basis.shape[1]
    explained = np.sum((basis.T @ residuals) ** 2, axis=0)
    rest = np.maximum(np.sum(residuals**2, axis=0) - explained, 1e-300)
    statistic = (explained / size) / (rest / (freedom - size))
    return np.asarray(f_distribution.logsf(statistic, size, freedom - size), dtype=np.float64)


def _basis(columns: Array) -> Array:
    """An orthonormal basis of the columns' span; shape (points, rank)."""
    left, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(left[:, sizes > 1e-9 * max(1.0, float(sizes[0]))], dtype=np.float64)


def _effect(
    knob: str, points: Sequence[Mapping[str, KnobValue]], model: Sequence[Array], response: Array, generator: np.random.Generator
) -> Effect:
    """The contrasts of the knob's best value with every other one whose interval excludes no effect."""
    values = list(dict.fromkeys(point[knob] for point in points))
    own = _indicators([(point[knob],) for point in points])
    design = np.hstack([np.ones((len(response), 1)), own, *(columns for columns in model if not _same(columns, own))])
    estimates, draws = _fit(design, response, generator)
    levels, drawn = estimates[1 : 1 + len(values)], draws[1 : 1 + len(values)]
    # The best value is one that was tried more than once, if there is any: a single point may have been lucky.
    often = [index for index in range(len(values)) if own[:, index].sum() > 1] or list(range(len(values)))
    top = max(often, key=lambda index: levels[index])
    contrasts, used = [], {top}
    for index in sorted(range(len(values)), key=lambda index: levels[index]):
        if index == top or not _estimable(design, 1 + top, 1 + index):
            continue
        low, high = _interval(drawn[top] - drawn[index], len(values) - 1)
        if low > 0:
            ratio = float(np.exp(levels[top] - levels[index]))
            contrasts.append(Contrast(values[top], values[index], ratio, (float(np.exp(low)), float(np.exp(high)))))
            used.add(index)
    behind = tuple(row for row, point in enumerate(points) if values.index(point[knob]) in used)
    return Effect(knob, tuple(contrasts), behind)


def _interaction(
    pair: tuple[str, ...],
    points: Sequence[Mapping[str, KnobValue]],
    model: Sequence[Array],
    cells: Array,
    response: Array,
    generator: np.random.Generator,
) -> Interaction | None:
    """The pair of values that departs most from the knobs' separate effects, if it was tried twice and its interval excludes none."""
    keys = [(point[pair[0]], point[pair[1]]) for point in points]
    distinct = list(dict.fromkeys(keys))
    base = _basis(np.hstack([np.ones((len(response), 1)), *model]))
    found: list[Interaction] = []
    for index, key in enumerate(distinct):
        column = cells[:, index : index + 1]
        if column.sum() < 2 or not _basis(column - base @ (base.T @ column)).shape[1]:
            continue
        estimates, draws = _fit(np.hstack([column, base]), response, generator)
        low, high = _interval(draws[0], len(distinct))
        if low > 0 or high < 0:
            rows = tuple(row for row, other in enumerate(keys) if other == key)
            names, interval = (pair[0], pair[1]), (float(np.exp(low)), float(np.exp(high)))
            found.append(Interaction(names, key, float(np.exp(estimates[0])), interval, rows))
    return max(found, key=lambda one: abs(np.log(one.ratio)), default=None)


def _fit(design: Array, response: Array, generator: np.random.Generator) -> tuple[Array, Array]:
    """Least squares: the coefficients, and `BOOTSTRAPS` wild-bootstrap draws of them; shapes (columns,), (columns, draws)."""
    inverse = np.linalg.pinv(design, rcond=1e-9)
    estimates = inverse @ response
    leverage = np.sum(design * inverse.T, axis=1)
    residual = response - design @ estimates
    pooled = np.sqrt(residual @ residual / max(1.0, len(response) - leverage.sum()))
    # Residuals are grown by their leverage (as in HC3), so that few points per value do not look surer than they are. A point
    # that the model follows exactly (the only one with its value) has no residual of its own: it is given the pooled one.
    residual = np.where(leverage < 0.9, residual / np.maximum(1.0 - leverage, 0.1), pooled)
    signs = generator.choice([-1.0, 1.0], size=(len(response), BOOTSTRAPS))
    # Few residual degrees of freedom: as much wider as Student's t is than the normal distribution, out where intervals end.
    freedom = max(1.0, len(response) - leverage.sum())
    wider = float(t_distribution.isf(0.005, freedom) / normal_distribution.isf(0.005))
    return estimates, estimates[:, None] + wider * (inverse @ (residual[:, None] * signs))


def _interval(draws: Array, comparisons: int) -> tuple[float, float]:
    """The percentile interval at `CONFIDENCE` for all of so many comparisons together (Bonferroni)."""
    tail = (1.0 - CONFIDENCE) / 2.0 / max(1, comparisons)
    low, high = np.quantile(draws, [tail, 1.0 - tail])
    return float(low), float(high)


def _estimable(design: Array, first: int, second: int) -> bool:
    """Whether the difference of two columns' coefficients is determined by the data: it lies in the design's row space."""
    contrast = np.zeros(design.shape[1])
    contrast[first], contrast[second] = 1.0, -1.0
    rows = _basis(design.T)
    return bool(np.linalg.norm(contrast - rows @ (rows.T @ contrast)) < 1e-6)


def _same(one: Array, other: Array) -> bool:
    return one.shape == other.shape and bool(np.array_equal(one, other))
