"""Runs the bot on the formula in processes of their own, and can kill such a process at a named event.

As `driver.py`: for each line of JSON on the standard input, `{"forge", "state", "until", "output", "kill", "log"}`, a child is forked
that serves the small forge in `forge` until a campaign has ended (`until` is how many), and its exit status is answered.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

from dbos._dbos import _get_or_create_dbos_registry
from dbos._sys_db import SystemDatabase
from driver import Killer, forked
from formula import FormulaBench
from rich.console import Console
from small_forge import BOT, SmallForge

from bot.campaign import pulls, workflow
from bot.campaign.journal import Journal
from bot.campaign.live import Terminal
from bot.campaign.local import LocalEvaluation
from bot.campaign.ports import EvaluatePort
from bot.campaign.store import Store
from bot.campaign.workflow import CampaignWorkflow
from bot.evidence.notebook import Notebook
from bot.service import Service
from bot.settings import Settings

for late in ("bot.dashboard.convergence", "bot.dashboard.lessons", "bot.dashboard.results", "bot.evidence.lessons", "runner.strategies"):
    importlib.import_module(late)


def evaluation(journal: Journal, store: Store) -> EvaluatePort:
    return LocalEvaluation(FormulaBench(), journal, store)


def command(asked: dict[str, Any]) -> None:
    """The bot's part: from its start to the end of so many campaigns."""
    killer = Killer(asked.get("kill"), asked.get("log"))
    killer.around(SystemDatabase, "record_operation_result", lambda _, result, **__: f"commit of {result['function_name']}")
    killer.around(SystemDatabase, "update_workflow_outcome", lambda *_, **__: "commit of a workflow's end")
    killer.around(SystemDatabase, "init_workflow", lambda *_, **__: "commit of a workflow's start")
    killer.around(CampaignWorkflow, "_guarded", lambda *_: "step's body")
    killer.around(Notebook, "record", lambda _, experiment: f"record of {experiment.tier}")
    for method in ("started", "progressed", "published", "reviewed", "merged", "ended"):
        killer.around(pulls.PullRequests, method, lambda *_, name=method: f"call of {name}")
    _get_or_create_dbos_registry().get_internal_queue()._polling_interval_sec = 0.05
    workflow.LOOK_SECONDS = 0.5
    logging.basicConfig(level=logging.INFO)
    forge = SmallForge(Path(asked["forge"]))
    with Service(
        Path(asked["state"]),
        forge,
        forge.clone,
        BOT,
        Settings(),
        evaluation,
        lambda _: Terminal(Console(file=sys.stderr)),
        reconcile_seconds=asked.get("reconcile", 0.5),
    ) as service:
        while sum(not known.running for known in service.known()) < asked["until"]:
            time.sleep(0.05)
        print(json.dumps([service.told(known) for known in service.known()]))
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    forked(command)
