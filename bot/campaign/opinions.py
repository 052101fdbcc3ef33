"""What a pull request's reviews amount to: who approves exactly this head, and who asks for changes to it. A pure function."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from bot.hosting import Review

# A comment leaves what its author said before as it is.
DECISIVE = ("APPROVED", "CHANGES_REQUESTED", "DISMISSED")


@dataclass(frozen=True)
class Opinion:
    """Who approves, empty where nobody does, and the review that asks for changes, which goes before any approval."""

    approver: str = ""
    objection: Review | None = None


def opinion(reviews: Sequence[Review], head: str, excluded: Collection[str]) -> Opinion:
    """The last decisive word of each person who may write and is not `excluded`, as far as it was said of exactly this head."""
    latest: dict[str, Review] = {}
    for review in reviews:
        if review.counts and review.author not in excluded and review.state in DECISIVE:
            latest[review.author] = review
    said = [one for one in latest.values() if one.commit == head]
    approver = next((one.author for one in said if one.state == "APPROVED"), "")
    return Opinion(approver, next((one for one in said if one.state == "CHANGES_REQUESTED"), None))
