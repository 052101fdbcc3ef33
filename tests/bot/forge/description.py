"""GitHub's own description of its API, as far as the forge and the client need it, and what of an exchange contradicts it."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import jsonschema
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from bot.forge.hooks import Delivery
from bot.forge.web import Exchange

DATA = Path(__file__).parents[2] / "data"
SLICE = json.loads((DATA / "github-openapi-slice.json").read_text(encoding="utf-8"))

# Every route that the bot's client calls, with GitHub's names for what is variable. A call of another one fails the tests that listen.
CLIENT = {
    ("get", "/app"),
    ("get", "/app/hook/deliveries"),
    ("get", "/repos/{owner}/{repo}"),
    ("get", "/repos/{owner}/{repo}/actions/artifacts/{artifact_id}/{archive_format}"),
    ("get", "/repos/{owner}/{repo}/actions/runs/{run_id}"),
    ("get", "/repos/{owner}/{repo}/actions/runs/{run_id}/artifacts"),
    ("get", "/repos/{owner}/{repo}/actions/workflows/{workflow_id}"),
    ("get", "/repos/{owner}/{repo}/actions/workflows/{workflow_id}/runs"),
    ("get", "/repos/{owner}/{repo}/check-runs/{check_run_id}"),
    ("get", "/repos/{owner}/{repo}/collaborators"),
    ("get", "/repos/{owner}/{repo}/collaborators/{username}/permission"),
    ("get", "/repos/{owner}/{repo}/commits/{ref}"),
    ("get", "/repos/{owner}/{repo}/commits/{ref}/check-runs"),
    ("get", "/repos/{owner}/{repo}/commits/{ref}/statuses"),
    ("get", "/repos/{owner}/{repo}/git/ref/{ref}"),
    ("get", "/repos/{owner}/{repo}/issues"),
    ("get", "/repos/{owner}/{repo}/issues/{issue_number}"),
    ("get", "/repos/{owner}/{repo}/issues/{issue_number}/comments"),
    ("get", "/repos/{owner}/{repo}/pulls"),
    ("get", "/repos/{owner}/{repo}/pulls/{pull_number}"),
    ("get", "/repos/{owner}/{repo}/pulls/{pull_number}/reviews"),
    ("get", "/user"),
    ("delete", "/repos/{owner}/{repo}/issues/comments/{comment_id}"),
    ("patch", "/repos/{owner}/{repo}/check-runs/{check_run_id}"),
    ("patch", "/repos/{owner}/{repo}/issues/comments/{comment_id}"),
    ("patch", "/repos/{owner}/{repo}/issues/{issue_number}"),
    ("patch", "/repos/{owner}/{repo}/pulls/{pull_number}"),
    ("post", "/app/hook/deliveries/{delivery_id}/attempts"),
    ("post", "/app/installations/{installation_id}/access_tokens"),
    ("post", "/repos/{owner}/{repo}/actions/runs/{run_id}/cancel"),
    ("post", "/repos/{owner}/{repo}/actions/workflows/{workflow_id}/dispatches"),
    ("post", "/repos/{owner}/{repo}/check-runs"),
    ("post", "/repos/{owner}/{repo}/issues"),
    ("post", "/repos/{owner}/{repo}/issues/{issue_number}/comments"),
    ("post", "/repos/{owner}/{repo}/pulls"),
    ("post", "/repos/{owner}/{repo}/pulls/{pull_number}/requested_reviewers"),
    ("post", "/repos/{owner}/{repo}/statuses/{sha}"),
    ("put", "/repos/{owner}/{repo}/pulls/{pull_number}/merge"),
}


def route(method: str, path: str) -> tuple[str, str]:
    """GitHub's name of what was asked: the fitting route with the fewest variables. Raises `AssertionError` where there is none."""
    fitting = []
    for template in SLICE["paths"]:
        pattern = re.sub(r"\\\{(ref|branch|path)\\\}", ".+", re.escape(template))
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", pattern)
        if re.fullmatch(pattern, path) and method.lower() in SLICE["paths"][template]:
            fitting.append(template)
    assert fitting, f"GitHub describes no {method} {path}"
    return method.lower(), min(fitting, key=lambda one: (one.count("{"), -len(one)))


def exchange_faults(exchange: Exchange) -> list[str]:
    """What of a request, and of its answer where it was granted, is not as GitHub describes it."""
    method, template = route(exchange.method, exchange.path)
    known = SLICE["paths"][template][method]
    at = f"/paths/{escaped(template)}/{method}"
    found = []
    for name, value in parse_qsl(exchange.query):
        if name not in known["query"]:
            found.append(f"the parameter {name} is not known")
        else:
            found += faults(f"{at}/query/{name}", int(value) if value.isdigit() else value)
    if exchange.body is not None and known["body"] is None:
        found.append("a body, where there is none")
    elif exchange.body is not None:
        found += faults(f"{at}/body", exchange.body)
        found += [f"the field {name} is not known" for name in exchange.body if name not in set(_fields(known["body"]))]
    if exchange.status < 400:
        if str(exchange.status) not in known["answers"]:
            found.append(f"it is never answered {exchange.status}")
        elif known["answers"][str(exchange.status)] is not None:
            found += faults(f"{at}/answers/{exchange.status}", exchange.answer)
    return [f"{exchange.method} {exchange.path}?{exchange.query}: {one}" for one in found]


def delivery_name(delivery: Delivery) -> str:
    """GitHub's name of a webhook."""
    return "-".join([delivery.event, *([delivery.action] if delivery.action else [])]).replace("_", "-")


def delivery_faults(delivery: Delivery) -> list[str]:
    """What of a webhook's payload is not as GitHub describes it."""
    return faults(f"/webhooks/{delivery_name(delivery)}", delivery.payload)


def faults(pointer: str, given: Any) -> list[str]:
    """What of a value contradicts the schema at a place of the description."""
    return [told for error in _validator(pointer).iter_errors(given) for told in _told(error)]


def escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _fields(schema: Any) -> Iterator[str]:
    """The fields that an object may have by any of its alternatives."""
    yield from schema.get("properties", {})
    for kind in ("anyOf", "oneOf", "allOf"):
        for one in schema.get(kind, []):
            yield from _fields(one)


@functools.cache
def _registry() -> Registry[Any]:
    named = json.loads(json.dumps(SLICE).replace('"$ref": "#/', '"$ref": "slice:#/'))
    made: Registry[Any] = Registry().with_resource("slice:", Resource(named, DRAFT202012))
    return made


@functools.cache
def _validator(pointer: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator({"$ref": f"slice:#{pointer}"}, registry=_registry())


def _told(error: jsonschema.ValidationError) -> list[str]:
    """What is wrong, of every alternative where there are several."""
    if error.context:
        return [told for one in error.context for told in _told(one)]
    return [f"{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}"]


class Listener:
    """Hears what the bot asks a forge, and what was wrong with it."""

    def __init__(self, bot: str) -> None:
        self.bot = bot
        self.called: set[tuple[str, str]] = set()
        self.wrong: list[str] = []

    def __call__(self, exchange: Exchange) -> None:
        if exchange.actor not in ("", "app", self.bot):
            return
        try:
            called = route(exchange.method, exchange.path)
            self.called.add(called)
            if called not in CLIENT:
                self.wrong.append(f"{called} is not listed")
            self.wrong += exchange_faults(exchange)
        except AssertionError as error:
            self.wrong.append(str(error))
