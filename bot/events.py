"""What a forge tells the bot, in types: the few fields of a webhook that are used, as hints. State is fetched again before acting."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

BRANCHES = "refs/heads/"


class _Event(BaseModel):
    """The base of all events. `sender` is who caused it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    repository: str
    sender: str


class Pushed(_Event):
    """A branch was made, moved or deleted; `after` is its new commit, None when it was deleted."""

    kind: Literal["pushed"] = "pushed"
    branch: str
    after: str | None


class PullRequestChanged(_Event):
    """A pull request was opened, pushed to, edited, closed or reopened. `branch` is its head's branch."""

    kind: Literal["pull_request_changed"] = "pull_request_changed"
    number: int
    branch: str


class Reviewed(_Event):
    """A review of a pull request was submitted, edited or dismissed."""

    kind: Literal["reviewed"] = "reviewed"
    number: int
    branch: str


Event = Pushed | PullRequestChanged | Reviewed
EVENT: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="kind")])


class Unreadable(ValueError):
    """A delivery that is not what its headers say."""


def parse(name: str, body: bytes) -> Event | None:
    """The event in a delivery called `name` (its `X-GitHub-Event`), or None where the bot has no use for it, as for what bots do.

    What another bot changed is found when the bot next looks at everything; answering it at once could go on for ever.

    Raises `Unreadable` where the body is not JSON or lacks what such a delivery always has.
    """
    read = _READERS.get(name)
    if read is None:
        return None
    try:
        payload = json.loads(body)
        event = read(payload, {"repository": payload["repository"]["full_name"], "sender": payload["sender"]["login"]})
        return None if payload["sender"].get("type") == "Bot" else event
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ValidationError) as error:
        raise Unreadable(f"not a {name} delivery: {type(error).__name__}") from error


def _pushed(payload: dict[str, Any], common: dict[str, str]) -> Event | None:
    ref: str = payload["ref"]
    if not ref.startswith(BRANCHES):
        return None
    after: str = payload["after"]
    return Pushed(branch=ref.removeprefix(BRANCHES), after=after if after.strip("0") else None, **common)


def _pull_request(payload: dict[str, Any], common: dict[str, str]) -> Event | None:
    pull = payload["pull_request"]
    return PullRequestChanged(number=pull["number"], branch=pull["head"]["ref"], **common)


def _review(payload: dict[str, Any], common: dict[str, str]) -> Event | None:
    pull = payload["pull_request"]
    return Reviewed(number=pull["number"], branch=pull["head"]["ref"], **common)


_READERS = {"push": _pushed, "pull_request": _pull_request, "pull_request_review": _review}
