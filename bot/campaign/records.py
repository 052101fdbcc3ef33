"""What a campaign's dashboard issue says to the bot itself, in a hidden comment: enough to know a campaign when the database was lost."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import ValidationError

from bot.campaign.state import Merged, Order, State, StopReason, Waiting

_HIDDEN = re.compile(r"<!-- kernel-factory-record: (\{.*?\}) -->")


class Record(State):
    """A campaign as it stands: what was ordered, the winner that waits for people, or how it stopped."""

    order: Order
    status: Literal["running", "waiting", "ended"]
    waiting: Waiting | None = None
    stop: StopReason | None = None
    merged: Merged | None = None


def hidden(record: Record) -> str:
    """The comment that no reader sees."""
    text = record.model_dump_json(exclude_defaults=True)
    # Within JSON these signs stand in strings only, where each may be written by its number: so the comment can't end early.
    for sign, written in (("<", "\\u003c"), (">", "\\u003e"), ("--", "-\\u002d")):
        text = text.replace(sign, written)
    return f"<!-- kernel-factory-record: {text} -->"


def recorded(body: str) -> Record | None:
    """The record in an issue's text, the last one; None where there is none that can be read."""
    found = _HIDDEN.findall(body)
    if not found:
        return None
    try:
        return Record.model_validate_json(found[-1])
    except ValidationError:
        return None
