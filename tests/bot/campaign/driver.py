"""Runs a campaign on the formula in a process of its own, and can kill that process at a named event.

    python driver.py SPEC STATE --json OUT [--kill EVENT] [--log FILE]

An event is `<what>#<n>`: the n-th time that `what` happened in this process. They are what a step's body begins with, the moments
before and after the engine's commit of a step and of the campaign's start and end, and before and after an experiment is recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from dbos._sys_db import SystemDatabase
from formula import FormulaBench

from bot.campaign.live import Terminal
from bot.campaign.session import Asked, Session
from bot.campaign.story import story, summary
from bot.campaign.workflow import CampaignWorkflow
from bot.evidence.notebook import Notebook
from bot.settings import Settings


class Killer:
    """Counts events, writes them down, and ends the process at the chosen one as `kill -9` does."""

    def __init__(self, kill: str | None, log: Path | None) -> None:
        self.kill = kill
        self.log = log
        self.counts: Counter[str] = Counter()

    def event(self, what: str) -> None:
        self.counts[what] += 1
        name = f"{what}#{self.counts[what]}"
        if self.log is not None:
            with self.log.open("a") as file:
                file.write(name + "\n")
        if name == self.kill:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, owner: type, method: str, label: Callable[..., str]) -> None:
        """Make `method` tell of itself before and after."""
        original = getattr(owner, method)

        def told(*args: Any, **kwargs: Any) -> Any:
            name = label(*args, **kwargs)
            self.event(f"before {name}")
            result = original(*args, **kwargs)
            self.event(f"after {name}")
            return result

        setattr(owner, method, told)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("spec", type=Path)
    parser.add_argument("state", type=Path)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--kill")
    parser.add_argument("--log", type=Path)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--no-publish", action="store_true")
    options = parser.parse_args()
    killer = Killer(options.kill, options.log)
    killer.around(SystemDatabase, "record_operation_result", lambda _, result, **__: f"commit of {result['function_name']}")
    killer.around(SystemDatabase, "update_workflow_outcome", lambda *_, **__: "commit of the campaign's end")
    killer.around(SystemDatabase, "init_workflow", lambda *_, **__: "commit of the campaign's start")
    killer.around(CampaignWorkflow, "_guarded", lambda *_: "step's body")
    killer.around(Notebook, "record", lambda _, experiment: f"record of {experiment.tier}")
    asked = Asked(folder=options.spec, state=options.state, seed=options.seed, publish=not options.no_publish)
    with Session(asked, Settings(), FormulaBench(), Terminal()) as session:
        report = session.run(session.order())
        killer.event("before the report")
        options.json.write_text(json.dumps(summary(report)))
        print(story(report))
        session.close()
        killer.event("after the report")


if __name__ == "__main__":
    main()
