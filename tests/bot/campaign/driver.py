"""Runs campaigns on the formula in processes of their own, and can kill such a process at a named event.

This is a small server: it imports everything once, and for each line of JSON on its standard input, `{"spec", "state", "json",
"output", "kill", "log", …}`, forks a child that runs one command's part in a campaign; it answers with the child's exit status,
negative for a signal. A `kill -9` ends the child as it would end any process.

An event is `<what>#<n>`: the n-th time that `what` happened in the child. They are the begin and end of each step's body, the moments
before and after the engine's commit of a step and of the campaign's start and end, and before and after an experiment is recorded.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dbos._dbos import _get_or_create_dbos_registry
from dbos._sys_db import SystemDatabase
from formula import HARNESS, FormulaBench

from bot.campaign import worktree
from bot.campaign.live import Terminal
from bot.campaign.session import Asked, Session
from bot.campaign.story import story, summary
from bot.campaign.workflow import CampaignWorkflow
from bot.dashboard import convergence
from bot.evidence.experiment import Experiment
from bot.evidence.notebook import Notebook
from bot.settings import Settings
from runner.errors import FactoryError

# What the steps import when they first need it is imported before any child is made.
for late in ("bot.dashboard.lessons", "bot.dashboard.results", "bot.evidence.lessons", "runner.strategies"):
    importlib.import_module(late)

PR_SET_PDEATHSIG = 1


class Killer:
    """Counts events, writes them down, and ends the process at the chosen one as `kill -9` does."""

    def __init__(self, kill: str | None, log: str | None) -> None:
        self.kill = kill
        self.log = log
        self.counts: Counter[str] = Counter()

    def event(self, what: str) -> None:
        self.counts[what] += 1
        name = f"{what}#{self.counts[what]}"
        if self.log is not None:
            with Path(self.log).open("a") as file:
                file.write(name + "\n")
        if name == self.kill:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, owner: Any, method: str, label: Callable[..., str]) -> None:
        """Make `method` tell of itself before and after."""
        original = getattr(owner, method)

        def told(*args: Any, **kwargs: Any) -> Any:
            name = label(*args, **kwargs)
            self.event(f"before {name}")
            result = original(*args, **kwargs)
            self.event(f"after {name}")
            return result

        setattr(owner, method, told)


def dotted(experiments: Sequence[Experiment], path: Path, **_: object) -> None:
    """In place of the plot, which is tested by itself: a file that says how many experiments there are, and takes no time to draw."""
    path.write_bytes(f"{len(experiments)} experiments".encode())


def command(asked: dict[str, Any]) -> None:
    """One command's part in a campaign, as `bot.cli` does it, on the formula."""
    killer = Killer(asked.get("kill"), asked.get("log"))
    killer.around(SystemDatabase, "record_operation_result", lambda _, result, **__: f"commit of {result['function_name']}")
    killer.around(SystemDatabase, "update_workflow_outcome", lambda *_, **__: "commit of the campaign's end")
    killer.around(SystemDatabase, "init_workflow", lambda *_, **__: "commit of the campaign's start")
    killer.around(CampaignWorkflow, "_guarded", lambda *_: "step's body")
    killer.around(worktree, "write_atomically", lambda path, _: f"write of {path.name}")
    killer.around(worktree, "write_candidate", lambda _, folder: f"write of {folder.name}")
    killer.around(Notebook, "record", lambda _, experiment: f"record of {experiment.tier}")
    convergence.write_plot = dotted
    # A recovered campaign is taken up within this time instead of a second.
    _get_or_create_dbos_registry().get_internal_queue()._polling_interval_sec = 0.05
    options = Asked(
        folder=Path(asked["spec"]),
        state=Path(asked["state"]),
        seed=asked.get("seed"),
        agents=tuple(asked.get("agents", ())),
        candidates=asked.get("candidates"),
        publish=asked.get("publish", True),
    )
    with Session(options, Settings(), FormulaBench(asked.get("harness", HARNESS)), Terminal()) as session:
        report = session.run(session.order())
        killer.event("before the report")
        Path(asked["json"]).write_text(json.dumps(summary(report)))
        print(story(report))
        session.close()
        killer.event("after the report")
        sys.stdout.flush()
        os._exit(0)


def die_with_parent() -> None:
    """Have the kernel end this process when its parent ends, however that ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def child(asked: dict[str, Any], command: Callable[[dict[str, Any]], None]) -> None:
    """Run a command with its output in a file; ends the process."""
    die_with_parent()
    if "pid" in asked:
        Path(asked["pid"]).write_text(str(os.getpid()))
    output = os.open(asked["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    try:
        command(asked)
    except FactoryError as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(2)
    except BaseException:  # noqa: BLE001 - a forked child must not return into the server's loop, whatever happens
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(3)


def forked(command: Callable[[dict[str, Any]], None]) -> None:
    """Answer each line with the exit status of a child that ran the command."""
    die_with_parent()
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            child(json.loads(line), command)
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    forked(command)
