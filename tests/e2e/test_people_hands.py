"""What people do to a campaign's pull requests and branches: each has an outcome, told in the pull request."""

from __future__ import annotations

import pytest
from factory_stand import KERNEL, MAIN, Stand
from github import GithubException
from held_runs import held

from bot.forge.model import Pull


def said(stand: Stand, pull: Pull) -> str:
    return "\n".join(comment.body for comment in stand.comments(pull.number))


def lineage(stand: Stand, agent: str) -> Pull:
    """The newest pull request of a lineage, once there is one."""
    return stand.wait(lambda: next((one for one in reversed(stand.pulls()) if one.branch.endswith(f"/{agent}")), None))


def test_hands_on_lineages_in_mid_campaign_and_after_its_end(stand: Stand) -> None:
    second_round = held(stand)
    stand.commit_spec(rounds=2, candidates=12, min_speedup=0.9)
    stand.start(runs=True, queue=60.0)
    tpe, local = lineage(stand, "tpe"), lineage(stand, "local")
    stand.close(tpe.number)
    foreign = stand.commit({"README.md": "Mine\n"}, "Not the campaign's", branch=local.branch)
    stand.api().get_pull(local.number).edit(title="My own words")
    second_round.set()
    winner = stand.waiting()
    stand.wait(lambda: "Closed by a person" in said(stand, tpe))
    assert tpe.state == "closed"
    if winner.branch == tpe.branch:
        assert winner.number != tpe.number, "a winner gets a pull request of its own"
    assert stand.file("README.md", local.head) == b"Kernels\n"
    assert foreign[:12] in said(stand, local)
    stand.approve(winner.number)
    (told,) = stand.ended()
    assert told["summary"]["merged"], told["summary"]["reason"]
    assert stand.file("README.md") == b"Kernels\n"
    loser = local if winner.branch != local.branch else tpe
    assert not stand.pulls("open")
    assert not [ref for ref in stand.bare.refs() if ref.startswith("refs/heads/factory/")]
    assert [ref for ref in stand.bare.refs() if ref.startswith("refs/factory/")], "the attempts stay"

    # Opened again after the end, where somebody first brings its branch back; and the merge reverted.
    with pytest.raises(GithubException):
        stand.api().get_pull(loser.number).edit(state="open")
    stand.force(loser.branch, stand.commit({"kernel.txt": "x\n"}, "Back", branch="back"))
    stand.api().get_pull(loser.number).edit(state="open")
    before = {name: stand.file(name, f"{told['summary']['merged']}~1") for name in stand.files(KERNEL, f"{MAIN}~1")}
    gone = dict.fromkeys(set(stand.files(KERNEL)) - set(before))
    stand.commit({**gone, **before}, "Revert")
    writes = len(stand.pulls())
    stand.run(until=1)
    assert "has ended, so nothing more" in said(stand, loser)
    assert "was reverted: the kernel before it is back" in said(stand, winner)
    assert len(stand.pulls()) == writes
    assert len(stand.issues()) == 1


def test_a_winner_whose_branch_is_deleted_ends_its_campaign(stand: Stand) -> None:
    stand.commit_spec(rounds=1, candidates=8, min_speedup=0.9)
    stand.start()
    pull = stand.waiting()
    stand.force(pull.branch, "")
    (told,) = stand.ended()
    assert "closed" in told["summary"]["reason"]
    assert told["summary"]["merged"] is None
    assert not stand.pulls("open")
    assert "closed by" in stand.issues()[0].body
