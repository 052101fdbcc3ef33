"""The one enum that says how an evaluation ended, and the exception by which a stage of the judge ends it early."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """How an evaluation ended. Only `accepted` and `slower` carry performance numbers."""

    POLICY_VIOLATION = "policy_violation"
    BUILD_ERROR = "build_error"
    LAUNCH_ERROR = "launch_error"
    TIMEOUT = "timeout"
    INCORRECT = "incorrect"
    IMPLAUSIBLE = "implausible"
    SLOWER = "slower"
    ACCEPTED = "accepted"
    EVALUATION_LOST = "evaluation_lost"


class Rejected(Exception):
    """A candidate is refused by a stage of the judge: the verdict and a message that an agent can act on."""

    def __init__(self, verdict: Verdict, message: str) -> None:
        self.verdict = verdict
        self.message = message
        super().__init__(f"{verdict}: {message}")
