"""What is told of a campaign on a forge when it has ended: the summary for programs."""

from __future__ import annotations

from typing import Any

from bot.campaign.branches import campaign_of
from bot.campaign.people import entered_by
from bot.campaign.state import Ending, Order
from bot.campaign.steps import lessons_of
from bot.campaign.store import Store
from bot.campaign.story import table
from bot.evidence.notebook import Notebook
from bot.hosting import Repository

LESSONS_TOLD = 5


def hosted_summary(repository: Repository, notebook: Notebook, store: Store, order: Order, ending: Ending) -> dict[str, Any]:
    """The content of the demo's `--json`, and the lines of the winner's table and the lessons for its story."""
    experiments = notebook.experiments(order.spec, campaign=order.campaign)
    pulls = []
    for pull in repository.pull_requests(state="all"):
        person = entered_by(pull.number)
        agent = pull.branch.rpartition("/")[2] if campaign_of(pull.branch) == order.campaign and not pull.fork else person
        mine = [one for one in experiments if one.agent == agent and one.against == "baseline"]
        if not mine:
            continue
        best = max(mine, key=lambda one: (one.tier == "full", one.verdict == "accepted", one.speedup or 0.0))
        state = "merged" if pull.merged else pull.state
        pulls.append({"number": pull.number, "agent": agent, "state": state, "verdict": str(best.verdict)})
    winner, merged = ending.winner, ending.merged
    lessons = lessons_of(notebook.experiments(order.spec, first=order.campaign), notebook.remarks(order.spec))
    return {
        "campaign": order.campaign,
        "status": ending.status,
        "reason": ending.reason,
        "rounds": ending.rounds,
        "pull_requests": sorted(pulls, key=lambda one: one["number"]),
        "winner": {
            "number": merged.number,
            "agent": winner.agent,
            "sha": merged.head,
            "kernel_tree": winner.kernel_tree,
            "speedup": winner.speedup,
            "interval": list(winner.interval),
        }
        if winner is not None and merged is not None
        else None,
        "approved_by": merged.approved_by or None if merged is not None else None,
        "merged": merged.sha if merged is not None else None,
        "merged_kernel_tree": merged.kernel_tree if merged is not None else None,
        "evaluations": len(experiments),
        "seconds": ending.seconds,
        "table": table(store.result(winner.result)) if winner is not None else [],
        "lessons": [lesson.statement for lesson in lessons[:LESSONS_TOLD]],
    }
