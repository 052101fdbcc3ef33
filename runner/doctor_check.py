"""One thing that `doctor` looked at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """Whether it is as needed, what was found, and what to do if not."""

    name: str
    ok: bool
    found: str
    remedy: str = ""
