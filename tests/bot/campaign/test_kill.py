"""`kill -9` at every commit of a campaign and between experiments: run again, it ends as it would have, with everything counted once."""

from __future__ import annotations

import functools
import random
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support import KILLED, field, without_time

from bot.evidence.experiment import Experiment

SEEDS = 30
KILLS = 2
CANDIDATES = 20
SPEC = {"rounds": 2, "candidates": CANDIDATES}


@dataclass(frozen=True)
class Undisturbed:
    """A campaign that nobody killed: its events in order, its summary, its experiments and the kernel that it left."""

    events: tuple[str, ...]
    summary: dict[str, Any]
    experiments: list[Experiment]
    kernel_tree: str


@functools.cache
def undisturbed() -> Undisturbed:
    with tempfile.TemporaryDirectory() as folder:
        made = field(Path(folder), **SPEC)
        log = made.root / "events"
        made.run(log=str(log))
        return Undisturbed(tuple(log.read_text().splitlines()), made.summary(), made.experiments(), made.kernel_tree())


def kill_points(seed: int) -> list[str]:
    """The events at which this seed's processes die, one a process.

    All commits of the undisturbed campaign, before and after, and as many records as are needed to fill up, are dealt out to the
    seeds. The second process counts its own events: what the first one has committed is not done again.
    """
    events = undisturbed().events
    commits = [event for event in events if "commit of" in event]
    records = [event for event in events if "commit of" not in event]
    shuffled = random.Random(2026)
    shuffled.shuffle(records)
    points = commits + records[: max(0, SEEDS * KILLS - len(commits))]
    shuffled.shuffle(points)
    mine = sorted(points[seed::SEEDS], key=events.index)
    done: Counter[str] = Counter()
    renamed = []
    for point in mine:
        name, number = point.rsplit("#", 1)
        what = name.removeprefix("before ").removeprefix("after ")
        renamed.append(f"{name}#{max(int(number) - done[what], 1)}")
        done = Counter(
            event.rsplit("#", 1)[0].removeprefix("after ") for event in events[: events.index(point) + 1] if event.startswith("after ")
        )
    return renamed


def test_the_seeds_kill_before_and_after_every_commit() -> None:
    events = undisturbed().events
    commits = {event for event in events if "commit of" in event}
    steps = {event.split(" of ", 1)[1].split("#")[0] for event in commits}
    assert {"plan", "champion", "propose tpe", "gate local", "screen", "judge", "confirm", "publish", "end", "the campaign's end"} <= steps
    assert len(commits) <= SEEDS * KILLS
    assert sum(len(kill_points(seed)) for seed in range(SEEDS)) >= len(commits)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_killed_campaign_ends_as_it_would_have(seed: int, tmp_path: Path) -> None:
    expected = undisturbed()
    made = field(tmp_path, **SPEC)
    killed = [made.run(kill=point) == KILLED for point in kill_points(seed)]
    assert any(killed)
    # A process that was killed after its report had nothing left to continue: then another campaign would begin.
    if made.unfinished or not (tmp_path / "out.json").exists():
        assert made.run() == 0
    assert made.summary() == expected.summary
    assert without_time(made.experiments()) == without_time(expected.experiments)
    assert made.summary()["evaluations"] == len(made.experiments()) <= CANDIDATES
    assert made.kernel_tree() == expected.kernel_tree == expected.summary["winner"]["kernel_tree"]
    assert sorted(path.name for path in (made.spec / "results").iterdir()) == ["2026-11-30-formula-1.json", "2026-11-30-formula-1.png"]
    assert not list(made.spec.rglob(".*")), "a part of a file was left"
