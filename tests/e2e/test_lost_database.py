"""A bot whose state is deleted comes to a sensible place from what the forge holds, and makes nothing twice."""

from __future__ import annotations

import shutil
from collections import Counter

from factory_stand import Stand
from held_runs import held


def lose(stand: Stand) -> None:
    """The state folder goes, and the bot with it."""
    stand.kill()
    shutil.rmtree(stand.state)


def made(stand: Stand) -> Counter[str]:
    """What was opened and said, and how often."""
    marks = [
        f"{number} {line}" for number, issue in stand.repository.issues.items() for one in issue.comments for line in marks_of(one.body)
    ]
    branches = [f"pull {one.branch}" for one in stand.pulls()]
    return Counter([*marks, *branches, *(f"issue {one.title}" for one in stand.issues())])


def marks_of(body: str) -> list[str]:
    return [line for line in body.splitlines() if line.startswith("<!-- kernel-factory: ")]


def test_a_state_that_is_lost_in_mid_campaign_while_a_winner_waits_and_after_the_merge(stand: Stand) -> None:
    second_round = held(stand)
    stand.commit_spec(rounds=2, candidates=12, min_speedup=0.9)
    stand.start(runs=True, queue=60.0)
    stand.wait(lambda: len(stand.pulls()) > 1)
    lose(stand)
    second_round.set()
    stand.start()
    pull = stand.waiting()
    head, experiments = pull.head, stand.said().count(" full ")
    assert experiments > 1, "without its notebook the campaign is played again"
    lose(stand)
    writes = len(stand.writes())
    stand.start()
    stand.wait(lambda: stand.campaigns() and stand.campaigns()[0]["pull"])
    assert pull.head == head, "the winner waits as it was"
    assert [write.path for write in stand.writes()[writes:] if write.method in ("POST", "PUT") and "access_tokens" not in write.path] == []
    stand.approve(pull.number)
    (told,) = stand.ended()
    assert (told["summary"]["winner"]["sha"], told["summary"]["approved_by"]) == (head, "ada"), told["summary"]["reason"]
    assert " full " not in stand.said(), "nothing was judged again"
    assert stand.tree() == told["summary"]["winner"]["kernel_tree"]
    assert not stand.pulls("open")
    assert max(made(stand).values()) == 1, made(stand)

    shutil.rmtree(stand.state)
    writes = len(stand.writes())
    assert stand.run(until=0) == []
    assert [write.path for write in stand.writes()[writes:] if "access_tokens" not in write.path] == []
