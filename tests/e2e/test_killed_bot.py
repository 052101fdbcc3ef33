"""`kill -9` of the bot before and after every commit and every write: started again, it ends as it would have, with nothing made twice."""

from __future__ import annotations

import functools
import random
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from factory_record import Record, differences
from factory_stand import SPEC_ID, Stand, factory_stand
from support import KILLED, dealt, without_time

from bot.evidence.experiment import Experiment
from bot.evidence.notebook import Notebook

SEEDS, KILLS = 32, 2
# So many seeds in every run of the tests; all with the whole suite.
ALWAYS = 1


@contextmanager
def person_approves(stand: Stand) -> Iterator[None]:
    """While this is entered Ada approves whatever she is asked to review."""
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.02):
            for pull in stand.pulls("open"):
                if any(one.login == "ada" for one in pull.requested):
                    stand.approve(pull.number)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@dataclass(frozen=True)
class Came:
    """What came of a campaign: as the bot tells it, as its notebook has it, as the forge holds it, and what was made there."""

    told: dict[str, Any]
    experiments: list[Experiment]
    held: dict[str, Any]
    made: Counter[str]


def campaign(stand: Stand, kills: list[str], **asked: Any) -> Came:
    """A campaign whose bot is killed at each of these events, one a process, and then runs to its end."""
    stand.commit_spec(rounds=1, candidates=8, min_speedup=0.9)
    with person_approves(stand):
        for kill in kills:
            stand.start(kill=kill, runs=True, reconcile=1.0)
            assert stand.status() in (0, KILLED), stand.said()
        (told,) = stand.run(runs=True, reconcile=1.0, **asked)
    record = Record(stand)
    with Notebook(stand.state / "notebook.sqlite") as notebook:
        experiments = without_time(notebook.experiments(SPEC_ID))
    del told["summary"]["seconds"]
    return Came(record.plain(told), experiments, record.held(), record.made())


@functools.cache
def undisturbed() -> tuple[Came, tuple[str, ...]]:
    """A campaign that nobody killed, and its events in order: but those of deliveries and the timer, which come when they come."""
    with tempfile.TemporaryDirectory() as folder, factory_stand(Path(folder)) as stand:
        log = Path(folder) / "events"
        came = campaign(stand, [], log=str(log))
        return came, tuple(event for event in log.read_text().splitlines() if "'s c" not in event)


def decisive() -> list[str]:
    """The events to die at: one of each kind, then every commit of a step, then writes, pushes and tickets, as many as there is room."""
    _, events = undisturbed()
    commits = [event for event in events if "commit of" in event]
    others = [event for event in events if any(what in event for what in ("call of", "push", "save of", "record of"))]
    random.Random(2026).shuffle(others)
    kinds = {event.rpartition("#")[0]: event for event in reversed([*commits, *others])}
    return list(dict.fromkeys([*kinds.values(), *commits, *others]))[: SEEDS * KILLS]


@pytest.mark.suite
def test_the_seeds_kill_around_every_commit_and_every_kind_of_write() -> None:
    came, _ = undisturbed()
    points = decisive()
    assert came.told["summary"]["merged"]
    assert {path.rpartition("/")[2] for path in (write.split('"')[3] for write in came.made)} >= {"issues", "pulls", "comments", "merge"}
    kinds = {event.split("#")[0] for event in points}
    steps = (
        "plan",
        "start",
        "champion",
        "propose tpe",
        "gate local",
        "screen",
        "judge",
        "report",
        "confirm",
        "publish",
        "review",
        "merge",
        "end",
    )
    writes = "open_pull_request", "kept_comment", "kept_issue", "check", "request_review", "merge", "close", "dispatch"
    wanted = [*(f"commit of {step}" for step in steps), *(f"call of {write}" for write in writes), "push", "save of a batch"]
    assert {f"{when} {what}" for what in wanted for when in ("before", "after")} <= kinds
    assert SEEDS >= 30


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[] if seed < ALWAYS else pytest.mark.suite) for seed in range(SEEDS)])
def test_a_killed_bot_ends_as_it_would_have_and_makes_nothing_twice(stand: Stand, seed: int) -> None:
    expected, events = undisturbed()
    kills = dealt(events, decisive(), SEEDS, seed, KILLS)
    came = campaign(stand, kills)
    assert came.told == expected.told, kills
    assert came.experiments == expected.experiments, kills
    assert differences(came.held, expected.held) == {}, kills
    assert came.made == expected.made, kills
