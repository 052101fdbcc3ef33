"""Cuts `github-openapi-slice.json` out of GitHub's description of its API: `python slice_openapi.py api.github.com.json`.

The description is in the npm package `@octokit/openapi`, as `generated/api.github.com.json`. Kept are, of the routes that the forge has,
the parameters and bodies of requests and the answers, the bodies of the webhooks that it sends, and the schemas that these need, as JSON
Schema: `nullable` becomes a type.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bot.forge.app import application
from bot.forge.web import PREFIX

# The events and actions that the forge sends; a push has no actions.
EVENTS = [
    "push",
    *(f"pull-request-{action}" for action in ("opened", "edited", "closed", "reopened", "synchronize", "review-requested")),
    *(f"pull-request-review-{action}" for action in ("submitted", "dismissed")),
    *(f"issues-{action}" for action in ("opened", "edited", "closed", "reopened")),
    *(f"issue-comment-{action}" for action in ("created", "edited", "deleted")),
    *(f"check-run-{action}" for action in ("created", "completed")),
    *(f"workflow-run-{action}" for action in ("requested", "in-progress", "completed")),
]
DROPPED = {"description", "example", "examples", "externalDocs", "title", "x-github", "deprecated", "discriminator"}


def plain(node: Any, names: bool = False) -> Any:
    """A schema as JSON Schema, without words for people. `names` says that the keys are names of properties."""
    if isinstance(node, list):
        return [plain(one) for one in node]
    if not isinstance(node, dict):
        return node
    kept = {key: plain(value, key == "properties" and not names) for key, value in node.items() if names or key not in DROPPED}
    if not names and kept.pop("nullable", False):
        return {"anyOf": [kept, {"type": "null"}]}
    return kept


def needed(node: Any, components: dict[str, Any], found: dict[str, Any]) -> None:
    """Collect the schemas that `node` refers to."""
    if isinstance(node, list):
        for one in node:
            needed(one, components, found)
    elif isinstance(node, dict):
        name = str(node.get("$ref", "")).rpartition("/")[2]
        if name and name not in found:
            found[name] = plain(components["schemas"][name])
            needed(found[name], components, found)
        for value in node.values():
            needed(value, components, found)


def referred(node: Any, among: dict[str, Any]) -> Any:
    """What a reference stands for."""
    return among[node["$ref"].rpartition("/")[2]] if "$ref" in node else node


def schema_of(node: Any) -> Any:
    """The schema of a request's or answer's JSON; None where it has none."""
    return None if node is None else plain(node.get("content", {}).get("application/json", {}).get("schema"))


def routes() -> set[tuple[str, str]]:
    """Method and path of every API route that the forge has, with GitHub's names for what is variable."""
    return {(method.lower(), path) for method, path in api_routes(application())}


def api_routes(app: Any) -> set[tuple[str, str]]:
    """Method and path of every API route of an application."""
    found = set()
    waiting = list(app.routes)
    while waiting:
        route = waiting.pop()
        waiting += getattr(getattr(route, "original_router", None), "routes", [])
        path = getattr(route, "path", "")
        if path.startswith(PREFIX):
            found |= {(method, path.removeprefix(PREFIX)) for method in route.methods}
    return found


def shape(path: str) -> str:
    """A path without the names of what is variable. GitHub has one word for the only format of an artifact."""
    path = path.replace("{archive_format}", "zip")
    return "/".join("{}" if part.startswith("{") else part for part in path.split("/"))


def main(source: Path) -> None:
    whole = json.loads(source.read_text(encoding="utf-8"))
    components = whole["components"]
    paths = {shape(path): (path, item) for path, item in whole["paths"].items()}
    kept: dict[str, Any] = {}
    for method, path in sorted(routes()):
        known, item = paths[shape(path)]
        about = item[method]
        given = [referred(one, components["parameters"]) for one in about.get("parameters", [])]
        body = referred(about["requestBody"], components.get("requestBodies", {})) if "requestBody" in about else None
        kept.setdefault(known, {})[method] = {
            "query": {one["name"]: plain(one["schema"]) for one in given if one["in"] == "query"},
            "body": schema_of(body),
            "answers": {status: schema_of(referred(answer, components["responses"])) for status, answer in about["responses"].items()},
        }
    hooks = {}
    for name in EVENTS:
        hook = whole["webhooks"][name] if "webhooks" in whole else whole["x-webhooks"][name]
        hooks[name] = plain(hook["post"]["requestBody"]["content"]["application/json"]["schema"])
    schemas: dict[str, Any] = {}
    needed([kept, hooks], components, schemas)
    slice_ = {"paths": kept, "webhooks": hooks, "components": {"schemas": schemas}}
    target = Path(__file__).parent / "github-openapi-slice.json"
    target.write_text(json.dumps(slice_, sort_keys=True, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
