"""Candidates and full results in the state folder, by hash, so that the workflow's steps carry hashes only.

    candidates/<git tree>/…          a kernel folder
    results/<sha256>.json            a full result
    evaluations/<experiment id>      the sha256 of that experiment's result
    priors/<sha256>.json             a warm start for a search
    pushers/<commit>                 who pushed it to a campaign's branch

Every file is complete or absent: it is written beside its place and renamed.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from runner.candidate import Candidate, candidate_from_files, read_files, write_candidate
from runner.errors import FactoryError
from runner.result import Result
from runner.spec.models import Policy
from runner.tuning import Trial

# The bounds of what the store may hold; a spec's own were checked when the candidate came in.
STORED = Policy(max_files=64, max_bytes=4_000_000)
# So many candidates are kept as they were read, to be compared with their files instead of parsed again.
CANDIDATES = 64
_TRIALS = TypeAdapter(tuple[Trial, ...])


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file that is there in whole or not at all; its folder is made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:60]}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise FactoryError(f"{path} can't be written: {error.strerror}") from error


class Store:
    """The content of one state folder. Reading what isn't there, or isn't what its hash says, is a `FactoryError`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[tuple[str, Policy], Candidate] = {}

    def candidate_folder(self, tree: str) -> Path:
        """Where the candidate with this tree lies."""
        return self.folder / "candidates" / tree

    def put_candidate(self, candidate: Candidate) -> str:
        """Keep a candidate; returns its tree."""
        folder = self.candidate_folder(candidate.tree)
        if not folder.exists():
            write_candidate(candidate, folder)
        return candidate.tree

    def candidate(self, tree: str, policy: Policy) -> Candidate:
        """The candidate with this tree, read again from its files."""
        folder = self.candidate_folder(tree)
        files = read_files(folder, policy)
        kept = self._read.get((tree, policy))
        if kept is not None and kept.files == files:
            return kept
        candidate = candidate_from_files(files, str(folder), policy)
        if candidate.tree != tree:
            raise FactoryError(
                f"{folder} was changed: its files have the tree {candidate.tree}. Remove the folder and run the campaign again"
            )
        if len(self._read) >= CANDIDATES:
            self._read.clear()
        self._read[tree, policy] = candidate
        return candidate

    def put_result(self, experiment: str, result: Result) -> str:
        """Keep an experiment's full result; returns its hash. Keeping another one for the same experiment replaces the link only."""
        data = result.model_dump_json(by_alias=True, indent=1).encode() + b"\n"
        sha = self._put("results", data)
        write_atomically(self._link(experiment), sha.encode())
        return sha

    def put_evidence(self, data: bytes) -> str:
        """Keep a full result as it was published; returns its hash."""
        return self._put("results", data)

    def result(self, sha: str) -> Result:
        """A full result by its hash."""
        try:
            return Result.model_validate_json(self._get("results", sha))
        except ValidationError as error:
            raise FactoryError(
                f"{self.folder}/results/{sha}.json is not a result of this version ({error.error_count()} faults)"
            ) from error

    def result_of(self, experiment: str) -> str | None:
        """The hash of an experiment's result, or None where none was kept."""
        link = self._link(experiment)
        return link.read_text().strip() if link.is_file() else None

    def put_pusher(self, commit: str, login: str) -> None:
        """Keep who pushed a commit, as a signed delivery told."""
        write_atomically(self.folder / "pushers" / commit, login.encode())

    def pusher(self, commit: str) -> str:
        """Who pushed a commit, empty where no delivery told."""
        path = self.folder / "pushers" / commit
        return path.read_text(encoding="utf-8") if path.is_file() else ""

    def put_prior(self, trials: Sequence[Trial]) -> str:
        """Keep a warm start; returns its hash."""
        return self._put("priors", _TRIALS.dump_json(tuple(trials)))

    def prior(self, sha: str) -> tuple[Trial, ...]:
        """A warm start by its hash."""
        return _TRIALS.validate_json(self._get("priors", sha))

    def _link(self, experiment: str) -> Path:
        return self.folder / "evaluations" / experiment

    def _put(self, kind: str, data: bytes) -> str:
        sha = hashlib.sha256(data).hexdigest()
        path = self.folder / kind / f"{sha}.json"
        if not path.exists():
            write_atomically(path, data)
        return sha

    def _get(self, kind: str, sha: str) -> bytes:
        path = self.folder / kind / f"{sha}.json"
        try:
            data = path.read_bytes()
        except OSError as error:
            raise FactoryError(f"{path} can't be read: {error.strerror}. The state folder was changed by hand") from error
        if hashlib.sha256(data).hexdigest() != sha:
            raise FactoryError(f"{path} was changed: its content no longer has the hash of its name")
        return data
