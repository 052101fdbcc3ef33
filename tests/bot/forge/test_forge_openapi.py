"""Every answer of the forge and every webhook that it sends is valid by GitHub's own description of its API."""

from __future__ import annotations

import base64
import functools
import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import jwt
import pytest
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012
from stand import FULL_NAME, Stand, stand

DATA = Path(__file__).parents[2] / "data"
SLICE = json.loads((DATA / "github-openapi-slice.json").read_text(encoding="utf-8"))
REGISTRY: Registry[Any] = Registry().with_resource("slice:", Resource(SLICE, DRAFT202012))
WORKFLOW = "on:\n  workflow_dispatch:\n    inputs: {commit: {type: string, required: true}}\njobs: {}\n"


@functools.cache
def validator(pointer: str) -> jsonschema.Draft202012Validator:
    schema = {"$ref": f"slice:#{pointer}"}
    return jsonschema.Draft202012Validator(schema, registry=REGISTRY.with_resource("slice:", Resource(rewritten(), DRAFT202012)))


@functools.cache
def rewritten() -> Any:
    """The slice, whose references name it."""
    return json.loads(json.dumps(SLICE).replace('"$ref": "#/', '"$ref": "slice:#/'))


def escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def faults(pointer: str, given: Any) -> list[str]:
    return [told for error in validator(pointer).iter_errors(given) for told in _told(error)]


def _told(error: jsonschema.ValidationError) -> list[str]:
    """What is wrong, of every alternative where there are several."""
    if error.context:
        return [told for one in error.context for told in _told(one)]
    return [f"{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}"]


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
        template = self.template(path.partition("?")[0], method.lower())
        self.called.add((method.lower(), template))
        known = SLICE["paths"][template][method.lower()]
        assert str(answer.status_code) in known, f"{method} {path} is never answered {answer.status_code}: {answer.text[:300]}"
        assert answer.is_success or answer.is_redirect if status is None else answer.status_code == status, answer.text
        if known[str(answer.status_code)] is None:
            return None
        found = faults(f"/paths/{escaped(template)}/{method.lower()}/{answer.status_code}", answer.json())
        assert not found, f"{method} {path}: {found}"
        return answer.json()

    def template(self, path: str, method: str) -> str:
        """GitHub's name of a route: the one with the fewest variables."""
        fitting = []
        for template in SLICE["paths"]:
            pattern = re.sub(r"\\\{(ref|branch|path)\\\}", ".+", re.escape(template))
            pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", pattern)
            if re.fullmatch(pattern, path) and method in SLICE["paths"][template]:
                fitting.append(template)
        return min(fitting, key=lambda one: (one.count("{"), -len(one)))


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
    sent = set()
    for delivery in place.forge.deliveries:
        name = delivery.event.replace("_", "-") + (f"-{delivery.action.replace('_', '-')}" if delivery.action else "")
        sent.add(name)
        assert faults(f"/webhooks/{name}", delivery.payload) == [], name
    assert sent == set(EVENTS)


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
    assert faults(f"/paths/{escaped('/repos/{owner}/{repo}/pulls/{pull_number}')}/get/200", {"number": "one"})


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
