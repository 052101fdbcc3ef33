"""Runs the real bot on the formula in processes of its own, and can kill such a process at a named event.

As `driver.py` of the campaign's tests: for each line of JSON on the standard input a child is forked that serves one repository until
so many campaigns have ended, and its exit status is answered. `Stand` writes the lines and says what is in them.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import uvicorn
from dbos import DBOS
from dbos._dbos import _get_dbos_instance, _get_or_create_dbos_registry
from dbos._sys_db import SystemDatabase
from driver import Killer, dotted, forked
from formula import FormulaBench
from rich.console import Console

from bot import service
from bot.campaign import actions, pulls, workflow
from bot.campaign.actions import ActionsEvaluation
from bot.campaign.batches import Batches
from bot.campaign.dispatched import Patience
from bot.campaign.engine import UNFINISHED
from bot.campaign.journal import Journal
from bot.campaign.live import Terminal
from bot.campaign.local import LocalEvaluation
from bot.campaign.ports import EvaluatePort
from bot.campaign.store import Store
from bot.campaign.workflow import CampaignWorkflow
from bot.dashboard import convergence
from bot.evidence.notebook import Notebook
from bot.github import asking
from bot.github.auth import Access, App
from bot.github.client import Repository
from bot.github.git import Clone
from bot.settings import Settings
from bot.webhook import create_app
from runner.identity import harness_hash

# What the steps import when they first need it is imported before any child is made.
for late in (
    "bot.dashboard.lessons",
    "bot.dashboard.results",
    "bot.evidence.lessons",
    "runner.strategies",
    # And what serving, and the engine's database, need.
    "anyio._backends._asyncio",
    "dbos._sys_db_sqlite",
    "pydantic.v1",
    "sqlalchemy.dialects.sqlite",
    "uvicorn.lifespan.off",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto",
):
    importlib.import_module(late)

# How often the engine and the driver look, where a second is usual: quick, and not so often that looking is what takes the time.
POLL_SECONDS = 0.1
PORT_CALLS = ("started", "progressed", "published", "answered", "reviewed", "merged", "ended")
CLIENT_CALLS = (
    "open_pull_request",
    "edit_pull_request",
    "close",
    "merge",
    "request_review",
    "kept_comment",
    "kept_issue",
    "check",
    "dispatch",
)


def where() -> str:
    """Which part of the bot asks: a campaign, a delivery, or the timer. Only what a campaign does comes in the same order each time."""
    name = DBOS.workflow_id
    return "timer's " if name is None else "delivery's " if name.startswith("delivery-") else ""


def watch(killer: Killer) -> None:
    """Have the killer see every commit of the engine, every record, and every call of the port and the client that writes."""
    killer.around(SystemDatabase, "record_operation_result", lambda _, result, **__: f"{where()}commit of {result['function_name']}")
    killer.around(SystemDatabase, "update_workflow_outcome", lambda *_, **__: f"{where()}commit of a workflow's end")
    killer.around(SystemDatabase, "init_workflow", lambda *_, **__: f"{where()}commit of a workflow's start")
    killer.around(CampaignWorkflow, "_guarded", lambda *_: "step's body")
    killer.around(Notebook, "record", lambda _, experiment: f"record of {experiment.tier}")
    killer.around(Batches, "save", lambda *_: "save of a batch")
    killer.around(Clone, "push", lambda *_, **__: f"{where()}push")
    for name in PORT_CALLS:
        killer.around(pulls.PullRequests, name, lambda *_, name=name: f"port's {name}")
    for name in CLIENT_CALLS:
        killer.around(Repository, name, lambda *_, name=name, **__: f"{where()}call of {name}")


def service_of(asked: dict[str, Any]) -> service.Service:
    """The bot as `kernel-factory serve` makes it, but for the judge, which is the formula, and for waits, which are short."""
    access = Access(asked["api_url"], App(asked["app_id"], asked["app_key"], asked["installation"]))
    repository = Repository(access, asked["repository"], lambda seconds: time.sleep(min(seconds, asked["pause"])))
    state = Path(asked["state"])
    clone = Clone(state / "clone", f"{asked['git_url']}/{asked['repository']}.git", access.token, access.renew)
    login = access.login()

    def evaluation(journal: Journal, store: Store) -> EvaluatePort:
        if not asked["runs"]:
            return LocalEvaluation(FormulaBench(), journal, store)
        bench, patience = FormulaBench(harness_hash()), Patience(poll=0.05, queue=asked["queue"], overrun=asked["queue"])
        # The formula has no samples that a result could be held against.
        return ActionsEvaluation(repository, clone, journal, store, login=login, gate=bench, patience=patience, doubts=lambda *_: ())

    def looking(_: object) -> Terminal:
        return Terminal(Console(file=sys.stderr, soft_wrap=True))

    return service.Service(state, repository, clone, login, Settings(), evaluation, looking, asked["reconcile"])


def ended() -> int:
    """How many campaigns have ended."""
    campaigns = DBOS.list_workflows(name="campaign", load_input=False, load_output=False)
    return sum(one.status not in UNFINISHED for one in campaigns)


def command(asked: dict[str, Any]) -> None:
    """The bot's part: from its start to the end of so many campaigns, and one more look at everything."""
    faulthandler.register(signal.SIGUSR1)
    watch(Killer(asked.get("kill"), asked.get("log")))
    _get_or_create_dbos_registry().get_internal_queue()._polling_interval_sec = POLL_SECONDS
    workflow.LOOK_SECONDS, actions.PROBE_SECONDS = asked["look"], asked["probe"]
    asking.PATIENT_SECONDS, service.AGAIN_SECONDS = asked["patient"], asked["again"]
    if not asked["plots"]:
        convergence.write_plot = dotted
    logging.basicConfig(level=logging.INFO)
    for loud in ("httpx", "uvicorn", "github"):
        logging.getLogger(loud).setLevel(logging.WARNING)
    listener = socket.create_server(("127.0.0.1", asked["port"]), reuse_port=True)
    with service_of(asked) as bot:
        _get_dbos_instance()._sys_db._notification_listener_polling_interval_sec = POLL_SECONDS
        app = create_app(asked["secret"].encode(), bot.claim, asked["repository"])
        app.get("/campaigns")(bot.campaigns)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off"))
        threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True).start()
        while ended() < asked["until"]:
            time.sleep(POLL_SECONDS)
        # What the timer would find a little later is found now, so that a test sees all that follows from the last merge.
        bot.dispatch.look()
        print(json.dumps(bot.campaigns()), flush=True)
        os._exit(0)


if __name__ == "__main__":
    forked(command)
