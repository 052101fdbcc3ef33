"""How the forge misbehaves when it is told to: each kind is asked for a number of times, and then all is well again."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass

KINDS = {
    "duplicate": "a delivery is sent twice under one GUID",
    "drop": "a delivery is never sent",
    "delay": "a delivery is sent `seconds` later",
    "reorder": "a delivery is sent after the next one",
    "delivery_fails": "a delivery counts as failed without being sent; it can be redelivered",
    "not_found": "a read is answered 404, as just after the thing was created",
    "secondary_limit": "a write is answered 403 with Retry-After",
    "primary_limit": "a request is answered 403 with no requests left and the time of the reset",
    "server_error": "a request is answered 502, and nothing was done",
    "error_after": "a write is done, and answered 502",
    "expired_token": "a request is answered 401",
    "revoke_tokens": "all installation tokens end now",
    "base_modified": "a merge is answered 405: base branch was modified",
    "head_moved": "a merge is answered 409",
    "blocked": "a merge is answered 405: blocked by a rule",
    "mergeable_unknown": "a pull request says once more that its mergeability is not known",
    "no_run_id": "a dispatch does not tell the run's id",
    "run_queued": "a run waits for a machine until it is cancelled",
    "run_hangs": "a run is in progress until it is cancelled",
    "run_fails": "a run ends as failure without an artifact",
    "run_foreign": "a run says that another commit was its head",
    "artifact_missing": "a run ends as success without an artifact",
    "artifact_expired": "an artifact has expired",
    "artifact_large": "an artifact is larger than its sensible bound",
    "artifact_not_zip": "an artifact is not what its name says",
    "artifact_digest": "an artifact's digest is another one",
}


@dataclass
class _Fault:
    kind: str
    count: int
    path: str
    method: str
    seconds: float


class Faults:
    """The misbehaviours that are still to come."""

    def __init__(self) -> None:
        self._faults: list[_Fault] = []
        self._lock = threading.Lock()

    def add(self, kind: str, count: int = 1, *, path: str = "", method: str = "", seconds: float = 1.0) -> None:
        """Misbehave `count` times. `path` (a regular expression, for deliveries the event's name) and `method` narrow it down."""
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is no misbehaviour; there are {', '.join(KINDS)}")
        with self._lock:
            self._faults.append(_Fault(kind, count, path, method, seconds))

    def take(self, kind: str, path: str = "", method: str = "") -> float | None:
        """Whether to misbehave so now, which uses it up; returns the fault's seconds."""
        with self._lock:
            for fault in self._faults:
                wanted = fault.kind == kind and (not fault.method or fault.method == method)
                if wanted and fault.count > 0 and re.search(fault.path, path):
                    fault.count -= 1
                    return fault.seconds
        return None

    def left(self) -> int:
        """How many misbehaviours are still to come."""
        with self._lock:
            return sum(fault.count for fault in self._faults)
