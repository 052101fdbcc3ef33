"""What a bot that lost its database still knows: the campaigns that the forge's dashboard issues tell of.

A record in an issue is where to look, and no more: a winner that waits is taken up only where the bot's own check, which nobody else can
make, stands on exactly that head, and the result of its confirmation lies there.
"""

from __future__ import annotations

from collections.abc import Sequence

from bot.campaign.branches import EVIDENCE, Branches, folder_of
from bot.campaign.records import Record, recorded
from bot.campaign.state import Order, Waiting
from bot.campaign.store import STORED, Store
from bot.hosting import Repository
from runner.candidate import candidate_from_files
from runner.errors import FactoryError


def recalled(repository: Repository) -> Sequence[Record]:
    """The campaigns that the bot's issues tell of, oldest first."""
    found = [recorded(issue.body) for issue in repository.kept_issues()]
    return [record for record in found if record is not None]


def recovered(repository: Repository, branches: Branches, store: Store, record: Record) -> Order:
    """The order of a campaign that had not ended: it goes on from the winner that waits, or else from its beginning."""
    order, waiting = record.order, record.waiting
    kernel = f"{folder_of(order.spec)}/kernel"
    store.put_candidate(candidate_from_files(branches.clone.tree(order.commit, kernel), kernel, STORED))
    if waiting is not None and _stands(repository, branches, store, order, waiting):
        return order.model_copy(update={"waiting": waiting})
    return order.model_copy(update={"waiting": None})


def _stands(repository: Repository, branches: Branches, store: Store, order: Order, waiting: Waiting) -> bool:
    """Whether the forge still holds a waiting winner as it was judged; its kernel and its result are kept then."""
    pull, winner = waiting.pull, waiting.winner
    try:
        request = repository.pull_request(pull.number)
        checks = repository.verdicts(pull.head)
    except FactoryError:
        return False
    if request.head != pull.head and not request.merged:
        return False
    if checks.get(f"{order.campaign}/{winner.kernel_tree}") != "success" or pull.kernel_tree != winner.kernel_tree:
        return False
    folder = folder_of(order.spec)
    if branches.kernel_tree(pull.head, order.spec) != winner.kernel_tree:
        return False
    results = branches.clone.tree(pull.head, f"{folder}/{EVIDENCE[0].rstrip('/')}")
    kept = {store.put_evidence(data) for name, data in results.items() if name.endswith(".json")}
    kernel = candidate_from_files(branches.clone.tree(pull.head, f"{folder}/kernel"), f"{folder}/kernel", STORED)
    return winner.result in kept and store.put_candidate(kernel) == winner.kernel_tree


def judged(repository: Repository, head: str, tree: str, campaigns: Sequence[str]) -> bool:
    """Whether one of these campaigns has told a verdict on this kernel at this head."""
    checks = repository.verdicts(head)
    return any(f"{campaign}/{tree}" in checks for campaign in campaigns)
