"""Runs the workflow on DBOS over a SQLite file: one process at a time, no telemetry, and continues what a killed process left."""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer, SetWorkflowID
from sqlalchemy import URL

from bot.campaign.ports import Suspended
from bot.campaign.state import Ending, Order
from bot.campaign.workflow import CampaignWorkflow
from runner.errors import FactoryError

NAME = "kernel-factory"
# Constant, so that a later version of the code continues the campaigns of an earlier one (with `DBOS.patch` where they differ).
APPLICATION_VERSION = "kernel-factory-1"
EXECUTOR = "this-machine"
UNFINISHED = ["PENDING", "ENQUEUED", "DELAYED"]
POLL_SECONDS = 0.1


class Engine:
    """The durable side of one spec's campaigns, kept in `folder`. Use as a context manager; entering takes the folder's lock."""

    def __init__(self, folder: Path, workflow: CampaignWorkflow) -> None:
        self.folder = folder
        self.workflow = workflow
        self._lock: int | None = None
        self._suspended = threading.Event()
        self._cause: Suspended | None = None

    def __enter__(self) -> Engine:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FactoryError(f"{self.folder} can't be made: {error.strerror}") from error
        self._lock = _take_lock(self.folder / "lock")
        try:
            self.workflow.suspended = self._suspend
            self._launch()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        DBOS.destroy()
        self._release()

    def known(self) -> int:
        """How many campaigns were begun here, finished ones and not."""
        return len(DBOS.list_workflows(name="campaign", load_input=False, load_output=False))

    def start(self, order: Order) -> None:
        """Begin a campaign. One that was begun before is left as it is: unfinished, it is running again since the engine was entered."""
        with SetWorkflowID(order.campaign):
            DBOS.start_workflow(self.workflow.run, order.model_dump(mode="json"))

    def wait(self, order: Order) -> Ending:
        """Wait for a campaign's end. Raises what suspended it: a `FactoryError`, or a defect; the campaign then can be continued."""
        while not self._suspended.wait(POLL_SECONDS):
            status = DBOS.get_workflow_status(order.campaign)
            if status is None or status.status in UNFINISHED:
                continue
            if status.status == "SUCCESS":
                return Ending.model_validate(status.output)
            raise RuntimeError(f"campaign {order.campaign} ended as {status.status}: {status.error}")
        assert self._cause is not None
        raise self._cause.cause or KeyboardInterrupt

    def settle(self, seconds: float) -> bool:
        """Wait for the campaign's thread to suspend itself; False when it hasn't by then."""
        return self._suspended.wait(seconds)

    def _suspend(self, campaign: str, cause: Suspended) -> None:
        self._cause = cause
        self._suspended.set()

    def _launch(self) -> None:
        _quiet(self.folder / "engine.log")
        database = self.folder / "campaigns.sqlite"
        try:
            connection = sqlite3.connect(database)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.close()
        except sqlite3.Error as error:
            raise FactoryError(f"{database} can't be used: {error}. Move it aside, or name another state folder") from error
        config: DBOSConfig = {
            "name": NAME,
            "system_database_url": URL.create("sqlite", database=str(database.resolve())).render_as_string(),
            "application_version": APPLICATION_VERSION,
            "executor_id": EXECUTOR,
            "serializer": DBOSPortableJSONSerializer(),
            "enable_otlp": False,
        }
        DBOS(config=config)
        DBOS.launch()

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _take_lock(path: Path) -> int:
    """An open file that holds the lock until it is closed or the process ends, however it ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise FactoryError(f"a campaign on this spec is running already (process {holder or 'unknown'}); one at a time") from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _quiet(path: Path) -> None:
    """The engine's own messages go to a file; without a handler of ours it would print them."""
    logger: Any = logging.getLogger("dbos")
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()
    handler = logging.FileHandler(path, delay=True)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.propagate = False
