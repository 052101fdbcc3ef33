"""What the forge's misbehaviours make of a run, and of what it kept."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from bot.forge.faults import Faults
from bot.forge.model import Artifact, Repository, Run
from bot.forge.runs import Finished

LARGE = 256 << 20


def misrun(faults: Faults, run: Run, queued: bool) -> Finished | None:
    """How a run ends that is not executed; None where it is to be. One that is `queued` or hangs ends when it is cancelled."""
    if queued or faults.take("run_hangs") is not None:
        run.cancelled.wait()
        return Finished("cancelled")
    if faults.take("run_fails") is not None:
        return Finished("failure", log="the forge was told to have it fail")
    if faults.take("run_skipped") is not None:
        return Finished("skipped", log="the forge was told to have it skipped")
    return None


def kept(faults: Faults, repository: Repository, next_id: Callable[[], int], files: Mapping[str, Path]) -> list[Artifact]:
    """The artifacts that a run is said to have kept."""
    return [_artifact(faults, repository, next_id(), name, path) for name, path in files.items() if faults.take("artifact_missing") is None]


def _artifact(faults: Faults, repository: Repository, number: int, name: str, path: Path) -> Artifact:
    take = faults.take
    if take("artifact_large") is not None:
        with path.open("ab") as file:
            file.truncate(LARGE)
    if take("artifact_not_zip") is not None:
        path.write_bytes(b"this is not what its name says")
    if take("artifact_not_json") is not None:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
        with zipfile.ZipFile(path, "w") as archive:
            for entry in names:
                archive.writestr(entry, "this is not what its name says")
    earlier = [one for run in repository.runs.values() for one in run.artifacts if one.name == name and one.path.exists()]
    if earlier and take("artifact_foreign") is not None:
        shutil.copyfile(earlier[0].path, path)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if take("artifact_digest") is not None:
        digest = "0" * 64
    if take("artifact_no_digest") is not None:
        digest = ""
    return Artifact(number, name, path, digest, expired=take("artifact_expired") is not None)
