"""What a campaign pushes: a branch a lineage whose head is its best, the winner's evidence on top, and every attempt under its own ref.

Nothing here has a working tree, and every commit follows from what it is made of: made again after a crash, it is the same commit.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from bot.campaign.ports import Release
from bot.campaign.state import Order
from bot.campaign.worktree import WorkingTree
from bot.hosting import Clone
from runner.candidate import Candidate
from runner.errors import FactoryError
from runner.identity import git_tree, spec_hash

SPECS = "kernel-specs"
PREFIX = "factory/"
EVIDENCE = ("results/", "RESULTS.md", "lessons.md")


def branch_of(campaign: str, agent: str) -> str:
    """The branch of a lineage."""
    return f"{PREFIX}{campaign}/{agent}"


def campaign_of(branch: str) -> str | None:
    """The campaign that a branch belongs to, or None where it is no lineage's branch."""
    campaign, _, agent = branch.removeprefix(PREFIX).partition("/")
    return campaign if branch.startswith(PREFIX) and agent else None


def folder_of(spec: str) -> str:
    """A spec's folder in the repository."""
    return f"{SPECS}/{spec}"


class Branches:
    """The branches of campaigns, written through one clone."""

    def __init__(self, clone: Clone) -> None:
        self.clone = clone

    def kernel_tree(self, commit: str, spec: str) -> str | None:
        """The git tree of a spec's kernel in a commit, None where there is none."""
        files = self.clone.tree(commit, f"{folder_of(spec)}/kernel")
        return git_tree(files) if files and not any("/" in name for name in files) else None

    def lineage(self, order: Order, agent: str, head: str | None, candidate: Candidate, message: str) -> str:
        """The head that a lineage's branch has with this kernel: its present head where that holds it already, or a commit on top."""
        if head is not None and self.kernel_tree(head, order.spec) == candidate.tree:
            return head
        parent = head or order.commit
        commit = self.clone.commit(parent, self._kernel(order, parent, candidate), message, when=order.started)
        self.push(branch_of(order.campaign, agent), commit, head)
        return commit

    def spec_hash(self, commit: str, spec: str) -> str | None:
        """The hash of a spec in a commit, None where it has none."""
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "spec"
            self.clone.export(commit, folder_of(spec), folder)
            return spec_hash(folder) if (folder / "spec.yaml").is_file() else None

    def evidence(self, release: Release, branch: str, head: str, message: str) -> str:
        """The winner's head: one commit on top of the judged one that touches only the bot's own files, proved by their difference."""
        order, spec = release.order, folder_of(release.order.spec)
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / spec
            self.clone.export(head, spec, folder)
            written = WorkingTree().evidence(release, folder)
            changes: dict[str, bytes | None] = {f"{spec}/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in written}
        if all(self.clone.tree(head, spec).get(name.removeprefix(f"{spec}/")) == data for name, data in changes.items()):
            return head
        commit = self.clone.commit(head, changes, message, when=order.started)
        touched = [name.removeprefix(f"{spec}/") for name in self.clone.changed(head, commit)]
        foreign = [name for name in touched if not name.startswith(EVIDENCE)]
        if foreign or self.kernel_tree(commit, order.spec) != release.winner.kernel_tree:
            raise FactoryError(f"the evidence commit would change {', '.join(foreign) or 'the kernel'}; nothing was pushed")
        self.push(branch, commit, head)
        return commit

    def report(self, branch: str, head: str | None, files: Mapping[str, bytes], message: str, when: str) -> str:
        """The commit of a branch of reports that holds these files: its present head where it does already, or one on top."""
        if head is not None and all(
            self.clone.tree(head, path.rpartition("/")[0]).get(Path(path).name) == data for path, data in files.items()
        ):
            return head
        commit = self.clone.commit(head, dict(files), message, when=when)
        self.push(branch, commit, head)
        return commit

    def push(self, branch: str, commit: str, before: str | None) -> None:
        """Move a branch from where it was seen to `commit`; refused where it has moved meanwhile."""
        self.clone.push(f"{commit}:refs/heads/{branch}", lease=before or "")

    def _kernel(self, order: Order, parent: str, candidate: Candidate) -> Mapping[str, bytes | None]:
        folder = f"{folder_of(order.spec)}/kernel"
        # Beside the kernel a lineage differs from the campaign's beginning in nothing, so the evidence for an earlier kernel goes.
        changes: dict[str, bytes | None] = {}
        for name in self.clone.changed(order.commit, parent):
            changes[name] = self.clone.tree(order.commit, name.rpartition("/")[0]).get(name.rpartition("/")[2])
        changes.update({f"{folder}/{name}": None for name in self.clone.tree(parent, folder)})
        changes.update({f"{folder}/{name}": data for name, data in candidate.files.items()})
        return changes
