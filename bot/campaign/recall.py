"""What a bot that lost its database still knows: the campaigns that the forge's dashboard issues tell of.

A record in an issue is where to look, and no more, since whoever may write can change an issue's text. An order counts only where the spec
gives it, at a commit that the default branch holds; a winner that waits is taken up only where the bot's own check, which nobody else can
make, stands on exactly that head, the result of its confirmation lies there and says so, and it is not said to be somebody else's.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from bot.campaign.branches import EVIDENCE, Branches, campaign_of, folder_of
from bot.campaign.orders import hosted_order
from bot.campaign.people import number_of
from bot.campaign.records import Record, recorded
from bot.campaign.state import Order, Pull, Waiting, Winner
from bot.campaign.store import STORED, Store
from bot.hosting import Missing, PullRequest, Repository
from bot.specs import Trees, spec_named
from runner.candidate import candidate_from_files
from runner.errors import FactoryError
from runner.verdict import Verdict


def recalled(repository: Repository) -> Sequence[Record]:
    """The campaigns that the bot's issues tell of, oldest first."""
    found = [recorded(issue.body) for issue in repository.kept_issues()]
    return [record for record in found if record is not None]


def recovered(repository: Repository, branches: Branches, trees: Trees, store: Store, record: Record, base: str, bot: str) -> Order | None:
    """The order of a campaign that had not ended: it goes on from the winner that waits, or else from its beginning.

    None where it is not what the bot itself would order. `base` is the default branch's commit. Raises `FactoryError` where that can't be
    told now.
    """
    told = record.order
    try:
        if branches.clone.merge_base(base, told.commit) != told.commit:
            return None
        spec = spec_named(trees.survey(told.commit), told.spec)
    except (Missing, ValueError):
        return None
    if spec is None:
        return None
    try:
        order = hosted_order(spec, store, told.number, told.commit, told.submission)
        if datetime.fromisoformat(told.started).tzinfo is None:
            return None
    except (FactoryError, ValueError):
        return None
    order = order.model_copy(update={"started": told.started})
    if order != told.model_copy(update={"waiting": None}):
        return None
    waiting = record.waiting
    if waiting is not None and _stands(repository, branches, store, order, waiting, bot):
        return order.model_copy(update={"waiting": waiting})
    return order


def _stands(repository: Repository, branches: Branches, store: Store, order: Order, waiting: Waiting, bot: str) -> bool:
    """Whether the forge still holds a waiting winner as it was judged; its kernel and its result are kept then."""
    pull, winner = waiting.pull, waiting.winner
    try:
        request = repository.pull_request(pull.number)
        checks = repository.verdicts(pull.head)
        owned = _owned(repository, order, pull, request, bot)
    except FactoryError:
        return False
    if not owned or (request.head != pull.head and not request.merged):
        return False
    if checks.get(f"{order.campaign}/{winner.kernel_tree}") != "success" or pull.kernel_tree != winner.kernel_tree:
        return False
    folder = folder_of(order.spec)
    if branches.kernel_tree(pull.head, order.spec) != winner.kernel_tree:
        return False
    results = branches.clone.tree(pull.head, f"{folder}/{EVIDENCE[0].rstrip('/')}")
    kept = {store.put_evidence(data) for name, data in results.items() if name.endswith(".json")}
    kernel = candidate_from_files(branches.clone.tree(pull.head, f"{folder}/kernel"), f"{folder}/kernel", STORED)
    return winner.result in kept and store.put_candidate(kernel) == winner.kernel_tree and _says(store, order, winner)


def _owned(repository: Repository, order: Order, pull: Pull, request: PullRequest, bot: str) -> bool:
    """Whether a waiting winner is said to be whose it is: its author may not approve it, and its origin is closed after the merge."""
    if request.author != bot:
        return pull.origin is None and pull.author == request.author
    origin = number_of(order, request.branch.rpartition("/")[2]) if campaign_of(request.branch) == order.campaign else None
    return pull.origin == origin and (origin is None or repository.pull_request(origin).author == pull.author)


def _says(store: Store, order: Order, winner: Winner) -> bool:
    """Whether a winner's result is about this kernel and this spec, and gives its figures."""
    try:
        result = store.result(winner.result)
    except FactoryError:
        return False
    judged, found = result.identity, result.geomean
    if (judged.kernel_tree, judged.spec_hash, result.verdict) != (winner.kernel_tree, order.spec_hash, Verdict.ACCEPTED):
        return False
    return found is not None and (found.speedup, found.interval) == (winner.speedup, winner.interval)


def judged(repository: Repository, head: str, tree: str, campaigns: Sequence[str]) -> bool:
    """Whether one of these campaigns has told a verdict on this kernel at this head."""
    checks = repository.verdicts(head)
    return any(f"{campaign}/{tree}" in checks for campaign in campaigns)
