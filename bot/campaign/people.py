"""People's own pull requests: which of them ask for a verdict, and on which kernel."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from bot.campaign.branches import EVIDENCE, SPECS
from bot.campaign.state import Order
from bot.hosting import Clone, Missing, PullRequest, Unfit
from runner.candidate import Candidate, candidate_from_files
from runner.errors import Fault, FaultsError
from runner.identity import MANIFEST_NAME
from runner.spec.models import Policy

# What stands for a person's pull request in the name of an experiment's agent, before the number.
PERSON = "pr-"


@dataclass(frozen=True)
class Kernel:
    """The kernel that a pull request brings, and the spec that it is for."""

    spec: str
    candidate: Candidate


def entered_by(number: int) -> str:
    """The agent's name that stands for a person's pull request in experiments."""
    return f"{PERSON}{number}"


def number_of(order: Order, agent: str) -> int | None:
    """The person's pull request that an agent's name stands for; None for an agent of the spec's own, whatever it is called."""
    number = agent.removeprefix(PERSON)
    own = {one.name for one in order.agents}
    return int(number) if agent.startswith(PERSON) and agent not in own and number.isdigit() else None


def numbers_of(order: Order, agents: Collection[str]) -> set[int]:
    """The people's pull requests that agents' names stand for."""
    return {number for agent in agents if (number := number_of(order, agent)) is not None}


def kernel_of(clone: Clone, base: str, pull: PullRequest, policy_of: Callable[[str], Policy]) -> Kernel | None:
    """The kernel of a pull request that touches only one spec's `kernel/`, or None where it touches anything else.

    What the bot itself writes beside a kernel (results, page, lessons) does not count: it is written anew for a winner. `base` is the
    default branch's commit. Raises `FaultsError` with the faults of the kernel's files, named as the repository names them.
    """
    try:
        touched = [tuple(name.split("/", 2)) for name in clone.changed(clone.merge_base(base, pull.head), pull.head)]
    except Missing:
        return None  # a history without a common commit, or one that is gone by now, brings no kernel
    if not touched or any(len(parts) != 3 or parts[0] != SPECS for parts in touched):
        return None
    specs = {spec for _, spec, _ in touched}
    names = [name for _, _, name in touched]
    if len(specs) != 1 or not any(name.startswith("kernel/") for name in names):
        return None
    if not all(name.startswith(("kernel/", *EVIDENCE)) for name in names):
        return None
    (spec,) = specs
    where = f"{SPECS}/{spec}/kernel"
    try:
        candidate = candidate_from_files(clone.tree(pull.head, where), where, policy_of(spec))
    except Unfit as error:
        raise FaultsError([Fault(f"{where}/{MANIFEST_NAME}", 1, 1, str(error))]) from error
    if clone.tree_id(pull.head, where) != candidate.tree:
        told = "holds something else than plain files (a link, a folder, an executable): a kernel is plain files"
        raise FaultsError([Fault(f"{where}/{MANIFEST_NAME}", 1, 1, f"the folder {told}")])
    return Kernel(spec, candidate)
