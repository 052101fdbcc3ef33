"""The client while the forge misbehaves: nothing is made twice, nothing unjudged is merged, and what passes is waited for."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from github_place import NAME, Place

from bot.forge.model import Account, Artifact, Run
from bot.forge.web import Exchange
from bot.github.asking import ANNOUNCED_SECONDS, LIMIT_SECONDS_MAX
from bot.hosting import TryLater
from runner.errors import FactoryError


@pytest.mark.parametrize("kind", ["error_after", "server_error"])
def test_nothing_is_made_twice_when_an_answer_is_lost(place: Place, kind: str) -> None:
    head = place.branch()
    place.forge.misbehave(kind, method="POST", path="/pulls$")
    number = place.repository.open_pull_request("x", "Title", "Body").number
    place.forge.misbehave(kind, method="POST", path="/comments$")
    place.repository.kept_comment(number, "result", "text")
    place.forge.misbehave(kind, method="POST", path="/check-runs$")
    place.repository.check(head, "c/1", "completed", "success", "accepted", "Summary")
    place.forge.misbehave(kind, method="POST", path="/issues$")
    place.repository.kept_issue("campaign c", "Campaign c", "text")
    assert place.forge.misbehaviours_left == []
    ada = place.person("ada")
    assert ada.get_pulls(state="all").totalCount == 1
    assert ada.get_issue(number).get_comments().totalCount == 1
    assert ada.get_commit(head).get_check_runs().totalCount == 1
    assert sum(one.pull_request is None for one in ada.get_issues(state="all")) == 1


@pytest.mark.parametrize("kind", ["expired_token", "revoke_tokens"])
def test_a_token_that_died_is_renewed(place: Place, kind: str) -> None:
    assert place.repository.default_branch().sha == place.main
    place.forge.misbehave(kind)
    assert place.repository.default_branch().sha == place.main
    number, _ = place.pull()
    place.forge.misbehave(kind)
    place.repository.kept_comment(number, "result", "text")
    assert place.made("POST", f"/issues/{number}/comments") == 1
    assert place.forge.misbehaviours_left == []


def test_a_404_just_after_creation_is_not_believed_at_once(place: Place) -> None:
    number, head = place.pull()
    place.forge.misbehave("not_found", 2, path=f"/pulls/{number}$")
    assert place.repository.pull_request(number).head == head
    assert place.waits == list(ANNOUNCED_SECONDS[:2])
    with pytest.raises(FactoryError, match="404"):
        place.repository.pull_request(999)


def test_a_secondary_rate_limit_is_waited_for_as_long_as_it_says(place: Place) -> None:
    number, _ = place.pull()
    place.forge.misbehave("secondary_limit", 2, seconds=7, method="POST")
    place.repository.kept_comment(number, "result", "text")
    assert place.waits == [7, 7]
    assert place.person("ada").get_issue(number).get_comments().totalCount == 1


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_primary_rate_limit_is_waited_for_until_it_is_reset(place: Place, method: str) -> None:
    number, _ = place.pull()
    place.forge.misbehave("primary_limit", seconds=90, method=method)
    place.repository.kept_comment(number, "result", "text")
    assert [round(wait / 10) for wait in place.waits] == [9]
    assert place.made("POST", f"/issues/{number}/comments") == (2 if method == "POST" else 1)


@pytest.mark.parametrize(("kind", "seconds"), [("secondary_limit", 600), ("primary_limit", 1800)])
def test_a_long_rate_limit_is_left_to_the_caller_and_nothing_is_asked_meanwhile(place: Place, kind: str, seconds: float) -> None:
    number, _ = place.pull()
    place.forge.misbehave(kind, seconds=seconds, method="POST")
    asked: list[Exchange] = []
    place.forge.listen(asked.append)
    with pytest.raises(TryLater, match="a rate limit lasts") as error:
        place.repository.kept_comment(number, "result", "text")
    assert error.value.seconds == pytest.approx(seconds, abs=3)
    before = len(asked)
    with pytest.raises(TryLater):
        place.repository.pull_request(number)
    assert (len(asked), place.waits) == (before, [])
    place.pause(seconds + 3)
    place.repository.kept_comment(number, "result", "text")
    assert place.person("ada").get_issue(number).get_comments().totalCount == 1


def test_no_limit_is_believed_beyond_an_hour(place: Place) -> None:
    number, _ = place.pull()
    place.forge.misbehave("secondary_limit", seconds=10**6, method="POST")
    with pytest.raises(TryLater) as error:
        place.repository.kept_comment(number, "result", "text")
    assert error.value.seconds == LIMIT_SECONDS_MAX


def test_what_may_pass_is_tried_again_until_it_merges(place: Place) -> None:
    number, head = place.pull()
    place.forge.misbehave("mergeable_unknown", 2)
    place.forge.misbehave("base_modified")
    assert place.repository.merge(number, head, "Title", "Text").merged
    assert place.waits
    assert place.repository.merge(number, head, "Title", "Text").merged
    pull = place.repository.pull_request(number)
    assert (pull.merged, pull.merged_by) == (True, place.forge.app.login)


def test_a_merge_whose_answer_was_lost_is_found(place: Place) -> None:
    number, head = place.pull()
    place.forge.misbehave("error_after", method="PUT", path="/merge$")
    assert place.repository.merge(number, head, "Title", "Text").merged
    assert place.made("PUT", f"/pulls/{number}/merge") == 1


@pytest.mark.parametrize("kind", ["base_modified", "mergeable_unknown"])
def test_patience_with_a_merge_has_an_end(place: Place, kind: str) -> None:
    number, head = place.pull()
    place.forge.misbehave(kind, 1000)
    assert not place.repository.merge(number, head, "Title", "Text").merged
    assert not place.repository.pull_request(number).merged


@pytest.mark.parametrize("kind", ["head_moved", "blocked"])
def test_other_refusals_of_a_merge_are_final(place: Place, kind: str) -> None:
    number, head = place.pull()
    place.forge.misbehave(kind)
    assert not place.repository.merge(number, head, "Title", "Text").merged
    assert place.made("PUT", f"/pulls/{number}/merge") == 1
    assert not place.repository.pull_request(number).merged


def test_only_the_tested_head_is_merged(place: Place) -> None:
    number, head = place.pull()
    moved = place.branch(text=b"three\n")
    merge = place.repository.merge(number, head, "Title", "Text")
    assert (merge.merged, moved in merge.message) == (False, True)
    assert place.made("PUT", f"/pulls/{number}/merge") == 0


def keep(place: Place, folder: Path, data: bytes, *, digest: str | None = None, expired: bool = False) -> int:
    """A finished run that kept one artifact."""
    path = folder / "result.zip"
    path.write_bytes(data)
    told = hashlib.sha256(data).hexdigest() if digest is None else digest
    state = place.forge.state(NAME)
    number: int = place.forge.forge.next_id()
    actor: Account = place.forge.forge.bot
    run = Run(number, 1, "evaluate.yml", "main", place.main, actor, {}, "evaluate", status="completed", conclusion="success")
    run.artifacts.append(Artifact(place.forge.forge.next_id(), "result", path, told, expired))
    state.runs[number] = run
    return number


def test_an_artifact_is_taken_as_it_was_kept(place: Place, tmp_path: Path) -> None:
    run = keep(place, tmp_path, b"zip")
    assert place.repository.artifact(run, "result", 100) == b"zip"
    assert place.repository.run(run).head_sha == place.main
    for name, most, why in (("other", 100, "kept no artifact"), ("result", 2, "are allowed")):
        with pytest.raises(FactoryError, match=why):
            place.repository.artifact(run, name, most)


def test_an_expired_or_changed_artifact_is_refused(place: Place, tmp_path: Path) -> None:
    with pytest.raises(FactoryError, match="has expired"):
        place.repository.artifact(keep(place, tmp_path, b"zip", expired=True), "result", 100)
    with pytest.raises(FactoryError, match="digest differs"):
        place.repository.artifact(keep(place, tmp_path, b"zip", digest="0" * 64), "result", 100)
    with pytest.raises(FactoryError, match="has no digest"):
        place.repository.artifact(keep(place, tmp_path, b"zip", digest=""), "result", 100)
    place.forge.misbehave("answer_cut", path="/storage/")
    assert place.repository.artifact(keep(place, tmp_path, b"zip"), "result", 100) == b"zip"


def test_failed_deliveries_are_asked_for_again(place: Place) -> None:
    place.forge.webhook("http://127.0.0.1:9/", "secret")
    place.forge.misbehave("delivery_fails", 1, path="pull_request")
    place.pull()
    failed = [one.guid for one in place.forge.deliveries if one.status_code == 503]
    assert len(failed) == 1
    place.repository.redeliver_failed()
    assert failed[0] in [one.guid for one in place.forge.deliveries if one.redelivery]
