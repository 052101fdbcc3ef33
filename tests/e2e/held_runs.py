"""Runs that wait for a test: so that it may act in the middle of a campaign."""

from __future__ import annotations

import threading
from typing import Any

from factory_stand import WAIT_SECONDS, Stand

from bot.forge.runs import Finished


def held(stand: Stand) -> threading.Event:
    """Once there are pull requests, which is after the first round, no run begins until the event is set."""
    event, execute = threading.Event(), stand.forge.forge.execute

    def executed(*args: Any, **asked: Any) -> Finished:
        if stand.pulls():
            event.wait(WAIT_SECONDS)
        return execute(*args, **asked)

    stand.forge.forge.execute = executed
    return event
