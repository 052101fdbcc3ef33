"""`kernel-factory serve`: the bot for one repository, listening for its webhooks until it is told to end."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import uvicorn
from rich.console import Console

from bot.campaign.actions import ActionsEvaluation
from bot.campaign.dispatched import Patience
from bot.campaign.journal import Journal
from bot.campaign.live import Terminal
from bot.campaign.ports import EvaluatePort, Watch
from bot.campaign.processes import end_descendants
from bot.campaign.state import Order
from bot.campaign.store import Store
from bot.github.auth import Access, App, Credentials, Personal
from bot.github.client import Repository
from bot.github.git import Clone
from bot.service import Service
from bot.settings import Settings
from bot.webhook import create_app
from runner.errors import FactoryError

SETTLE_SECONDS = 2.0


class _Server(uvicorn.Server):
    """Leaves signals alone: uvicorn's own handlers would wait for campaigns that run for hours."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(settings: Settings, state: Path) -> None:
    """Serve until SIGINT or SIGTERM; the process ends here. What was under way continues when it is started again.

    Raises `FactoryError` where a setting is missing, or the forge can't be reached at the start.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    for loud in ("httpx", "uvicorn", "github", "matplotlib"):
        logging.getLogger(loud).setLevel(logging.WARNING)
    secret = settings.webhook_secret.get_secret_value() if settings.webhook_secret is not None else ""
    if not secret:
        # Without webhooks the timer is enough: nobody knows this secret, so nobody is believed.
        logging.getLogger("kernel-factory").warning("no webhook secret is set: the bot only looks every %g s", settings.reconcile_seconds)
        secret = secrets.token_hex(32)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ended)
    listener = _listener(settings.host, settings.port)
    with service_of(settings, state, _watch, Patience(poll=min(settings.reconcile_seconds, 5.0))) as service:
        app = create_app(secret.encode(), service.claim, settings.repository, service.campaigns)
        server = _Server(uvicorn.Config(app, log_level="warning", access_log=False))
        print(f"listening on http://{settings.host}:{listener.getsockname()[1]}/webhook", file=sys.stderr, flush=True)
        server.run(sockets=[listener])
    _end()


def service_of(settings: Settings, state: Path, make_watch: Callable[[Order], Watch], patience: Patience | None = None) -> Service:
    """The service that the settings ask for: published on GitHub, evaluated in Actions runs. `FactoryError` names a missing setting."""
    name = settings.repository
    if name is None:
        raise FactoryError("no repository is set; set KERNEL_FACTORY_REPOSITORY to owner/name")
    access = Access(settings.api_url, _credentials(settings), settings.write_seconds)
    repository = Repository(access, name)
    clone = Clone(state / "clone", f"{settings.git_url.rstrip('/')}/{name}.git", access.token, access.renew)
    login = access.login()

    def evaluation(journal: Journal, store: Store) -> EvaluatePort:
        return ActionsEvaluation(repository, clone, journal, store, login=login, patience=patience)

    return Service(state, repository, clone, login, settings, evaluation, make_watch, settings.reconcile_seconds)


def _credentials(settings: Settings) -> Credentials:
    if settings.app_id is not None and settings.app_key is not None and settings.app_installation is not None:
        try:
            return App(settings.app_id, settings.app_key.read_text(encoding="ascii"), settings.app_installation)
        except (OSError, UnicodeDecodeError) as error:
            raise FactoryError(f"{settings.app_key}: the App's private key can't be read: {error}") from error
    if settings.token is not None:
        return Personal(settings.token.get_secret_value())
    raise FactoryError("no identity is set; set KERNEL_FACTORY_APP_ID, …_APP_KEY and …_APP_INSTALLATION, or KERNEL_FACTORY_TOKEN")


def _watch(order: Order) -> Terminal:
    """Lines on standard error: several campaigns can't share a panel."""
    return Terminal(Console(file=sys.stderr, highlight=False, soft_wrap=True, force_terminal=False))


def _listener(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port))
    except OSError as error:
        raise FactoryError(f"can't listen on {host}:{port}: {error.strerror}; set KERNEL_FACTORY_PORT to another (0 draws one)") from error


def _ended(number: int, frame: FrameType | None) -> None:
    _end()


def _end() -> None:
    """End at once: everything that counts is in the database, and no campaign's thread is waited for."""
    end_descendants()
    os._exit(0)
