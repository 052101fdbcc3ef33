"""How the forge misbehaves when it is told to: each kind is asked for a number of times, and then all is well again."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass

KINDS = {
    # Deliveries.
    "duplicate": "a delivery is sent twice under one GUID",
    "drop": "a delivery is never sent",
    "delay": "a delivery is sent `seconds` later",
    "reorder": "a delivery is sent after the next one",
    "delivery_fails": "a delivery counts as failed without being sent; it can be redelivered",
    "replayed": "before a delivery the first of all is sent again, as it was",
    "forged": "a delivery is signed with another secret",
    "oversized": "a delivery is larger than any should be",
    # Requests to the API; those marked with * also to git and to where artifacts are stored.
    "not_found": "a read is answered 404, as just after the thing was created",
    "secondary_limit": "a write is answered 403 with Retry-After",
    "primary_limit": "a request is answered 403 with no requests left and the time of the reset",
    "server_error": "* a request is answered 502 with a page for people, and nothing was done",
    "error_after": "* a write is done, and answered 502",
    "answer_cut": "* a request is done, and its answer ends in the middle",
    "expired_token": "* a request is answered 401",
    "revoke_tokens": "* all installation tokens end now",
    "short_pages": "a list comes in pages of one",
    "exists_after": "a pull request is opened, and answered 422: it exists already",
    "doubled_comment": "a comment is made twice",
    "imitated_comment": "before a comment a person makes one of the same text, whatever is hidden in it",
    "foreign_check": "before a check another App makes one of the same name that says success",
    "push_refused": "a push is refused by a rule of the repository",
    # Merges.
    "base_modified": "a merge is answered 405: base branch was modified",
    "base_pushed": "somebody pushes to the base during a merge, which is answered 405",
    "head_moved": "a merge is answered 409",
    "head_pushed": "somebody pushes to the head before a merge, which is answered 409",
    "blocked": "a merge is answered 405: blocked by a rule",
    "mergeable_unknown": "a pull request says once more that its mergeability is not known",
    # Runs.
    "no_run_id": "a dispatch does not tell the run's id",
    "run_unlisted": "the newest run is not listed yet",
    "run_queued": "a run waits for a machine until it is cancelled",
    "run_hangs": "a run is in progress until it is cancelled",
    "run_fails": "a run ends as failure without an artifact",
    "run_skipped": "a run ends as skipped without an artifact",
    "run_foreign": "a run says that another commit was its head",
    "run_again": "a run says that a person started it again",
    "run_deleted": "a run is gone once it has ended",
    # What a run kept.
    "artifact_missing": "a run ends as success without an artifact",
    "artifact_expired": "an artifact has expired",
    "artifact_large": "an artifact is larger than its sensible bound",
    "artifact_not_zip": "an artifact is not what its name says",
    "artifact_not_json": "an artifact's files are not JSON",
    "artifact_foreign": "an artifact is that of an earlier run",
    "artifact_digest": "an artifact's digest is another one",
    "artifact_no_digest": "an artifact has no digest",
}


@dataclass
class _Fault:
    kind: str
    count: int
    path: str
    method: str
    seconds: float
    after: int
    runs: int = 0

    def ready(self) -> bool:
        """Whether enough has gone well before; every other occasion but a run counts down by being asked about."""
        if self.kind.startswith(("run_", "artifact_")) or self.kind == "no_run_id":
            return self.after == 0 or self.runs > self.after
        self.after -= 1
        return self.after < 0


class Faults:
    """The misbehaviours that are still to come."""

    def __init__(self) -> None:
        self._faults: list[_Fault] = []
        self._lock = threading.Lock()

    def add(self, kind: str, count: int = 1, *, path: str = "", method: str = "", seconds: float = 1.0, after: int = 0) -> None:
        """Misbehave `count` times, `after` so many occasions (dispatched runs, for runs and what they kept) that `path` and `method` fit.

        `path` is a regular expression: for requests over their path and query, for deliveries over the event's name, for runs and what
        they kept over the request that they were started for (the input `request`).
        """
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is no misbehaviour; there are {', '.join(KINDS)}")
        with self._lock:
            self._faults.append(_Fault(kind, count, path, method, seconds, after))

    def dispatched(self, request: str) -> None:
        """A run was dispatched for this request."""
        with self._lock:
            for fault in self._faults:
                fault.runs += bool(re.search(fault.path, request))

    def take(self, kind: str, path: str = "", method: str = "") -> float | None:
        """Whether to misbehave so now, which uses it up; returns the fault's seconds."""
        with self._lock:
            for fault in self._faults:
                wanted = fault.kind == kind and (not fault.method or fault.method == method)
                if wanted and fault.count > 0 and re.search(fault.path, path) and fault.ready():
                    fault.count -= 1
                    return fault.seconds
        return None

    def left(self) -> list[str]:
        """What is still to come, as `kind method path × count`."""
        with self._lock:
            return [f"{one.kind} {one.method} {one.path} × {one.count}" for one in self._faults if one.count > 0]
