"""What is asked of a campaign on a forge that misbehaves: how it is begun, what it meets, and what must be true at its end."""

from __future__ import annotations

import re
import sys
import urllib.request
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factory_stand import KERNEL, Stand

sys.path.insert(0, str(Path(__file__).parents[1] / "bot" / "forge"))

from description import Listener

# A small campaign: one round, one lineage or two, and a winner.
SMALL = {"rounds": 1, "candidates": 6, "min_speedup": 0.9}
QUICK = {"plots": False, "again": 0.1, "reconcile": 0.5, "look": 0.2}
ALWAYS = 1_000_000
MARKER = re.compile(r"<!-- kernel-factory: (.*?) -->")


@dataclass(frozen=True)
class Fault:
    """A misbehaviour `count` times, where `path` and `method` fit, `after` so many occasions (`bot.forge.faults.Faults.add`)."""

    kind: str
    path: str = ""
    method: str = ""
    count: int = 1
    seconds: float = 0.3
    after: int = 0

    def begin(self, stand: Stand) -> None:
        stand.forge.misbehave(self.kind, self.count, path=self.path, method=self.method, seconds=self.seconds, after=self.after)


def campaign(stand: Stand, faults: Sequence[Fault], **asked: Any) -> dict[str, Any]:
    """A campaign without people that meets all of these, each once it comes by; its summary."""
    listener = listening(stand)
    stand.commit_spec(approval="none", **SMALL)
    for fault in faults:
        fault.begin(stand)
    (campaign,) = stand.run(**QUICK | asked)
    lasting = {one.kind for one in faults if one.count == ALWAYS}
    assert [left for left in stand.forge.misbehaviours_left if left.split()[0] not in lasting] == []
    return well(stand, campaign["summary"], listener)


def listening(stand: Stand) -> Listener:
    """Hear what the bot asks, from now on."""
    listener = Listener(stand.bot)
    stand.forge.listen(listener)
    return listener


def ready(stand: Stand) -> None:
    """Wait until the bot can be reached."""

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{stand.port}/healthz", timeout=10):
                return True
        except OSError:
            return False

    stand.wait(answers)


def well(stand: Stand, summary: dict[str, Any], listener: Listener) -> dict[str, Any]:
    """What is true at every campaign's end, whatever it met: the judged kernel is merged, nothing else is, nothing was made twice."""
    assert summary["status"] == "accepted", summary["reason"]
    assert summary["merged"] is not None
    assert stand.tree(KERNEL) == summary["merged_kernel_tree"] == summary["winner"]["kernel_tree"]
    (pull,) = [one for one in stand.pulls() if one.merged]
    assert (pull.number, pull.head, pull.merge_commit) == (summary["winner"]["number"], summary["winner"]["sha"], summary["merged"])
    assert len(stand.writes("PUT", "/merge")) == 1
    assert stand.pulls("open") == []
    assert [one.state for one in stand.issues()] == ["closed"]
    assert all(one.author.login == stand.bot for one in stand.issues())
    once(stand)
    assert listener.wrong == []
    return summary


def once(stand: Stand) -> None:
    """Nothing of the bot's is there twice."""
    branches = Counter(one.branch for one in stand.pulls())
    comments = Counter((one.number, *MARKER.findall(one.body)) for number in stand.repository.issues for one in own(stand, number))
    checks = Counter((one.sha, one.external_id) for one in stand.repository.checks if one.app_id == stand.forge.app.app_id)
    issues = Counter(tuple(MARKER.findall(one.body)) for one in stand.issues())
    for made in (branches, comments, checks, issues):
        assert {thing: number for thing, number in made.items() if number > 1} == {}


def own(stand: Stand, number: int) -> list[Any]:
    """The bot's comments on a pull request."""
    return [one for one in stand.comments(number) if one.author.login == stand.bot]


def told(stand: Stand, number: int, words: str) -> bool:
    """Whether the bot says this in a pull request."""
    return any(words in one.body for one in own(stand, number))


def reviewed(stand: Stand, summary: dict[str, Any]) -> None:
    """What was merged is exactly what a person approved."""
    pull = stand.pull(summary["winner"]["number"])
    assert pull.head in {one.commit for one in pull.reviews if one.state == "APPROVED"}
    assert stand.bare.commit(summary["merged"]).parents[1] == pull.head
    assert summary["approved_by"] in {one.author.login for one in pull.reviews}
