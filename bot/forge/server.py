"""The forge as a running server on loopback, and the handle by which the demo and tests set it up and have it misbehave."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from bot.forge.app import create_app
from bot.forge.forge import Forge
from bot.forge.hooks import Delivery, Hook
from bot.forge.model import Write
from bot.forge.web import Exchange

APP_ID = 4711


@dataclass(frozen=True)
class App:
    """What the bot needs to be the forge's App: its private key as PEM, its numbers, and the login that it acts under."""

    private_key: str
    app_id: int
    installation_id: int
    login: str


class Handle:
    """A running forge."""

    def __init__(self, forge: Forge) -> None:
        self.forge = forge
        self.url = forge.url
        self.api_url = forge.shapes.api
        self.app = App(forge.private_key, forge.app_id, forge.installation_id, forge.bot.login)

    def add_user(self, login: str, write: bool = False) -> str:
        """A person; returns a token. The first one who may write is who the pages' forms act for."""
        with self.forge.lock:
            return self.forge.add_user(login, write=write)

    def create_repository(self, full_name: str) -> str:
        """An empty repository `owner/name`; returns its git address."""
        with self.forge.lock:
            self.forge.create_repository(full_name)
        return f"{self.url}/{full_name}.git"

    def bare(self, full_name: str) -> Path:
        """Where a repository lies on this disk."""
        return self.forge.repository(full_name).folder

    def webhook(self, url: str, secret: str) -> None:
        """Send every event from now on to `url`, signed with `secret`; in place of the address before."""
        self.forge.hooks.hooks = [Hook(url, secret)]

    def misbehave(self, kind: str, count: int = 1, *, path: str = "", method: str = "", seconds: float = 1.0, after: int = 0) -> None:
        """Misbehave `count` times (`bot.forge.faults.KINDS`); `path` (a regular expression) and `method` narrow it down (`Faults.add`)."""
        self.forge.faults.add(kind, count, path=path, method=method, seconds=seconds, after=after)

    def protect(self, full_name: str, check: str, app_id: int | None = None) -> None:
        """Merge nothing from now on whose head lacks the success of this check, by this App or any."""
        self.forge.repository(full_name).required.append((check, app_id))

    def listen(self, listener: Callable[[Exchange], None]) -> None:
        """Tell every exchange over the API from now on, in the forge's own thread."""
        self.forge.listeners.append(listener)

    @property
    def misbehaviours_left(self) -> list[str]:
        """Those that are still to come (`Faults.left`)."""
        return self.forge.faults.left()

    @property
    def writes(self) -> Sequence[Write]:
        """Every request so far that asked for a change."""
        return tuple(self.forge.writes)

    @property
    def deliveries(self) -> Sequence[Delivery]:
        """Every delivery so far, dropped ones too."""
        return tuple(self.forge.hooks.deliveries)

    def state(self, full_name: str) -> Any:
        """A repository's record (`bot.forge.model.Repository`), for tests to look at."""
        return self.forge.repository(full_name)


class _Server(uvicorn.Server):
    """Leaves signals to the program that it runs in."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def running(folder: Path, *, port: int = 0, app_id: int = APP_ID) -> Iterator[Handle]:
    """A forge that keeps its repositories and runs below `folder`, on loopback; a free port unless told which. Its runs end with it."""
    folder.mkdir(parents=True, exist_ok=True)
    with socket.create_server(("127.0.0.1", port)) as listener:
        # An answer's head and body are sent apart: without this the body waits 40 ms for the head's acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        forge = Forge(folder.resolve(), f"http://127.0.0.1:{listener.getsockname()[1]}", app_id)
        config = uvicorn.Config(create_app(forge), log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=1)
        server = _Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="forge", daemon=True)
        forge.hooks.start()
        thread.start()
        try:
            yield Handle(forge)
        finally:
            forge.end_runs()
            forge.hooks.stop()
            server.should_exit = True
            thread.join()
