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
    request = run.inputs.get("request", "")
    if queued or faults.take("run_hangs", request) is not None:
        run.cancelled.wait()
        return Finished("cancelled")
    if faults.take("run_fails", request) is not None:
        return Finished("failure", log="the forge was told to have it fail")
    if faults.take("run_skipped", request) is not None:
        return Finished("skipped", log="the forge was told to have it skipped")
    return None


def kept(faults: Faults, repository: Repository, run: Run, next_id: Callable[[], int], files: Mapping[str, Path]) -> list[Artifact]:
    """The artifacts that a run is said to have kept."""

    def take(kind: str) -> bool:
        return faults.take(kind, run.inputs.get("request", "")) is not None

    return [_artifact(take, repository, next_id(), name, path) for name, path in files.items() if not take("artifact_missing")]


def _artifact(take: Callable[[str], bool], repository: Repository, number: int, name: str, path: Path) -> Artifact:
    if take("artifact_large"):
        with path.open("ab") as file:
            file.truncate(LARGE)
    if take("artifact_not_zip"):
        path.write_bytes(b"this is not what its name says")
    if take("artifact_not_json"):
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
        with zipfile.ZipFile(path, "w") as archive:
            for entry in names:
                archive.writestr(entry, "this is not what its name says")
    earlier = [one for run in repository.runs.values() for one in run.artifacts if one.name == name and one.path.exists()]
    if earlier and take("artifact_foreign"):
        shutil.copyfile(earlier[0].path, path)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if take("artifact_digest"):
        digest = "0" * 64
    if take("artifact_no_digest"):
        digest = ""
    return Artifact(number, name, path, digest, expired=take("artifact_expired"))
