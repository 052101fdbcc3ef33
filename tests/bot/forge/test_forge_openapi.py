"""Every request that the forge takes, every answer and every webhook that it sends is valid by GitHub's own description of its API."""

from __future__ import annotations

import base64
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
from description import DATA, delivery_faults, delivery_name, exchange_faults, faults, route
from stand import FULL_NAME, Stand, stand

from bot.forge.web import Exchange

WORKFLOW = "on:\n  workflow_dispatch:\n    inputs: {commit: {type: string, required: true}}\njobs: {}\n"


class Recorder:
    """A client that validates every answer, and knows which routes it has called."""

    def __init__(self, place: Stand) -> None:
        self.place = place
        self.called: set[tuple[str, str]] = set()
        self.client = httpx2.Client(base_url=place.forge.api_url, timeout=30)
        now = int(time.time())
        claims = {"iat": now - 10, "exp": now + 300, "iss": str(place.forge.app.app_id)}
        self.jwt = jwt.encode(claims, place.forge.app.private_key, "RS256")
        self.bot = self("POST", f"/app/installations/{place.forge.app.installation_id}/access_tokens", token=self.jwt)["token"]

    def __call__(self, method: str, path: str, body: Any = None, *, token: str = "", status: int | None = None) -> Any:
        headers = {"Authorization": f"Bearer {token or self.bot}"}
        answer = self.client.request(method, path, json=body, headers=headers, follow_redirects=False)
        assert answer.is_success or answer.is_redirect if status is None else answer.status_code == status, answer.text
        plain, _, query = path.partition("?")
        self.called.add(route(method, plain))
        given = answer.json() if "json" in answer.headers.get("content-type", "") else None
        assert exchange_faults(Exchange(method, plain, query, body, "", answer.status_code, given)) == []
        if not answer.is_success and not answer.is_redirect:
            assert faults("/components/schemas/basic-error", given) == []
        return given


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stand]:
    with stand(tmp_path) as made:
        yield made


def test_every_route_and_every_webhook(place: Stand) -> None:
    ask = Recorder(place)
    with closing(ask.client):
        _asked(place, ask)
    sys.path.insert(0, str(DATA))
    from slice_openapi import EVENTS, routes, shape

    listed = {(method, shape(path)) for method, path in ask.called}
    assert {(method, shape(path)) for method, path in routes()} - listed == set()
    for delivery in place.forge.deliveries:
        assert delivery_faults(delivery) == [], delivery_name(delivery)
    assert {delivery_name(delivery) for delivery in place.forge.deliveries} == set(EVENTS)


def _asked(place: Stand, ask: Recorder) -> None:
    place.commit("main", {".github/workflows/evaluate.yml": WORKFLOW, "a.txt": "one\n"})
    head = place.commit("x", {"a.txt": "two\n"}, parent="main")
    base = f"/repos/{FULL_NAME}"
    pull = ask("POST", f"{base}/pulls", {"title": "T", "body": "B", "head": "x", "base": "main"})
    number = pull["number"]
    pulls, issues = f"{base}/pulls/{number}", f"{base}/issues/{number}"
    ask("POST", f"{base}/pulls", {"title": "T", "body": "B", "head": "x", "base": "main"}, status=422)
    for path in ("", "/pulls", "/collaborators", f"/collaborators/{place.person}/permission", "/branches/main", "/git/ref/heads/main"):
        ask("GET", base + path)
    for path in (
        "/git/matching-refs/heads/",
        "/contents/a.txt",
        f"/commits/{head}",
        "/issues?state=all",
        "/actions/workflows/evaluate.yml",
    ):
        ask("GET", base + path)
    for path in ("", "/files", "/commits", "/reviews", "/requested_reviewers"):
        ask("GET", pulls + path)
    ask("GET", f"{pulls}/merge", status=404)
    ask("PATCH", pulls, {"title": "Another"})
    ask("PATCH", pulls, {"state": "closed"})
    ask("PATCH", pulls, {"state": "open"})
    ask("POST", f"{pulls}/requested_reviewers", {"reviewers": [place.person]})
    head = place.commit("x", {"a.txt": "three\n"}, parent="x")
    review = ask("POST", f"{pulls}/reviews", {"event": "REQUEST_CHANGES", "body": "No"}, token=place.token)
    ask("PUT", f"{pulls}/reviews/{review['id']}/dismissals", {"message": "Yes"})
    ask("POST", f"{issues}/labels", {"labels": ["kernel"]})
    comment = ask("POST", f"{issues}/comments", {"body": "one"})
    ask("GET", f"{issues}/comments")
    ask("GET", f"{base}/issues/comments/{comment['id']}")
    ask("PATCH", f"{base}/issues/comments/{comment['id']}", {"body": "two"})
    ask("DELETE", f"{base}/issues/comments/{comment['id']}")
    issue = ask("POST", f"{base}/issues", {"title": "T", "body": "B", "labels": ["dashboard"]})["number"]
    ask("GET", f"{base}/issues/{issue}")
    for change in ({"body": "C"}, {"state": "closed"}, {"state": "open"}):
        ask("PATCH", f"{base}/issues/{issue}", change)
    note = {"path": "a.txt", "start_line": 1, "end_line": 1, "annotation_level": "failure", "message": "m"}
    check = ask(
        "POST", f"{base}/check-runs", {"name": "v", "head_sha": head, "status": "in_progress", "output": {"title": "t", "summary": "s"}}
    )
    done = {"conclusion": "failure", "output": {"title": "t", "summary": "s", "annotations": [note]}}
    ask("PATCH", f"{base}/check-runs/{check['id']}", done)
    ask("GET", f"{base}/check-runs/{check['id']}")
    ask("GET", f"{base}/check-runs/{check['id']}/annotations")
    ask("GET", f"{base}/commits/{head}/check-runs")
    ask("POST", f"{base}/statuses/{head}", {"state": "success", "context": "v"}, token=place.token)
    ask("GET", f"{base}/commits/{head}/statuses")
    _runs(place, ask, base)
    ask("PUT", f"{pulls}/merge", {"sha": "0" * 40}, status=409)
    ask("PUT", f"{pulls}/merge", {"sha": head})
    ask("GET", f"{pulls}/merge")
    ask("DELETE", f"{base}/git/refs/heads/x")
    _app(place, ask, base)


def test_the_validation_finds_what_is_wrong() -> None:
    assert "'number' is a required property" in str(faults("/webhooks/pull-request-opened", {}))
    base = f"/repos/{FULL_NAME}"
    for exchange, wanted in (
        (Exchange("GET", f"{base}/pulls/1", "", None, "", 200, {"number": "one"}), "'one' is not of type 'integer'"),
        (Exchange("GET", f"{base}/pulls", "stat=all", None, "", 200, []), "the parameter stat is not known"),
        (Exchange("GET", f"{base}/pulls", "state=ajar", None, "", 200, []), "'ajar' is not one of"),
        (Exchange("GET", f"{base}/pulls", "", None, "", 418, []), ""),
        (Exchange("GET", f"{base}/pulls", "", None, "", 201, []), "it is never answered 201"),
        (Exchange("POST", f"{base}/issues", "", {"titel": "T", "title": "T"}, "", 422, None), "the field titel is not known"),
        (Exchange("POST", f"{base}/issues", "", {}, "", 422, None), "'title' is a required property"),
    ):
        assert wanted in str(exchange_faults(exchange))
    with pytest.raises(AssertionError, match="describes no"):
        route("DELETE", base)


def _runs(place: Stand, ask: Recorder, base: str) -> None:
    place.forge.misbehave("run_hangs")
    asked = {"ref": "main", "inputs": {"commit": "1"}, "return_run_details": True}
    run = ask("POST", f"{base}/actions/workflows/evaluate.yml/dispatches", asked)["workflow_run_id"]
    ask("GET", f"{base}/actions/runs")
    ask("GET", f"{base}/actions/workflows/evaluate.yml/runs")
    place.wait(lambda: place.repository.runs[run].status == "in_progress")
    ask("POST", f"{base}/actions/runs/{run}/cancel")
    place.wait(lambda: place.repository.runs[run].status == "completed")
    assert ask("GET", f"{base}/actions/runs/{run}")["conclusion"] == "cancelled"
    artifact = place.keep(run, "evaluation", base64.b64decode("UEsFBgAAAAAAAAAAAAAAAAAAAAAAAA=="))
    ask("GET", f"{base}/actions/runs/{run}/artifacts")
    ask("GET", f"{base}/actions/artifacts/{artifact}")
    ask("GET", f"{base}/actions/artifacts/{artifact}/zip")


def _app(place: Stand, ask: Recorder, base: str) -> None:
    for path in ("/app", f"/app/installations/{place.forge.app.installation_id}", f"{base}/installation", "/app/hook/deliveries"):
        ask("GET", path, token=ask.jwt)
    place.wait(lambda: bool(place.forge.forge.hooks.told()))
    delivery = ask("GET", "/app/hook/deliveries", token=ask.jwt)[0]["id"]
    ask("GET", f"/app/hook/deliveries/{delivery}", token=ask.jwt)
    ask("POST", f"/app/hook/deliveries/{delivery}/attempts", token=ask.jwt)
    ask("GET", "/user", token=place.token)
    ask("GET", f"/users/{place.person}")
    ask("GET", "/rate_limit")
