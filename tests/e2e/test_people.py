"""People's own kernels: refused with a reproduction or at the line, or the campaign's winner; and what they push over a winner's."""

from __future__ import annotations

from pathlib import Path

from factory_stand import KERNEL, MAIN, SPEC, Stand
from formula import KNOBS

from bot.forge.bare import Bare
from bot.forge.model import Check
from bot.github.git import Clone

BEST = {"a": 6, "b": 7}


def kernel(a: int, b: int) -> dict[str, str]:
    """The formula's kernel at one point."""
    return {f"{KERNEL}/launch.yaml": KNOBS.replace("launches:", f'table: [{{when: "true", a: {a}, b: {b}}}]\nlaunches:')}


def enter(stand: Stand, name: str, files: dict[str, str], by: str = "ada") -> int:
    """A person's pull request."""
    stand.commit(files, f"Mine: {name}", branch=name, by=by)
    return stand.open_pull(name, f"Mine: {name}", by=by)


def check(stand: Stand, number: int, title: str) -> Check:
    """A check on a pull request's head, once it is there."""
    return stand.wait(lambda: next((one for one in stand.checks(stand.pull(number).head) if (one.title or "").startswith(title)), None))


def said(stand: Stand, number: int) -> str:
    return "\n".join(comment.body for comment in stand.comments(number))


def test_a_wrong_kernel_is_refused_and_a_faster_one_wins(stand: Stand) -> None:
    # What the agents find is never enough, so that people decide.
    stand.commit_spec(rounds=1, candidates=4, min_speedup=1.43)
    wrong = enter(stand, "wrong", kernel(0, 0))
    forbidden = enter(stand, "forbidden", {f"{KERNEL}/twice.cpp": "// forbidden\n"})
    unreadable = enter(stand, "unreadable", {f"{KERNEL}/launch.yaml": "sources: [nothing.cpp]\nlaunchs: []\n"})
    more = enter(stand, "more", {**kernel(**BEST), "README.md": "And more\n"})
    stand.start(until=2)
    incorrect = check(stand, wrong, "incorrect")
    assert incorrect.conclusion == "failure"
    command = f"kernel-runner evaluate {SPEC} --workload large --axes n=3 --seed 7 --out result.json"
    assert command in (incorrect.summary or "")
    assert command in said(stand, wrong)
    assert "`y[2]` is `nan`, expected `1.5`" in said(stand, wrong)
    policy = check(stand, forbidden, "policy_violation")
    assert [(one["path"], one["start_line"]) for one in policy.annotations] == [(f"{KERNEL}/twice.cpp", 1)]
    faults = check(stand, unreadable, "")
    assert {one["path"] for one in faults.annotations} == {f"{KERNEL}/launch.yaml"}
    assert said(stand, unreadable) == ""

    # Nothing runs any more: the next one gets a campaign of its own.
    stand.wait(lambda: [one for one in stand.campaigns() if one["ended"]])
    fast = enter(stand, "fast", kernel(**BEST))
    pull = stand.waiting()
    assert (pull.number, pull.author.login, pull.title) == (fast, "ada", "Mine: fast")
    assert "RESULTS.md" in "\n".join(stand.files(SPEC, pull.head))
    stand.review(fast, "APPROVE", by="eve")
    stand.review(fast, "APPROVE", by="bob")
    first, told = stand.ended()
    assert first["summary"]["status"] == "no_winner"
    summary = told["summary"]
    assert (summary["winner"]["number"], summary["approved_by"]) == (fast, "bob"), summary["reason"]
    assert stand.tree() == summary["winner"]["kernel_tree"] == summary["merged_kernel_tree"]
    assert [one.number for one in stand.pulls("open")] == [wrong, forbidden, unreadable, more]
    assert said(stand, more) == ""
    assert not [one for one in stand.checks(stand.pull(more).head) if not one.external_id.startswith("specs/")]
    assert "push another kernel" in said(stand, wrong)


def test_a_kernel_pushed_over_a_winner_takes_its_place_when_it_is_accepted(stand: Stand) -> None:
    stand.commit_spec(rounds=1, candidates=8, min_speedup=0.9)
    stand.start()
    pull = stand.waiting()
    judged = pull.head
    stand.commit({"README.md": "More\n"}, "And more", branch=pull.branch)
    stand.wait(lambda: "it is not judged" in said(stand, pull.number))
    # A wrong kernel is told in the pull request, and the winner's table stays.
    stand.force(pull.branch, judged)
    stand.commit(kernel(0, 0), "Mine", branch=pull.branch)
    assert check(stand, pull.number, "incorrect").conclusion == "failure"
    stand.wait(lambda: "made small" in said(stand, pull.number))
    assert "Where it comes from" in said(stand, pull.number)
    # A right one takes the winner's place, with its own evidence, and waits for an approval of its own.
    stand.commit(kernel(**BEST), "Mine, mended", branch=pull.branch)
    second = stand.wait(lambda: next((one for one in [stand.waiting(than=judged)] if one.head != judged), None))
    assert second.number == pull.number
    assert second.merged is None
    tree = stand.tree(KERNEL, second.head)
    stand.approve(second.number)  # by Ada, who pushed it: that doesn't count
    stand.wait(lambda: [one for one in stand.forge.deliveries if one.event == "pull_request_review" and one.status_code == 202])
    assert stand.campaigns()[0]["pull"]
    stand.review(second.number, "APPROVE", by="bob")
    (told,) = stand.ended()
    assert told["summary"]["merged_kernel_tree"] == tree == stand.tree()
    assert told["summary"]["approved_by"] == "bob"
    assert stand.file("README.md") == b"Kernels\n"
    assert told["summary"]["winner"]["agent"] == f"pr-{pull.number}"


def test_a_forks_kernel_wins_through_a_pull_request_of_the_bots_that_carries_its_commits(stand: Stand, tmp_path: Path) -> None:
    stand.commit_spec(rounds=1, candidates=4, min_speedup=1.43)
    fork = Clone(tmp_path / "fork", stand.forge.create_repository("eve/kernels"), lambda: stand.tokens["eve"])
    Bare(stand.forge.bare("eve/kernels")).git("fetch", "--quiet", str(stand.bare.folder), "+refs/heads/main:refs/heads/main")
    fork.fetch()
    commit = fork.commit(stand.head(), {name: text.encode() for name, text in kernel(**BEST).items()}, "Mine")
    fork.push(f"{commit}:refs/heads/mine")
    theirs = stand.api("eve").create_pull(MAIN, "eve:mine", title="Faster", body="").number
    stand.start()
    own = stand.waiting()
    assert (own.number == theirs, own.author.login) == (False, stand.bot)
    assert stand.bare.commit(own.head).parents == (commit,)
    assert {
        name for name in stand.bare.git("diff", "--name-only", commit, own.head).split() if not name.startswith(f"{SPEC}/results/")
    } == {
        f"{SPEC}/RESULTS.md",
        f"{SPEC}/lessons.md",
    }
    assert f"#{theirs} by `eve`" in own.body
    assert f"#{own.number}" in said(stand, theirs)
    stand.approve(own.number)
    (told,) = stand.ended()
    assert told["summary"]["merged_kernel_tree"] == stand.tree() == stand.tree(ref=commit)
    assert stand.bare.ancestor(commit, stand.head() or "")
    assert stand.pull(theirs).state == "closed"
    assert f"through #{own.number}" in said(stand, theirs)
    assert not stand.pulls("open")
