"""A whole campaign on a forge that misbehaves, each kind for itself: it ends merged, nothing is made twice, nothing unreviewed is merged.

The numbers in a test's words are the rows of the list of what users of bots reported to have gone wrong between a bot and GitHub.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet
from factory_stand import NAME, Stand
from misbehaviours import ALWAYS, QUICK, SMALL, Fault, campaign, listening, ready, reviewed, told, well

from bot.forge.faults import KINDS
from bot.github.checks import CHECK

# What a delivery meets on its way, and the refusals that the bot answers then.
DELIVERIES: dict[str, set[int]] = {
    "duplicate": set(),
    "drop": set(),
    "delay": set(),
    "reorder": set(),
    "delivery_fails": set(),
    "replayed": set(),
    "forged": {401},
    # 0: the connection ended while the forge was still sending.
    "oversized": {413, 0},
}

BRANCH = "/git/ref/heads/factory"
PULLS, PULL, COMMENTS, CHECKS, ISSUES, MERGE = "/pulls$", r"/pulls/\d+$", "/comments$", "/check-runs$", "/issues$", "/merge$"
FETCH, PUSH = "git-upload-pack", "git-receive-pack"
WRITES = ((PULLS, "POST"), (COMMENTS, "POST"), (CHECKS, "POST"), (ISSUES, "POST"), (MERGE, "PUT"))

# Where each misbehaviour of a request or a merge hurts, by the rows that it shows.
REQUESTS: dict[str, tuple[Fault, ...]] = {
    # 10: what was just made, pushed or announced is not there yet.
    "not_found": tuple(Fault("not_found", path) for path in (BRANCH, PULL, r"/issues/\d+/comments", "/check-runs")),
    # 12: content is made too fast.
    "secondary_limit": tuple(Fault("secondary_limit", path, method, seconds=1) for path, method in WRITES),
    "primary_limit": (*(Fault("primary_limit", path, method) for path, method in WRITES), Fault("primary_limit", PULL, "GET")),
    # 20: nobody knows whether it was done.
    "server_error": (*(Fault("server_error", path, method) for path, method in (*WRITES, ("", "GET"), (PUSH, "POST"), (FETCH, "POST"))),),
    "error_after": (*(Fault("error_after", path, method) for path, method in (*WRITES, (PUSH, "POST"))),),
    "answer_cut": (*(Fault("answer_cut", path, method) for path, method in (*WRITES, (r"/pulls\?", "GET"), (FETCH, "POST"))),),
    # 18: the token dies at any time, between two pages of a list too.
    "expired_token": (
        *(Fault("expired_token", path, method) for path, method in (*WRITES, (PULL, "GET"), (PUSH, "POST"), (FETCH, "GET"))),
    ),
    "revoke_tokens": (Fault("short_pages", count=ALWAYS), Fault("revoke_tokens", "[?&]page=2"), Fault("revoke_tokens", FETCH)),
    "short_pages": (Fault("short_pages", count=ALWAYS),),
    # 20: somebody else was faster.
    "exists_after": (Fault("exists_after"),),
    # 13: the comment is there twice, or somebody else's looks like it.
    "doubled_comment": (Fault("doubled_comment", count=2),),
    "imitated_comment": (Fault("imitated_comment", count=2),),
    # 16: another App's check of the same name.
    "foreign_check": (Fault("foreign_check", count=3),),
    "push_refused": (Fault("push_refused", count=2),),
    # 5: what may pass is tried again; other refusals are final for the attempt, told, and looked at again later.
    "base_modified": (Fault("base_modified", count=2),),
    "base_pushed": (Fault("base_pushed"),),
    "blocked": (Fault("blocked"),),
    # 3: the head is said to have moved.
    "head_moved": (Fault("head_moved"),),
    # 11: GitHub can't say yet whether it can be merged, for longer than one attempt is patient.
    "mergeable_unknown": (Fault("mergeable_unknown", count=9),),
}

# 24, 19, 14, 20: runs that come to nothing, each the first of another batch of the campaign: lost with its reason, and tried again.
FIRST_TRY, DISPATCH = "-1$", "/dispatches$"
RUNS = {
    "runs": [Fault(kind, FIRST_TRY, after=at) for at, kind in enumerate(("run_fails", "run_skipped", "run_foreign", "run_again"))],
    "found": [
        Fault("no_run_id", FIRST_TRY),
        Fault("run_unlisted"),
        Fault("run_deleted", FIRST_TRY, after=1),
        Fault("error_after", DISPATCH, after=3),
        Fault("answer_cut", "/storage/", after=3),
    ],
    "artifacts": [
        Fault(kind, FIRST_TRY, after=at)
        for at, kind in enumerate(("artifact_missing", "artifact_expired", "artifact_large", "artifact_not_zip"))
    ],
    "contents": [
        Fault(kind, FIRST_TRY, after=at)
        for at, kind in enumerate(("artifact_digest", "artifact_foreign", "artifact_not_json", "artifact_no_digest"))
    ],
    "waiting": [Fault("run_hangs", FIRST_TRY), Fault("run_queued", FIRST_TRY, after=1)],
}
LOST = {
    "run_fails": "ended as failure",
    "run_skipped": "ended as skipped",
    "run_foreign": "its commit is",
    "run_again": "its attempt is 2",
    "run_deleted": "404",
    "run_queued": "no machine with the labels self-hosted took run",
    "run_hangs": "did not end within",
    "artifact_missing": "kept no artifact",
    "artifact_expired": "has expired",
    "artifact_large": "are allowed",
    "artifact_not_zip": "no zip file",
    "artifact_not_json": "not JSON",
    "artifact_foreign": "another request or another run",
    "artifact_digest": "its digest differs",
    "artifact_no_digest": "has no digest",
}
WITH_PEOPLE = ("head_pushed",)
# These meet a campaign in every run of the tests, the others with the whole suite.
ALWAYS_MET = ("drop", "error_after", "expired_token", "secondary_limit", "found")


def drawn(names: Iterable[str]) -> list[ParameterSet]:
    """Each as a test's parameter, in the whole suite only where it is not always met."""
    return [pytest.param(name, marks=[] if name in ALWAYS_MET else pytest.mark.suite) for name in names]


def test_every_misbehaviour_has_its_campaign() -> None:
    runs = {fault.kind for faults in RUNS.values() for fault in faults}
    assert {*DELIVERIES, *REQUESTS, *runs, *WITH_PEOPLE} == set(KINDS)
    assert {kind for kind, faults in REQUESTS.items() if kind not in {one.kind for one in faults}} == set()


@pytest.mark.parametrize("kind", drawn(DELIVERIES))
def test_deliveries_that_go_wrong(stand: Stand, kind: str) -> None:
    """6, 7, 8: the spec's push and the approval are heard, or found, and count once."""
    listener = listening(stand)
    stand.start(**QUICK)
    ready(stand)
    count = ALWAYS if kind == "drop" else 1
    Fault(kind, "^push$", count=count).begin(stand)
    stand.commit_spec(**SMALL)
    pull = stand.waiting()
    Fault(kind, "^pull_request_review$", count=count).begin(stand)
    stand.approve(pull.number)
    (campaign,) = stand.ended()
    reviewed(stand, well(stand, campaign["summary"], listener))
    spoilt = [one.status_code for one in stand.forge.deliveries if one.forged or one.oversized]
    assert bool(spoilt) == bool(DELIVERIES[kind])
    assert set(spoilt) <= DELIVERIES[kind]


@pytest.mark.parametrize("kind", drawn(REQUESTS))
def test_requests_that_go_wrong(stand: Stand, kind: str) -> None:
    """3, 5, 10, 11, 12, 13, 16, 18, 20: whatever a request meets, what it asked for is done once."""
    if kind == "foreign_check":
        # 1: the check that a rule asks for is the bot's own, made by its App.
        stand.forge.protect(NAME, CHECK, stand.forge.app.app_id)
    campaign(stand, REQUESTS[kind])


@pytest.mark.parametrize("group", drawn(RUNS))
def test_runs_that_come_to_nothing(stand: Stand, group: str) -> None:
    """14, 19, 20, 24: what a run gave counts only where it is that run's, whole and of this request; else its batch is tried again."""
    campaign(stand, RUNS[group], runs=True, queue=0.5, probe=1.0)
    said = stand.said()
    assert [fault.kind for fault in RUNS[group] if LOST.get(fault.kind, "") not in said] == []
    assert all(one.status == "completed" for one in stand.repository.runs.values())


@pytest.mark.suite
def test_a_limit_that_lasts_is_not_waited_for_within_a_step(stand: Stand) -> None:
    """12: the campaign says what it waits for, and goes on by itself."""
    listener = listening(stand)
    stand.commit_spec(approval="none", **SMALL)
    Fault("secondary_limit", PULLS, "POST", seconds=2).begin(stand)
    stand.start(**QUICK | {"patient": 0.5})
    held = stand.wait(lambda: [one["held"] for one in stand.campaigns() if one["held"]])
    assert "a rate limit lasts" in held[0]
    (campaign,) = stand.ended()
    well(stand, campaign["summary"], listener)


def test_a_head_that_is_pushed_to_in_the_moment_of_the_merge(stand: Stand) -> None:
    """3, 4: nobody reviewed the new head, so it is not merged; that is told, and the judged head, pushed back, is merged."""
    listener = listening(stand)
    stand.commit_spec(**SMALL)
    stand.start(**QUICK)
    pull = stand.waiting()
    judged = pull.head
    Fault("head_pushed").begin(stand)
    stand.approve(pull.number)
    stand.wait(lambda: told(stand, pull.number, "Approvals count for the judged head only"))
    assert (pull.head != judged, pull.merged) == (True, None)
    stand.force(pull.branch, judged)
    (campaign,) = stand.ended()
    reviewed(stand, well(stand, campaign["summary"], listener))
    assert pull.head == judged


@pytest.mark.suite
def test_a_rule_that_is_never_fulfilled(stand: Stand) -> None:
    """1, 2, 5, 15: a check that is missing is not there; what is missing is told in the pull request, and waited for."""
    listener = listening(stand)
    stand.forge.protect(NAME, "evaluate")
    stand.commit_spec(approval="none", **SMALL)
    stand.start(**QUICK)
    stand.wait(lambda: any(told(stand, one.number, "Required status check") for one in stand.pulls()))
    assert {one.merged for one in stand.pulls()} == {None}
    stand.repository.required.clear()
    (campaign,) = stand.ended()
    well(stand, campaign["summary"], listener)
