"""How the next point of a knob space is chosen: TPE (Optuna), a local search, or at random; each learns from every point that was tried.

A point is a tuple of indices into the knobs' values. A strategy is told known points first and never answers one that it knows. The
same seed, told the same things in the same order, asks for the same points.
"""

from __future__ import annotations

import math
import random
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import optuna

from runner.manifest import KnobValue

Point = tuple[int, ...]
Kind = Literal["tpe", "local", "random"]

BAD = math.log(0.02)
"""What a point that could not be timed is told to be worth: far below every real kernel, so that its neighbourhood is left."""
PATIENCE = 10
STARTUP = 8
FAILURES = 2
"""A knob value is left alone once so many points with it failed and none could be timed, where others could."""


class Strategy(Protocol):
    """Asks for points. `tell` gives the log of a point's speed-up, or None when it could not be timed."""

    def tell(self, point: Point, value: float | None) -> None: ...

    def ask(self) -> Point | None:
        """A point that is not known yet; None when every point is."""


class Space:
    """The points of a manifest's knobs, in the order in which they are written."""

    def __init__(self, knobs: Mapping[str, Sequence[KnobValue]]) -> None:
        self.names = tuple(knobs)
        self.values = tuple(tuple(values) for values in knobs.values())
        self.size = math.prod(len(values) for values in self.values)

    def point(self, knobs: Mapping[str, KnobValue]) -> Point | None:
        """The point with these values; None where a knob is missing, unknown or has another value."""
        if set(knobs) != set(self.names):
            return None
        try:
            return tuple(values.index(knobs[name]) for name, values in zip(self.names, self.values, strict=True))
        except ValueError:
            return None

    def knobs(self, point: Point) -> dict[str, KnobValue]:
        return {name: values[at] for name, values, at in zip(self.names, self.values, point, strict=True)}

    def ordered(self, place: int) -> bool:
        """Whether a knob's values have an order that a search can use: numbers do, words don't."""
        return all(isinstance(value, int) for value in self.values[place])


class Random:
    """Unknown points, each with the same chance."""

    def __init__(self, space: Space, seed: int) -> None:
        self.space = space
        self.random = random.Random(seed)
        self.known: dict[Point, float | None] = {}
        # By value (its knob's place and its own): the points that failed with it; and the values of all points that were timed.
        self._failed: defaultdict[tuple[int, int], set[Point]] = defaultdict(set)
        self._timed: set[tuple[int, int]] = set()

    def tell(self, point: Point, value: float | None) -> None:
        self.known[point] = value
        if value is None:
            for place_and_value in enumerate(point):
                self._failed[place_and_value].add(point)
        else:
            self._timed.update(enumerate(point))

    def ask(self) -> Point | None:
        if len(self.known) >= self.space.size:
            return None
        for _ in range(200):
            point = tuple(self.random.randrange(len(values)) for values in self.space.values)
            if self._promising(point):
                return point
        # Nearly everything is known: count through what is not.
        left = [point for number in range(self.space.size) if (point := self._numbered(number)) not in self.known]
        return self.random.choice([point for point in left if self._promising(point)] or left)

    def _promising(self, point: Point) -> bool:
        """Whether a point is unknown and has no value with which everything failed."""
        return point not in self.known and not any(self._hopeless(value) for value in enumerate(point))

    def _hopeless(self, value: tuple[int, int]) -> bool:
        """Whether a value alone explains its failures: no other value that was never timed is in all of them."""
        points = self._failed.get(value, set())
        if not self._timed or value in self._timed or len(points) < FAILURES:
            return False
        return not any(points <= failed for other, failed in self._failed.items() if other != value and other not in self._timed)

    def _numbered(self, number: int) -> Point:
        point = []
        for values in reversed(self.space.values):
            number, at = divmod(number, len(values))
            point.append(at)
        return tuple(reversed(point))


class Local(Random):
    """Steps from the best point known: one knob, or two, to a neighbouring value. After a while without gain it starts anew elsewhere."""

    def __init__(self, space: Space, seed: int) -> None:
        super().__init__(space, seed)
        self.base: Point | None = None
        self.stale = 0

    def tell(self, point: Point, value: float | None) -> None:
        super().tell(point, value)
        worth = self.known.get(self.base) if self.base is not None else None
        if value is not None and (worth is None or value > worth):
            self.base, self.stale = point, 0
        else:
            self.stale += 1

    def ask(self) -> Point | None:
        if self.stale >= PATIENCE:
            # The next point that can be timed becomes the new base, wherever it lies.
            self.base, self.stale = None, 0
        if self.base is None:
            return super().ask()
        for _ in range(200):
            point = list(self.base)
            places = [place for place, values in enumerate(self.space.values) if len(values) > 1]
            for place in self.random.sample(places, min(len(places), 1 if self.random.random() < 0.7 else 2)):
                point[place] = self._step(place, point[place])
            if self._promising(tuple(point)):
                return tuple(point)
        self.base = None
        return super().ask()

    def _step(self, place: int, at: int) -> int:
        last = len(self.space.values[place]) - 1
        if self.space.ordered(place):
            near = [other for other in (at - 1, at + 1) if 0 <= other <= last]
            return self.random.choice(near)
        return self.random.choice([other for other in range(last + 1) if other != at])


class Tpe(Random):
    """Optuna's multivariate tree-structured Parzen estimator. A point that it asks for again is told to it again, and it is asked anew."""

    def __init__(self, space: Space, seed: int) -> None:
        super().__init__(space, seed)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(seed=self.random.randrange(2**31), multivariate=True, n_startup_trials=STARTUP)
        self.study = optuna.create_study(direction="maximize", sampler=sampler)
        self.distributions: dict[str, optuna.distributions.BaseDistribution] = {
            name: optuna.distributions.IntDistribution(0, len(values) - 1)
            if space.ordered(place)
            else optuna.distributions.CategoricalDistribution(range(len(values)))
            for place, (name, values) in enumerate(zip(space.names, space.values, strict=True))
        }

    def tell(self, point: Point, value: float | None) -> None:
        super().tell(point, value)
        worth = BAD if value is None else value
        params = dict(zip(self.space.names, point, strict=True))
        self.study.add_trial(optuna.trial.create_trial(params=params, distributions=self.distributions, value=worth))

    def ask(self) -> Point | None:
        if len(self.known) >= self.space.size:
            return None
        for _ in range(30):
            trial = self.study.ask(self.distributions)
            point = tuple(int(trial.params[name]) for name in self.space.names)
            if self._promising(point):
                # Its result comes as a trial of its own through `tell`, as a recorded one's does.
                self.study.tell(trial, state=optuna.trial.TrialState.FAIL)
                return point
            value = self.known.get(point)
            self.study.tell(trial, BAD if value is None else value)
        return super().ask()


def make_strategy(kind: Kind, space: Space, seed: int) -> Strategy:
    """The strategy of this name."""
    return {"tpe": Tpe, "local": Local, "random": Random}[kind](space, seed)
