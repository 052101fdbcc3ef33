"""What GitHub really does, and the forge with it: conflicts, refusals, limits, who may do what; and each misbehaviour."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
from stand import FULL_NAME, Stand, stand

from bot.forge.bare import Bare, environment
from bot.forge.faults import KINDS

BASE = f"/repos/{FULL_NAME}"
WORKFLOW = "on:\n  workflow_dispatch:\n    inputs: {commit: {type: string, required: true}}\njobs: {}\n"
DISPATCH = {"ref": "main", "inputs": {"commit": "1"}, "return_run_details": True}


class Api:
    """A client of the forge's API; without a token, as the App's installation."""

    def __init__(self, place: Stand) -> None:
        self.place = place
        self.client = httpx2.Client(base_url=place.forge.api_url, timeout=30)
        self.bot = place.forge.forge.installation_token()[0]

    def __call__(self, method: str, path: str, body: Any = None, *, token: str | None = None) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {token or self.bot}"}
        return self.client.request(method, BASE + path if not path.startswith("/app") else path, json=body, headers=headers)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stand]:
    with stand(tmp_path) as made:
        made.commit("main", {"a.txt": "one\n", ".github/workflows/evaluate.yml": WORKFLOW})
        yield made


@pytest.fixture
def api(place: Stand) -> Iterator[Api]:
    made = Api(place)
    with made.client:
        yield made


def opened(place: Stand, api: Api, branch: str = "x", text: str = "two\n") -> tuple[int, str]:
    """A pull request by the bot; its number and head."""
    head = place.commit(branch, {"a.txt": text}, parent="main")
    answer = api("POST", "/pulls", {"title": "T", "body": "B", "head": branch, "base": "main"})
    assert answer.status_code == 201, answer.text
    return answer.json()["number"], head


def test_mergeable_is_not_known_at_first_and_again_after_a_push(place: Stand, api: Api) -> None:
    number, _ = opened(place, api)
    assert [api("GET", f"/pulls/{number}").json()["mergeable"] for _ in range(3)] == [None, True, True]
    place.commit("x", {"a.txt": "three\n"})
    assert [api("GET", f"/pulls/{number}").json()["mergeable"] for _ in range(2)] == [None, True]


def test_a_merge_takes_exactly_the_head_it_names(place: Stand, api: Api) -> None:
    number, old = opened(place, api)
    head = place.commit("x", {"a.txt": "three\n"})
    assert api("PUT", f"/pulls/{number}/merge", {"sha": old}).status_code == 409
    answer = api("PUT", f"/pulls/{number}/merge", {"sha": head})
    assert answer.json()["merged"]
    assert Bare(place.repository.folder).commit(answer.json()["sha"]).parents[1] == head
    assert api("GET", f"/pulls/{number}").json()["merged_by"]["login"] == place.forge.app.login
    assert api("PUT", f"/pulls/{number}/merge", {"sha": head}).status_code == 405


def test_a_conflict_is_not_merged(place: Stand, api: Api) -> None:
    number, head = opened(place, api)
    place.commit("main", {"a.txt": "another\n"})
    assert [api("GET", f"/pulls/{number}").json()["mergeable"] for _ in range(2)] == [None, False]
    answer = api("PUT", f"/pulls/{number}/merge", {"sha": head})
    assert (answer.status_code, answer.json()["message"]) == (405, "Pull Request is not mergeable")


def test_a_second_pull_request_of_a_branch_and_ones_own_approval_are_refused(place: Stand, api: Api) -> None:
    number, head = opened(place, api)
    again = api("POST", "/pulls", {"title": "T", "head": "x", "base": "main"})
    assert (again.status_code, "already exists" in again.text) == (422, True)
    assert api("POST", f"/pulls/{number}/reviews", {"event": "APPROVE"}).status_code == 422
    approved = api("POST", f"/pulls/{number}/reviews", {"event": "APPROVE"}, token=place.token).json()
    assert (approved["state"], approved["commit_id"]) == ("APPROVED", head)


def test_texts_have_limits(place: Stand, api: Api) -> None:
    number, head = opened(place, api)
    long = "x" * 65_537
    for method, path, body in (
        ("POST", f"/issues/{number}/comments", {"body": long}),
        ("POST", "/issues", {"title": "T", "body": long}),
        ("PATCH", f"/pulls/{number}", {"body": long}),
        ("POST", "/check-runs", {"name": "v", "head_sha": head, "output": {"title": "t", "summary": long}}),
    ):
        assert api(method, path, body).status_code == 422, path
    assert api("POST", f"/issues/{number}/comments", {"body": long[1:]}).status_code == 201


def test_check_runs_are_for_apps(place: Stand, api: Api) -> None:
    _, head = opened(place, api)
    asked = {"name": "v", "head_sha": head, "status": "completed", "conclusion": "success"}
    assert api("POST", "/check-runs", asked, token=place.token).status_code == 403
    assert api("POST", "/check-runs", asked).status_code == 201
    assert api("POST", "/check-runs", {**asked, "output": {"title": "", "summary": "", "annotations": [{}] * 51}}).status_code == 422


def test_who_may_not_write(place: Stand, api: Api) -> None:
    number, head = opened(place, api)
    guest = place.forge.add_user("guest", write=False)
    assert api("PUT", f"/pulls/{number}/merge", {"sha": head}, token=guest).status_code == 403
    assert api("GET", "/pulls", token="nobody's").status_code == 401
    done = subprocess.run(
        ["git", "push", place.address(guest), "HEAD:refs/heads/y"], cwd=place.work, env=environment(), capture_output=True, check=False
    )
    assert done.returncode != 0
    assert Bare(place.repository.folder).head("y") is None
    assert api("GET", "/collaborators/guest/permission").json()["permission"] == "read"


def test_the_app_proves_itself_with_its_key(place: Stand, api: Api) -> None:
    def ask(**changed: Any) -> int:
        claims = {"iat": int(time.time()), "exp": int(time.time()) + 300, "iss": str(place.forge.app.app_id), **changed}
        token = jwt.encode(claims, place.forge.app.private_key, "RS256")
        return api("POST", f"/app/installations/{place.forge.app.installation_id}/access_tokens", token=token).status_code

    assert [ask(), ask(exp=int(time.time()) - 300), ask(exp=int(time.time()) + 3600), ask(iss="1")] == [201, 401, 401, 404]


def test_a_push_moves_the_head_and_says_so_and_a_deleted_branch_closes(place: Stand, api: Api) -> None:
    number, old = opened(place, api)
    head = place.commit("x", {"a.txt": "three\n"})
    told = next(one for one in place.forge.deliveries if one.action == "synchronize").payload
    assert (told["before"], told["after"], told["pull_request"]["head"]["sha"]) == (old, head, head)
    assert Bare(place.repository.folder).refs("refs/pull")[f"refs/pull/{number}/head"] == head
    assert api("DELETE", "/git/refs/heads/x").status_code == 204
    assert api("GET", f"/pulls/{number}").json()["state"] == "closed"


def test_lists_come_in_pages(place: Stand, api: Api) -> None:
    for index in range(3):
        api("POST", "/issues", {"title": str(index)})
    first = api("GET", "/issues?per_page=2")
    second = api.client.get(first.links["next"]["url"], headers={"Authorization": f"Bearer {api.bot}"})
    assert [one["title"] for one in [*first.json(), *second.json()]] == ["2", "1", "0"]


def test_every_write_is_kept(place: Stand, api: Api) -> None:
    number, _ = opened(place, api)
    api("POST", f"/issues/{number}/comments", {"body": "hello"})
    write = place.forge.writes[-1]
    assert (write.method, write.body, write.actor, write.status) == ("POST", {"body": "hello"}, place.forge.app.login, 201)


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [("drop", []), ("duplicate", ["push", "push"]), ("delivery_fails", []), ("delay", ["push"])],
)
def test_deliveries_that_go_wrong(place: Stand, kind: str, wanted: list[str]) -> None:
    place.wait(lambda: len(place.received) == 1)
    place.received.clear()
    place.forge.misbehave(kind, seconds=0.2)
    place.commit("main", {"a.txt": "two\n"})
    place.forge.misbehave("drop", path="^never$")
    place.commit("z", {"a.txt": "last\n"})
    place.wait(lambda: len(place.received) == len(wanted) + 1)
    assert len({guid for guid, _ in place.received}) == (1 if not wanted else 2)


def test_deliveries_out_of_order(place: Stand) -> None:
    place.wait(lambda: len(place.received) == 1)
    place.forge.misbehave("reorder")
    place.commit("y", {"a.txt": "two\n"})
    place.commit("z", {"a.txt": "three\n"})
    place.wait(lambda: len(place.received) == 3)
    order = [guid for guid, _ in place.received]
    made = [one.guid for one in place.forge.deliveries]
    assert [order.index(guid) for guid in made] == [0, 2, 1]


def test_a_delivery_is_sent_again_under_its_guid(place: Stand) -> None:
    place.wait(lambda: len(place.received) == 1)
    place.forge.misbehave("delivery_fails")
    place.commit("y", {"a.txt": "two\n"})
    lost = place.forge.deliveries[-1]
    assert lost.status_code == 503
    place.forge.forge.hooks.redeliver(lost.id)
    place.wait(lambda: len(place.received) == 2)
    assert place.received[-1][0] == lost.guid


@pytest.mark.parametrize(
    ("kind", "status"),
    [("not_found", 404), ("primary_limit", 403), ("server_error", 502), ("expired_token", 401), ("revoke_tokens", 401)],
)
def test_a_read_that_goes_wrong_once(place: Stand, api: Api, kind: str, status: int) -> None:
    place.forge.misbehave(kind)
    answers = [api("GET", "/pulls", token=api.bot).status_code, api("GET", "/pulls", token=place.token).status_code]
    assert answers == [status, 200]
    assert place.forge.misbehaviours_left == []


def test_a_write_that_is_limited_or_done_and_denied(place: Stand, api: Api) -> None:
    place.forge.misbehave("secondary_limit")
    limited = api("POST", "/issues", {"title": "T"})
    assert (limited.status_code, limited.headers["Retry-After"], place.repository.issues) == (403, "1", {})
    place.forge.misbehave("error_after")
    assert api("POST", "/issues", {"title": "T"}).status_code == 502
    assert len(place.repository.issues) == 1


@pytest.mark.parametrize(("kind", "status"), [("base_modified", 405), ("blocked", 405), ("head_moved", 409)])
def test_a_merge_that_is_refused_once(place: Stand, api: Api, kind: str, status: int) -> None:
    number, head = opened(place, api)
    place.forge.misbehave(kind)
    assert [api("PUT", f"/pulls/{number}/merge", {"sha": head}).status_code for _ in range(2)] == [status, 200]


def test_mergeability_that_stays_unknown(place: Stand, api: Api) -> None:
    number, _ = opened(place, api)
    api("GET", f"/pulls/{number}")
    place.forge.misbehave("mergeable_unknown", 2)
    assert [api("GET", f"/pulls/{number}").json()["mergeable"] for _ in range(3)] == [None, None, True]


def test_a_dispatch_needs_the_inputs_that_the_workflow_names(place: Stand, api: Api) -> None:
    path = "/actions/workflows/evaluate.yml/dispatches"
    answers = [api("POST", path, {"ref": "main", "inputs": given}) for given in ({}, {"commit": "1", "other": "2"})]
    assert [one.status_code for one in answers] == [422, 422]
    assert api("POST", "/actions/workflows/other.yml/dispatches", DISPATCH).status_code == 404


@pytest.mark.parametrize(("kind", "conclusion"), [("run_queued", "cancelled"), ("run_hangs", "cancelled"), ("run_fails", "failure")])
def test_a_run_that_goes_wrong(place: Stand, api: Api, kind: str, conclusion: str) -> None:
    place.forge.misbehave(kind)
    number = api("POST", "/actions/workflows/evaluate.yml/dispatches", DISPATCH).json()["workflow_run_id"]
    run = place.repository.runs[number]
    if conclusion == "cancelled":
        place.wait(lambda: run.status == ("queued" if kind == "run_queued" else "in_progress"))
        assert api("POST", f"/actions/runs/{number}/cancel").status_code == 202
    place.wait(lambda: run.status == "completed")
    assert api("GET", f"/actions/runs/{number}").json()["conclusion"] == conclusion


def test_a_dispatch_that_tells_no_run(place: Stand, api: Api) -> None:
    place.forge.misbehave("run_fails")
    place.forge.misbehave("no_run_id")
    answer = api("POST", "/actions/workflows/evaluate.yml/dispatches", DISPATCH)
    assert (answer.status_code, answer.content) == (204, b"")


def test_what_it_does_not_know_it_does_not_promise(place: Stand) -> None:
    with pytest.raises(ValueError, match="is no misbehaviour"):
        place.forge.misbehave("sing")
    assert all(KINDS.values())
