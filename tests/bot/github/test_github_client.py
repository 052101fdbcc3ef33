"""The client against the local forge: each call may be repeated, and what is there already is not made again."""

from __future__ import annotations

import pytest
from github_place import NAME, Place

from bot.forge.model import Check
from bot.github.checks import CHECK
from bot.github.client import MAX_BODY, bounded, marked
from bot.hosting import Annotation
from runner.errors import FactoryError


def test_branches_and_pull_requests(place: Place) -> None:
    branch = place.repository.default_branch()
    assert (branch.name, branch.sha) == ("main", place.main)
    assert place.repository.head("nothing") is None
    number, head = place.pull()
    assert place.repository.head("x") == head
    assert place.repository.open_pull_request("x", "Other", "Other").number == number
    assert place.made("POST", "/pulls") == 1
    pull = place.repository.pull_request(number)
    assert (pull.state, pull.branch, pull.head, pull.author, pull.fork) == ("open", "x", head, place.forge.app.login, False)
    place.repository.edit_pull_request(number, "New", "Text")
    place.repository.edit_pull_request(number, "New", "Text")
    assert place.made("PATCH", f"/pulls/{number}") == 1
    place.repository.close(number)
    place.repository.close(number)
    assert place.made("PATCH", f"/pulls/{number}") == 2
    assert [one.state for one in place.repository.pull_requests("all")] == ["closed"]
    assert place.repository.pull_requests() == []


def test_one_comment_is_kept_and_extras_go(place: Place) -> None:
    number, _ = place.pull()
    place.person("eve").get_issue(number).create_comment(marked("forged", "result"))
    place.repository.kept_comment(number, "result", "one")
    bot = place.access.github().get_repo(NAME)
    bot.get_issue(number).create_comment(marked("made by a race", "result"))
    place.repository.kept_comment(number, "result", "two")
    place.repository.kept_comment(number, "result", "two")
    comments = [(one.user.login, one.body) for one in place.person("ada").get_issue(number).get_comments()]
    assert comments == [("eve", marked("forged", "result")), (place.forge.app.login, marked("two", "result"))]
    assert place.made("POST", f"/issues/{number}/comments") == 3


def test_one_issue_is_kept(place: Place) -> None:
    number = place.repository.kept_issue("campaign c", "Campaign c", "round 1")
    assert place.repository.kept_issue("campaign c", "Campaign c", "round 2") == number
    assert place.repository.kept_issue("campaign d", "Campaign d", "round 1") != number
    assert place.person("ada").get_issue(number).body == marked("round 2", "campaign c")


def test_a_check_is_made_once_and_kept_current(place: Place) -> None:
    notes = [Annotation("a.txt", 1 + at, 1, f"fault {at}") for at in range(60)]
    for _ in range(2):
        place.repository.check(place.main, "c/1", "completed", "failure", "60 faults", "Summary", notes)
    run = next(iter(place.person("ada").get_commit(place.main).get_check_runs()))
    assert (run.external_id, run.conclusion, run.output.annotations_count) == ("c/1", "failure", 60)
    place.repository.check(place.main, "c/1", "completed", "success", "valid", "Summary")
    assert place.made("POST", "/check-runs") == 1
    assert [one.conclusion for one in place.person("ada").get_commit(place.main).get_check_runs()] == ["success"]


def test_another_apps_check_of_the_same_name_is_left_alone(place: Place) -> None:
    checks = place.forge.state(NAME).checks
    checks.append(
        Check(place.forge.forge.next_id(), place.main, CHECK, "c/1", 99, status="completed", conclusion="success", title="theirs")
    )
    place.repository.check(place.main, "c/1", "completed", "failure", "ours", "Summary")
    assert [(one.app_id, one.conclusion, one.title) for one in checks] == [
        (99, "success", "theirs"),
        (place.forge.app.app_id, "failure", "ours"),
    ]


def test_a_personal_token_sets_statuses(place: Place) -> None:
    ada = place.as_person("ada")
    for _ in range(2):
        ada.check(place.main, "c/1", "completed", "failure", "slower", "Summary")
    assert place.made("POST", f"/statuses/{place.main}") == 1
    assert place.made("POST", "/check-runs") == 0
    ada.check(place.main, "c/1", "completed", "success", "accepted", "Summary")
    assert [one.state for one in place.forge.state(NAME).statuses] == ["failure", "success"]


def test_only_reviews_of_people_who_may_write_count(place: Place) -> None:
    number, head = place.pull()
    place.person("eve").get_pull(number).create_review(body="nice", event="APPROVE")
    place.person("ada").get_pull(number).create_review(body="good", event="APPROVE")
    assert [(one.author, one.state, one.commit, one.counts) for one in place.repository.reviews(number)] == [
        ("eve", "APPROVED", head, False),
        ("ada", "APPROVED", head, True),
    ]


def test_a_review_is_asked_for_once(place: Place) -> None:
    number, _ = place.pull()
    place.repository.request_review(number)
    place.repository.request_review(number)
    assert place.made("POST", f"/pulls/{number}/requested_reviewers") == 1
    people, _ = place.person("ada").get_pull(number).get_review_requests()
    assert [one.login for one in people] == ["ada"]


def test_text_is_bounded_and_a_marker_stays_hidden() -> None:
    assert bounded("short") == "short"
    assert len(bounded("x" * 100_000)) == MAX_BODY
    long = marked("x" * 100_000, "result")
    assert len(long) == MAX_BODY
    assert long.endswith("<!-- kernel-factory: result -->")
    for bad in ("a-->b", "a>b", "--"):
        with pytest.raises(FactoryError, match="can't be a marker"):
            marked("text", bad)
