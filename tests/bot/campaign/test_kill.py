"""`kill -9` at every commit of a campaign and between experiments: run again, it ends as it would have, with everything counted once."""

from __future__ import annotations

import functools
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support import KILLED, Field, dealt, field, without_time

from bot.evidence.experiment import Experiment

SEEDS = 34
KILLS = 2
CANDIDATES = 20


@dataclass(frozen=True)
class Scenario:
    """A campaign to kill: the `number`th on a spec, those before it undisturbed, drawn out over so many seeds."""

    name: str
    seeds: int
    number: int = 1
    min_speedup: float = 1.1

    def field(self, root: Path) -> Field:
        """A field where the campaign is the next."""
        made = field(root, rounds=2, candidates=CANDIDATES, min_speedup=self.min_speedup)
        for _ in range(self.number - 1):
            assert made.run() == 0
        return made


# The champion of a second campaign meets the bar: its winner is confirmed over the champion too. A bar of 9 is never reached.
SCENARIOS = [Scenario("first", SEEDS), Scenario("second", 4, number=2), Scenario("hopeless", 2, min_speedup=9.0)]
# So many seeds of each in every run of the tests; all with the whole suite.
ALWAYS = 3
CASES = [
    pytest.param(scenario, seed, id=f"{scenario.name}-{seed}", marks=[] if seed < ALWAYS else pytest.mark.suite)
    for scenario in SCENARIOS
    for seed in range(scenario.seeds)
]


@dataclass(frozen=True)
class Undisturbed:
    """A campaign that nobody killed: its events in order, its summary, its experiments and the kernel that it left."""

    events: tuple[str, ...]
    summary: dict[str, Any]
    experiments: list[Experiment]
    kernel_tree: str
    results: list[str]


@functools.cache
def undisturbed(scenario: Scenario) -> Undisturbed:
    with tempfile.TemporaryDirectory() as folder:
        made = scenario.field(Path(folder))
        log = made.root / "events"
        made.run(log=str(log))
        return Undisturbed(tuple(log.read_text().splitlines()), made.summary(), made.experiments(), made.kernel_tree(), results(made))


def results(made: Field) -> list[str]:
    return sorted(path.name for path in (made.spec / "results").glob("*"))


def decisive(event: str) -> bool:
    """Whether an event is a commit of the engine, or a file published."""
    return "commit of" in event or "write of" in event


def kill_points(scenario: Scenario, seed: int) -> list[str]:
    """The events at which this seed's processes die, one a process.

    The decisive events of the undisturbed campaign, and as many others as are needed to fill up, are dealt out to the seeds.
    """
    events = undisturbed(scenario).events
    points = [event for event in events if decisive(event)]
    others = [event for event in events if not decisive(event)]
    random.Random(2026).shuffle(others)
    return dealt(events, [*points, *others[: max(0, scenario.seeds * KILLS - len(points))]], scenario.seeds, seed, KILLS)


def test_the_seeds_kill_before_and_after_every_commit() -> None:
    (first, *_) = SCENARIOS
    events = [event for event in undisturbed(first).events if decisive(event)]
    steps = {event.split(" of ", 1)[1].split("#")[0] for event in events}
    assert {"plan", "champion", "propose tpe", "gate local", "screen", "judge", "confirm", "publish", "end", "the campaign's end"} <= steps
    assert {"kernel", "RESULTS.md", "lessons.md"} <= steps
    assert SEEDS >= 30
    assert sum(len(kill_points(first, seed)) for seed in range(SEEDS)) == SEEDS * KILLS >= len(events)


@pytest.mark.parametrize(("scenario", "seed"), CASES)
def test_a_killed_campaign_ends_as_it_would_have(scenario: Scenario, seed: int, tmp_path: Path) -> None:
    expected = undisturbed(scenario)
    made = scenario.field(tmp_path)
    (tmp_path / "out.json").unlink(missing_ok=True)
    killed = [made.run(kill=point) == KILLED for point in kill_points(scenario, seed)]
    assert any(killed)
    # A process that was killed after its report left nothing to continue: then another campaign would begin.
    if made.unfinished or not (tmp_path / "out.json").exists():
        assert made.run() == 0
    assert made.summary() == expected.summary
    assert without_time(made.experiments()) == without_time(expected.experiments)
    mine = [experiment for experiment in made.experiments() if experiment.campaign == expected.summary["campaign"]]
    assert made.summary()["evaluations"] == len(mine) <= CANDIDATES
    assert made.kernel_tree() == expected.kernel_tree
    assert results(made) == expected.results
    assert not list(made.spec.rglob(".*")), "a part of a file was left"
