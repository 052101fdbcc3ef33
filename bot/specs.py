"""The specs of a commit: a copy of their folders, what is wrong with them, and which of them are valid."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.campaign.branches import SPECS
from bot.hosting import Clone, Missing, Unfit
from runner.errors import FactoryError, Fault
from runner.lint import lint_paths, spec_folders
from runner.spec.load import LoadedSpec, load_spec

# So many commits' surveys are remembered.
SURVEYS = 16


@dataclass(frozen=True)
class Survey:
    """What a commit holds: its valid specs, and every fault of the others with its file as the repository names it."""

    commit: str
    specs: tuple[LoadedSpec, ...]
    faults: tuple[Fault, ...]


class Trees:
    """Copies of commits' spec folders below one folder, each made once and never changed."""

    def __init__(self, clone: Clone, folder: Path) -> None:
        self.clone = clone
        self.folder = folder
        # Commits without a fault: to lint may mean to build every kernel. A fault may be the machine's own, so it is looked for again.
        self._sound: dict[str, Survey] = {}

    def specs(self, commit: str) -> Path:
        """The commit's `kernel-specs`; an empty folder where it has none."""
        place = self.folder / commit
        if not place.is_dir():
            self.folder.mkdir(parents=True, exist_ok=True)
            fresh = Path(tempfile.mkdtemp(dir=self.folder, prefix=".new."))
            try:
                self.clone.export(commit, SPECS, fresh / SPECS)
                (fresh / SPECS).mkdir(exist_ok=True)
                fresh.replace(place)
            except OSError:
                # Somebody else made the same copy meanwhile.
                if not place.is_dir():
                    raise
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
        return place / SPECS

    def forget(self, commit: str) -> None:
        """Remove the copy of a commit that nothing begins from. Asked for again, it is made again."""
        self._sound.pop(commit, None)
        shutil.rmtree(self.folder / commit, ignore_errors=True)

    def survey(self, commit: str) -> Survey:
        """Check every spec of a commit, and every kernel in them. A commit that is gone has none; whatever else fails is raised."""
        try:
            root = self.specs(commit)
        except Unfit as error:
            return Survey(commit, (), (Fault(SPECS, 1, 1, str(error)),))
        except Missing:
            return Survey(commit, (), ())
        try:
            folders = spec_folders(root)
        except FactoryError:
            return Survey(commit, (), ())
        if commit in self._sound:
            return self._sound[commit]
        faults: list[Fault] = []
        valid: list[LoadedSpec] = []
        for folder in folders:
            wrong = lint_paths([folder])
            faults += [Fault(_named(root, fault.file), fault.line, fault.column, fault.message) for fault in wrong]
            if not wrong:
                valid.append(load_spec(folder))
        survey = Survey(commit, tuple(valid), tuple(faults))
        if not faults:
            if len(self._sound) >= SURVEYS:
                self._sound.clear()
            self._sound[commit] = survey
        return survey


def _named(root: Path, file: str) -> str:
    """A file of the copy as the repository names it."""
    path = Path(file)
    return path.relative_to(root.parent).as_posix() if path.is_relative_to(root.parent) else file


def spec_named(survey: Survey, identifier: str) -> LoadedSpec | None:
    """The valid spec with this id."""
    return next((spec for spec in survey.specs if spec.spec.id == identifier), None)


def of_spec(faults: Sequence[Fault], identifier: str) -> tuple[Fault, ...]:
    """The faults that lie in one spec's folder."""
    return tuple(fault for fault in faults if fault.file.startswith(f"{SPECS}/{identifier}/"))
