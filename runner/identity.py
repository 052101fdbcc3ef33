"""What names the judged thing: the git tree of a kernel, the hash of its spec, the hash of this harness."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import runner
from runner.errors import FactoryError

if TYPE_CHECKING:
    from runner.candidate import Candidate

HARNESS_SUFFIXES = frozenset({".py", ".cpp", ".hpp", ".h", ".cu", ".cuh", ".yaml"})
MANIFEST_NAME = "launch.yaml"


def git_tree(files: Mapping[str, bytes]) -> str:
    """The SHA-1 (40 hex digits) of the git tree that holds exactly these files, flat, each a regular file of mode 100644.

    It equals what `git write-tree` prints in a SHA-1 repository.
    """
    entries = []
    for name in sorted(files, key=lambda name: name.encode()):
        if not name or "/" in name or "\0" in name:
            raise ValueError(f"a tree holds flat names only, not {name!r}")
        entries.append(b"100644 " + name.encode() + b"\0" + _git_object("blob", files[name]))
    return _git_object("tree", b"".join(entries)).hex()


def _git_object(kind: str, data: bytes) -> bytes:
    return hashlib.sha1(f"{kind} {len(data)}".encode() + b"\0" + data, usedforsecurity=False).digest()


def spec_hash(folder: Path) -> str:
    """The SHA-256 of `spec.yaml` and the Python files beside it: what decides a verdict, and nothing that the bot writes."""
    paths = [folder / "spec.yaml", *folder.glob("*.py")]
    try:
        return _hash_files((path.name, path.read_bytes()) for path in paths)
    except OSError as error:
        raise FactoryError(f"{folder}: the spec can't be read: {error.strerror}") from None


@lru_cache(maxsize=1)
def harness_hash() -> str:
    """The SHA-256 of all source files of the package `runner`, by relative name; read once a process."""
    root = Path(runner.__file__).parent
    paths = (path for path in root.rglob("*") if path.suffix in HARNESS_SUFFIXES and path.is_file())
    return _hash_files((path.relative_to(root).as_posix(), path.read_bytes()) for path in paths)


def source_hash(candidate: Candidate) -> str:
    """The SHA-256 of a candidate without the values chosen in its table: two candidates that share it are points of one space."""
    manifest = candidate.manifest.model_dump(mode="json", exclude={"table"})
    space = json.dumps(manifest, sort_keys=True).encode()
    sources = [(name, data) for name, data in candidate.files.items() if name != MANIFEST_NAME]
    return _hash_files([*sources, (MANIFEST_NAME, space)])


def _hash_files(files: Iterable[tuple[str, bytes]]) -> str:
    """One hash over names and contents; lengths are hashed too, so that no content can pass for another file's name."""
    total = hashlib.sha256()
    for name, data in sorted(files):
        total.update(f"{name}\0{len(data)}\0".encode() + data)
    return total.hexdigest()
