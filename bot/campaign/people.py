"""People's own pull requests: which of them ask for a verdict, and on which kernel."""

from __future__ import annotations

from dataclasses import dataclass

from bot.campaign.branches import SPECS
from bot.hosting import Clone, PullRequest
from runner.candidate import Candidate, candidate_from_files


@dataclass(frozen=True)
class Kernel:
    """The kernel that a pull request brings, and the spec that it is for."""

    spec: str
    candidate: Candidate


def kernel_of(clone: Clone, base: str, pull: PullRequest) -> Kernel | None:
    """The kernel of a pull request that touches only one spec's `kernel/`, or None where it touches anything else.

    `base` is the default branch's commit. Raises `FaultsError` with the faults of the kernel's files, named as the repository names them.
    """
    touched = clone.changed(clone.merge_base(base, pull.head), pull.head)
    folders = {tuple(name.split("/")[:3]) for name in touched}
    if len(folders) != 1:
        return None
    (folder,) = folders
    if len(folder) != 3 or folder[0] != SPECS or folder[2] != "kernel":
        return None
    where = "/".join(folder)
    return Kernel(folder[1], candidate_from_files(clone.tree(pull.head, where), where))
