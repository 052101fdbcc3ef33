"""From a committed spec to its merge: without people, in dispatched runs, and with people who object and approve."""

from __future__ import annotations

from factory_stand import KERNEL, Stand


def test_a_committed_spec_goes_to_its_merge_by_dispatched_runs(stand: Stand) -> None:
    stand.commit_spec(approval="none")
    (told,) = stand.run(runs=True)
    summary = told["summary"]
    assert summary["status"] == "accepted", summary["reason"]
    assert summary["merged"] == stand.head()
    assert stand.tree(KERNEL) == summary["merged_kernel_tree"] == summary["winner"]["kernel_tree"]
    assert {pull["agent"] for pull in summary["pull_requests"]} == {"tpe", "local"}
    assert not stand.pulls("open")
    (check,) = [one for one in stand.checks(summary["winner"]["sha"]) if not one.external_id.startswith("specs/")]
    assert check.conclusion == "success"
    # Every run has its request's name, and there is none for the same one twice.
    titles = [run.title for run in stand.repository.runs.values()]
    assert len(set(titles)) == len(titles) > 2
    assert all(title.startswith("evaluate refs/factory/") for title in titles)


def test_only_an_approval_of_the_judged_head_by_somebody_who_may_merges_it(stand: Stand) -> None:
    stand.commit_spec(rounds=1, candidates=8, min_speedup=0.9)
    stand.start()
    first = stand.waiting()
    head = first.head
    stand.review(first.number, "APPROVE", by="eve")
    stand.request_changes(first.number, "Too many knobs @everyone, closes #1")
    second = stand.waiting(than=head)
    assert stand.tree(KERNEL, second.head) != stand.tree(KERNEL, head)
    # Of the earlier head: it says nothing of this one.
    if head in stand.bare.git("rev-list", second.head):
        stand.review(second.number, "APPROVE", by="bob", commit=head)
    approved = second.head
    stand.approve(second.number)
    (told,) = stand.ended()
    assert (told["summary"]["approved_by"], told["summary"]["winner"]["sha"]) == ("ada", approved)
    assert stand.tree(KERNEL) == stand.tree(KERNEL, approved)
    assert not stand.pulls("open")
