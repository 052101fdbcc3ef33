"""`factory_driver` whose bots meet one failure that no step is prepared for: in the engine's own writing, or between two steps.

The variable `FAILS` says which: `engine` for a campaign's step that can't be recorded once, `workflow` for a defect in what is decided.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from typing import Any

import factory_driver
from dbos._sys_db import SystemDatabase
from driver import forked

from bot.campaign import workflow


def once(owner: Any, method: str, error: Exception, here: Callable[[], bool] = lambda: True) -> None:
    """Have the first call of a method that is made `here` fail, and no other."""
    original, left = getattr(owner, method), [error]

    def failing(*args: Any, **kwargs: Any) -> Any:
        if left and here():
            raise left.pop()
        return original(*args, **kwargs)

    setattr(owner, method, failing)


if __name__ == "__main__":
    if os.environ["FAILS"] == "engine":
        full = sqlite3.OperationalError("database or disk is full")
        once(SystemDatabase, "record_operation_result", full, lambda: factory_driver.where() == "")
    else:
        once(workflow, "decide", RuntimeError("a defect between two steps"))
    forked(factory_driver.command)
