"""Git in a bare repository: refs, commits, diffs and merges. Nothing here knows of pull requests."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ZERO = "0" * 40
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_SHA = re.compile(r"[0-9a-f]{40}")
# A ref's name that is also a plain path, and no lock of another ref.
_PLAIN = re.compile(r"refs(?:/(?!\.)[\w.+-]+(?<!\.lock))+", re.ASCII)
# Words of `git log` that mean the same commits for ever.
_SETTLED = re.compile(r"-\d+|--reverse|\^?[0-9a-f]{40}|[0-9a-f]{40}\.\.[0-9a-f]{40}")
# So many answers about commits, and differences of them, are remembered.
ANSWERS, DIFFERENCES = 512, 32
_STATUS = {"A": "added", "D": "removed", "M": "modified", "T": "changed"}
_FIELDS = "%H%x00%T%x00%P%x00%an%x00%ae%x00%aI%x00%cn%x00%ce%x00%cI%x00%B"


@dataclass(frozen=True)
class Commit:
    """A commit as git tells it; times in ISO 8601."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    author: tuple[str, str, str]
    committer: tuple[str, str, str]
    message: str


@dataclass(frozen=True)
class Changed:
    """A file that two commits differ in, with its part of the diff."""

    path: str
    before: str
    status: str
    added: int
    removed: int
    blob: str
    patch: str


class Bare:
    """One bare repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @staticmethod
    def create(folder: Path, branch: str) -> Bare:
        """A new one, that takes pushes over HTTP and keeps the refs of pull requests to itself."""
        bare = Bare(folder)
        folder.mkdir(parents=True)
        bare.git("init", "--quiet", "--bare", f"--initial-branch={branch}", str(folder))
        for key, value in {
            "http.receivepack": "true",
            "receive.hideRefs": "refs/pull",
            "uploadpack.allowAnySHA1InWant": "true",
            "core.hooksPath": os.devnull,
            "gc.auto": "0",
            "receive.autogc": "false",
        }.items():
            bare.git("config", key, value)
        return bare

    def git(self, *words: str, given: bytes = b"", check: bool = True, more: dict[str, str] | None = None) -> str:
        """What a git command prints, without the line's end. Raises `CalledProcessError`."""
        return self.raw(*words, given=given, check=check, more=more).decode("utf-8", "replace").removesuffix("\n")

    def raw(self, *words: str, given: bytes = b"", check: bool = True, more: dict[str, str] | None = None) -> bytes:
        done = subprocess.run(
            ["git", "--git-dir", str(self.folder), *words],
            input=given,
            capture_output=True,
            check=check,
            env={**environment(), **(more or {})},
        )
        return done.stdout

    def refs(self, prefix: str = "refs/") -> dict[str, str]:
        """The commits of refs, by their full names."""
        loose = self._loose(prefix)
        if loose is not None:
            return loose
        lines = self.git("for-each-ref", "--format=%(objectname) %(refname)", prefix).splitlines()
        return {name: sha for sha, _, name in (line.partition(" ") for line in lines)}

    def head(self, branch: str) -> str | None:
        """A branch's commit."""
        return self.resolve(f"refs/heads/{branch}")

    def resolve(self, name: str) -> str | None:
        """The commit that a name stands for: a SHA, a branch, or a full ref."""
        for one in (
            (name,) if _SHA.fullmatch(name) or name.startswith("refs/") else (f"refs/heads/{name}", f"refs/{name}", f"refs/tags/{name}")
        ):
            found = self._commit_named(self._kept(one) or one)
            if found:
                return found
        return None

    def _kept(self, ref: str) -> str | None:
        """The SHA that a ref's own file holds, which git replaces as a whole; None where only git can tell, as of one that is packed."""
        try:
            kept = (self.folder / ref).read_text(encoding="ascii").strip() if _PLAIN.fullmatch(ref) else ""
        except (OSError, ValueError):
            return None
        return kept if _SHA.fullmatch(kept) else None

    def _loose(self, prefix: str) -> dict[str, str] | None:
        """The refs where each is a file of its own, which needs no git; None where they are kept otherwise, or are being moved."""
        found = {}
        if (self.folder / "packed-refs").exists() or (self.folder / "reftable").exists():
            return None
        for place in sorted((self.folder / prefix).rglob("*")):
            name = place.relative_to(self.folder).as_posix()
            kept = self._kept(name)
            if kept is not None:
                found[name] = kept
            elif not place.is_dir():
                return None
        return found

    def _answer(self, *words: str, settled: bool) -> str:
        """What git prints; from memory where it is `settled`, as all is that follows from commits named by their SHA."""
        return _told(self.folder, *words) if settled else self.git(*words)

    def _commit_named(self, name: str) -> str | None:
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        try:
            return self._answer(*words, settled=_SHA.fullmatch(name) is not None) or None
        except subprocess.CalledProcessError:
            return None

    def update(self, ref: str, sha: str | None, old: str | None = None) -> bool:
        """Move a ref, or delete it; False where it is no longer at `old`."""
        words = ["-d", ref] if sha is None else [ref, sha]
        done = subprocess.run(
            ["git", "--git-dir", str(self.folder), "update-ref", *words, *([old] if old else [])],
            capture_output=True,
            check=False,
            env=environment(),
        )
        return done.returncode == 0

    def commit(self, sha: str) -> Commit:
        """A commit."""
        return self.log(sha, "-1")[0]

    def log(self, *words: str) -> list[Commit]:
        """Commits, as `git log` orders them."""
        found, asked = [], ("log", "-z", f"--format={_FIELDS}%x01", *words, "--")
        for text in self._answer(*asked, settled=all(map(_SETTLED.fullmatch, words))).split("\x01"):
            text = text.strip("\n").lstrip("\0")
            if text:
                sha, tree, parents, an, ae, at, cn, ce, ct, message = text.split("\0", 9)
                found.append(Commit(sha, tree, tuple(parents.split()), (an, ae, at), (cn, ce, ct), message.rstrip("\n")))
        return found

    def merge_base(self, one: str, other: str) -> str | None:
        """The best common ancestor."""
        try:
            return self._answer("merge-base", one, other, settled=all(map(_SHA.fullmatch, (one, other)))) or None
        except subprocess.CalledProcessError:
            return None

    def ancestor(self, one: str, other: str) -> bool:
        """Whether `one` is in the history of `other`."""
        return self.merge_base(one, other) == one

    def changed(self, before: str, after: str) -> Sequence[Changed]:
        """The files that two commits differ in, each named by its SHA."""
        return _changed(self.folder, before, after)

    def names(self, commit: str, folder: str) -> list[str]:
        """The names of what lies in a folder of a commit, which is named by its SHA."""
        paths = self._answer("ls-tree", "--name-only", "-z", commit, f"{folder}/", settled=_SHA.fullmatch(commit) is not None)
        return [path.rpartition("/")[2] for path in paths.split("\0") if path]

    def file(self, commit: str, path: str) -> bytes | None:
        """A file of a commit."""
        done = subprocess.run(
            ["git", "--git-dir", str(self.folder), "cat-file", "blob", f"{commit}:{path}"],
            capture_output=True,
            check=False,
            env=environment(),
        )
        return done.stdout if done.returncode == 0 else None

    def merged_tree(self, base: str, head: str) -> str | None:
        """The tree of a merge, or None where it conflicts."""
        done = subprocess.run(
            ["git", "--git-dir", str(self.folder), "merge-tree", "--write-tree", base, head],
            capture_output=True,
            check=False,
            env=environment(),
        )
        return done.stdout.decode().splitlines()[0] if done.returncode == 0 else None

    def make_commit(self, tree: str, parents: list[str], message: str, author: str, committer: str = "forge") -> str:
        """A commit; names of people are their logins."""
        who = {
            "GIT_AUTHOR_NAME": author,
            "GIT_AUTHOR_EMAIL": f"{author}@users.noreply.localhost",
            "GIT_COMMITTER_NAME": committer,
            "GIT_COMMITTER_EMAIL": "noreply@localhost",
        }
        words = [word for parent in parents for word in ("-p", parent)]
        return self.git("commit-tree", tree, *words, given=message.encode(), more=who)


@functools.lru_cache(maxsize=ANSWERS)
def _told(folder: Path, *words: str) -> str:
    """What git prints about commits that are named by their SHA, which no later push changes. A failure is not remembered."""
    return Bare(folder).git(*words)


@functools.lru_cache(maxsize=DIFFERENCES)
def _changed(folder: Path, before: str, after: str) -> tuple[Changed, ...]:
    """`Bare.changed`, in two questions: the files by their own names, and one diff of all, in the same order, whose names are quoted."""
    bare = Bare(folder)
    fields = bare.raw("diff", "--raw", "--numstat", "-z", "--no-abbrev", "-M", before, after).split(b"\0")
    # Every line of a file's content begins with one of ` +-\\`, so none can be taken for the next file's first.
    patches = iter(re.split(rb"^diff --git ", bare.raw("diff", "-M", before, after), flags=re.MULTILINE)[1:])
    rows, at = [], 0
    while fields[at].startswith(b":"):
        _, _, old_blob, blob, letter = fields[at].decode().split(" ")
        old, path = fields[at + 1], fields[at + (2 if letter[0] in "RC" else 1)]
        at += 3 if letter[0] in "RC" else 2
        # A file that becomes a link, or a link a file, is told as two: one removed, one added.
        patch = b"diff --git ".join(next(patches) for _ in range(2 if letter == "T" else 1))
        rows.append((path, old, _STATUS.get(letter[0], "renamed"), blob if blob != ZERO else old_blob, patch))
    counts = {}
    while at < len(fields) and b"\t" in fields[at]:
        added, removed, path = fields[at].split(b"\t", 2)
        # A renamed file's names follow, the old one first.
        counts[path or fields[at + 2]] = (int(added) if added != b"-" else 0, int(removed) if removed != b"-" else 0)
        at += 1 if path else 3
    return tuple(
        Changed(_text(path), _text(old), status, *counts.get(path, (0, 0)), blob, _hunks(patch)) for path, old, status, blob, patch in rows
    )


def _hunks(patch: bytes) -> str:
    """A file's part of a diff without its head; empty where it has no lines, as of a binary file."""
    return _text(patch[patch.find(b"\n@@") + 1 :]).removesuffix("\n") if b"\n@@" in patch else ""


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def environment() -> dict[str, str]:
    """Git that asks nobody and reads no settings of this machine."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }
