"""How GitHub is asked: expired tokens, rate limits, answers that come late or never, and writes that must not be made twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

import requests
from github import BadCredentialsException, Github, GithubException, UnknownObjectException

from bot.github.auth import Access, told
from runner.errors import FactoryError

T = TypeVar("T")
# After an event a thing may not be there yet: so long is waited before a 404 is believed.
ANNOUNCED_SECONDS = (0.3, 0.7, 1.5, 3.0)
# A write whose outcome is unknown is looked for before it is made again.
AGAIN_SECONDS = (0.5, 2.0)
RATE_WAITS = 5
RATE_SECONDS, RATE_SECONDS_MAX = 30.0, 120.0


class Asking:
    """Reads, and writes one after another, as one identity. `FactoryError` says what could not be done, and what GitHub said."""

    def __init__(self, access: Access, pause: Callable[[float], None] = time.sleep) -> None:
        self.access = access
        self.pause = pause
        # Secondary rate limits punish writes that come at the same time.
        self._writes = threading.RLock()

    def read(self, what: str, function: Callable[[Github], T], *, announced: bool = False) -> T:
        """Read. With `announced` a 404 is believed only after a while."""
        waits = iter(ANNOUNCED_SECONDS if announced else ())
        while True:
            try:
                return self._once(function)
            except UnknownObjectException as error:
                wait = next(waits, None)
                if wait is None:
                    raise _failed(what, error) from error
                self.pause(wait)
            except (GithubException, requests.RequestException) as error:
                raise _failed(what, error) from error

    def write(self, what: str, function: Callable[[Github], T]) -> T:
        """Write something that may be written again: an edit, a close."""
        with self._writes:
            for wait in (*AGAIN_SECONDS, None):
                try:
                    return self._limited(function)
                except (GithubException, requests.RequestException) as error:
                    if wait is None or not _unclear(error):
                        raise _failed(what, error) from error
                    self.pause(wait)
        raise AssertionError("the last try returns or raises")

    def make(self, what: str, look: Callable[[Github], T | None], create: Callable[[Github], T]) -> T:
        """Create what `look` doesn't find. Where the answer to the creation was lost, or it is there already, it is looked for again."""
        with self._writes:
            for wait in (*AGAIN_SECONDS, None):
                found = self.read(what, look)
                if found is not None:
                    return found
                try:
                    return self._limited(create)
                except (GithubException, requests.RequestException) as error:
                    exists = isinstance(error, GithubException) and error.status == 422
                    if wait is None or not (exists or _unclear(error)):
                        raise _failed(what, error) from error
                    self.pause(wait)
        raise AssertionError("the last try returns or raises")

    def attempt(self, function: Callable[[Github], T]) -> T:
        """Write once, and leave it to the caller what GitHub's refusal means. Only rate limits are waited for."""
        with self._writes:
            return self._limited(function)

    def _limited(self, function: Callable[[Github], T]) -> T:
        """Wait as long as a rate limit says. A limited request was not carried out, so it may be made again."""
        for _ in range(RATE_WAITS):
            try:
                return self._once(function)
            except GithubException as error:
                wait = _rate_wait(error)
                if wait is None:
                    raise
                self.pause(min(wait, RATE_SECONDS_MAX))
        return self._once(function)

    def _once(self, function: Callable[[Github], T]) -> T:
        """Ask; once more with a new token where the old one is refused."""
        try:
            return function(self.access.github())
        except BadCredentialsException:
            self.access.renew()
            return function(self.access.github())


def _rate_wait(error: GithubException) -> float | None:
    """The seconds that a rate limit asks for, None where it is another refusal."""
    if error.status not in (403, 429):
        return None
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    after = headers.get("retry-after", "")
    if after.isdigit():
        return float(after)
    return RATE_SECONDS if "rate limit" in told(error).lower() else None


def _unclear(error: GithubException | requests.RequestException) -> bool:
    """Whether it is unknown if the write was carried out."""
    return isinstance(error, requests.RequestException) or error.status >= 500


def _failed(what: str, error: GithubException | requests.RequestException) -> FactoryError:
    said = told(error) if isinstance(error, GithubException) else f"{type(error).__name__}: {error}"
    return FactoryError(f"GitHub: {what}: {said}")
