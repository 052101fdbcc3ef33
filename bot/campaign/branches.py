"""What a campaign pushes: a branch a lineage whose head is its best, and the winner's evidence on top.

Nothing here has a working tree, and every commit follows from what it is made of: made again after a crash, it is the same commit.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bot.campaign.ports import Release
from bot.campaign.state import Order
from bot.campaign.worktree import WorkingTree
from bot.hosting import Clone
from runner.candidate import Candidate
from runner.errors import FactoryError
from runner.identity import spec_hash

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


@dataclass(frozen=True)
class Committed:
    """A winner's head with its evidence: the paths of the result and of the plot in the repository."""

    head: str
    result: str
    plot: str


class Branches:
    """The branches of campaigns, written through one clone."""

    def __init__(self, clone: Clone) -> None:
        self.clone = clone

    def kernel_tree(self, commit: str, spec: str) -> str | None:
        """The git tree of a spec's kernel in a commit, None where there is none."""
        return self.clone.tree_id(commit, f"{folder_of(spec)}/kernel")

    def lineage(self, order: Order, agent: str, head: str | None, candidate: Candidate, message: str, *, own: bool) -> str:
        """The head that a lineage's branch has with this kernel: its present head where that holds it already, or a commit on top.

        A head that is not the campaign's `own` is replaced: nothing of it stays in the branch.
        """
        if head is not None and own and self.kernel_tree(head, order.spec) == candidate.tree:
            return head
        parent = head if head is not None and own else order.commit
        commit = self.clone.commit(parent, self._kernel(order, parent, candidate), message, when=order.started)
        self.push(branch_of(order.campaign, agent), commit, head)
        return commit

    def foreign(self, base: str, head: str, spec: str) -> tuple[str, ...]:
        """The files in which a head differs from its base beside the kernel and what the bot itself writes."""
        folder = folder_of(spec)
        allowed = (f"{folder}/kernel/", *(f"{folder}/{name}" for name in EVIDENCE))
        return tuple(name for name in self.clone.changed(base, head) if not name.startswith(allowed))

    def spec_hash(self, commit: str, spec: str) -> str | None:
        """The hash of a spec in a commit, None where it has none."""
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "spec"
            self.clone.export(commit, folder_of(spec), folder)
            return spec_hash(folder) if (folder / "spec.yaml").is_file() else None

    def evidence(self, release: Release, base: str, head: str, message: str) -> Committed:
        """One commit on top of the judged head that touches only the bot's own files, proved by their difference; not pushed yet.

        `base` is what the head is compared with: evidence that others wrote, or an earlier winner's, is not kept.
        """
        order, spec = release.order, folder_of(release.order.spec)
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / spec
            self.clone.export(base, spec, folder)
            written = WorkingTree().evidence(release, folder)
            names = [f"{spec}/{path.relative_to(folder).as_posix()}" for path in written]
            contents = {name: path.read_bytes() for name, path in zip(names, written, strict=True)}
        changes: dict[str, bytes | None] = {
            name: self._file(base, name) for name in self.clone.changed(base, head) if name.startswith(self._evidence(spec))
        }
        changes.update(contents)
        commit = head
        if any(self._file(head, name) != data for name, data in changes.items()):
            commit = self.clone.commit(head, changes, message, when=order.started)
        touched = [name for name in self.clone.changed(head, commit) if not name.startswith(self._evidence(spec))]
        wrong = (*touched, *self.foreign(base, commit, order.spec))
        if wrong or self.kernel_tree(commit, order.spec) != release.winner.kernel_tree:
            raise FactoryError(f"the evidence commit would change {', '.join(wrong) or 'the kernel'}; nothing was pushed")
        result = next(name for name in names if name.endswith(".json"))
        return Committed(commit, result, next((name for name in names if name.endswith(".png")), ""))

    def delete(self, branch: str, head: str) -> None:
        """Delete a branch that is still at this head."""
        self.clone.push(f":refs/heads/{branch}", lease=head)

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

    def _evidence(self, spec: str) -> tuple[str, ...]:
        return tuple(f"{spec}/{name}" for name in EVIDENCE)

    def _file(self, commit: str, name: str) -> bytes | None:
        folder, _, file = name.rpartition("/")
        return self.clone.tree(commit, folder).get(file)

    def _kernel(self, order: Order, parent: str, candidate: Candidate) -> Mapping[str, bytes | None]:
        folder = f"{folder_of(order.spec)}/kernel"
        # Beside the kernel a lineage differs from the campaign's beginning in nothing, so the evidence for an earlier kernel goes.
        changes = {name: self._file(order.commit, name) for name in self.clone.changed(order.commit, parent)}
        changes.update({f"{folder}/{name}": None for name in self.clone.tree(parent, folder)})
        changes.update({f"{folder}/{name}": data for name, data in candidate.files.items()})
        return changes
