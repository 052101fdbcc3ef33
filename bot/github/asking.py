"""How GitHub is asked: expired tokens, rate limits, answers that come late or never, and writes that must not be made twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

import requests
from github import BadCredentialsException, Github, GithubException, UnknownObjectException

from bot.github.auth import Access, told
from bot.hosting import Missing, TryLater
from runner.errors import FactoryError

T = TypeVar("T")
# After an event a thing may not be there yet: so long is waited before a 404 is believed.
ANNOUNCED_SECONDS = (0.3, 0.7, 1.5, 3.0)
# What was not answered is asked again after so long: a read as it is, a write only after a look whether it was carried out.
AGAIN_SECONDS = (0.5, 2.0)
# A limit that says nothing of its length lasts a minute, and twice as long each time it is met again.
LIMIT_SECONDS = 60.0
# A limit up to this long is waited for where it is met; a longer one is the caller's to come back after; none is believed beyond the last.
PATIENT_SECONDS, LIMIT_SECONDS_MAX = 120.0, 3600.0
LIMITS_WAITED = 5


class Asking:
    """Reads, and writes one after another, as one identity. `FactoryError` says what could not be done, and what GitHub said.

    `Missing`, which is one, says that GitHub has no such thing, or no longer.
    `TryLater`, which is one, says that a rate limit lasts longer than is waited here. Until it is over GitHub is asked nothing at all.
    """

    def __init__(self, access: Access, pause: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.time) -> None:
        self.access = access
        self.pause = pause
        self.clock = clock
        # Held by whoever writes: secondary rate limits punish writes that come at the same time. Taken around several writes that
        # belong together, it also keeps another thread's from coming between them.
        self.writing = threading.RLock()
        self._until = 0.0

    def read(self, what: str, function: Callable[[Github], T], *, announced: bool = False) -> T:
        """Read. With `announced` a 404 is believed only after a while."""
        missing, unanswered = iter(ANNOUNCED_SECONDS if announced else ()), iter(AGAIN_SECONDS)
        while True:
            try:
                return self._limited(what, function)
            except (GithubException, requests.RequestException) as error:
                waits = missing if isinstance(error, UnknownObjectException) else unanswered if _unclear(error) else iter(())
                wait = next(waits, None)
                if wait is None:
                    raise _failed(what, error) from error
                self.pause(wait)

    def write(self, what: str, function: Callable[[Github], T]) -> T:
        """Write something that may be written again: an edit, a close. `function` looks first whether it is written already."""
        with self.writing:
            for wait in (*AGAIN_SECONDS, None):
                try:
                    return self._limited(what, function)
                except (GithubException, requests.RequestException) as error:
                    if wait is None or not _unclear(error):
                        raise _failed(what, error) from error
                    self.pause(wait)
        raise AssertionError("the last try returns or raises")

    def make(self, what: str, look: Callable[[Github], T | None], create: Callable[[Github], T]) -> T:
        """Create what `look` doesn't find. Where the answer to the creation was lost, or it is there already, it is looked for again."""
        with self.writing:
            for wait in (*AGAIN_SECONDS, None):
                found = self.read(what, look, announced=True)
                if found is not None:
                    return found
                try:
                    return self._limited(what, create)
                except (GithubException, requests.RequestException) as error:
                    exists = isinstance(error, GithubException) and error.status == 422
                    if wait is None or not (exists or _unclear(error)):
                        raise _failed(what, error) from error
                    self.pause(wait)
        raise AssertionError("the last try returns or raises")

    def attempt(self, what: str, function: Callable[[Github], T]) -> T:
        """Write once, and leave it to the caller what GitHub's refusal means. Only rate limits are waited for."""
        with self.writing:
            return self._limited(what, function)

    def _limited(self, what: str, function: Callable[[Github], T]) -> T:
        """Ask once no limit stands. A limited request was not carried out, so it may be made again."""
        met = 0
        while True:
            left = self._until - self.clock()
            if left > PATIENT_SECONDS:
                raise TryLater(f"GitHub: {what}: a rate limit lasts {left / 60:.0f} minutes more", left)
            if left > 0:
                self.pause(left)
            try:
                return self._once(function)
            except GithubException as error:
                seconds = _limit(error, self.clock(), LIMIT_SECONDS * 2**met)
                if seconds is None or met == LIMITS_WAITED:
                    raise
                met += 1
                self._until = self.clock() + min(seconds, LIMIT_SECONDS_MAX)

    def _once(self, function: Callable[[Github], T]) -> T:
        """Ask; once more with a new token where the old one is refused."""
        try:
            return function(self.access.github())
        except BadCredentialsException:
            self.access.renew()
            return function(self.access.github())


def _limit(error: GithubException, now: float, unsaid: float) -> float | None:
    """The seconds that a rate limit asks for, `unsaid` where it names none; None where it is another refusal."""
    if error.status not in (403, 429):
        return None
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    after, reset = headers.get("retry-after", ""), headers.get("x-ratelimit-reset", "")
    if after.isdigit():
        return float(after)
    if headers.get("x-ratelimit-remaining") == "0" and reset.isdigit():
        # Told in whole seconds, of GitHub's clock.
        return max(float(reset) - now, 0.0) + 1.0
    return unsaid if "rate limit" in told(error).lower() else None


def _unclear(error: GithubException | requests.RequestException) -> bool:
    """Whether it is unknown if what was asked was carried out."""
    return isinstance(error, requests.RequestException) or error.status >= 500


def _failed(what: str, error: GithubException | requests.RequestException) -> FactoryError:
    said = told(error) if isinstance(error, GithubException) else f"{type(error).__name__}: {error}"
    kind = Missing if isinstance(error, GithubException) and error.status in (404, 410) else FactoryError
    return kind(f"GitHub: {what}: {said}")
