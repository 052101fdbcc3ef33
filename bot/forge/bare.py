"""Git in a bare repository: refs, commits, diffs and merges. Nothing here knows of pull requests."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ZERO = "0" * 40
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_SHA = re.compile(r"[0-9a-f]{40}")
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
            found = self.git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{one}^{{commit}}", check=False)
            if found:
                return found
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
        found = []
        for text in self.git("log", "-z", f"--format={_FIELDS}%x01", *words, "--").split("\x01"):
            text = text.strip("\n").lstrip("\0")
            if text:
                sha, tree, parents, an, ae, at, cn, ce, ct, message = text.split("\0", 9)
                found.append(Commit(sha, tree, tuple(parents.split()), (an, ae, at), (cn, ce, ct), message.rstrip("\n")))
        return found

    def merge_base(self, one: str, other: str) -> str | None:
        """The best common ancestor."""
        return self.git("merge-base", one, other, check=False) or None

    def ancestor(self, one: str, other: str) -> bool:
        """Whether `one` is in the history of `other`."""
        return self.merge_base(one, other) == one

    def changed(self, before: str, after: str) -> list[Changed]:
        """The files that two commits differ in."""
        raw = self.git("diff", "--raw", "-z", "--no-abbrev", "-M", before, after).split("\0")
        numbers = self.git("diff", "--numstat", "-z", "--no-renames", before, after).split("\0")
        counts = {}
        for line in numbers:
            if line.count("\t") == 2:
                added, removed, path = line.split("\t")
                counts[path] = (int(added) if added != "-" else 0, int(removed) if removed != "-" else 0)
        found, at = [], 0
        words = {"A": "added", "D": "removed", "M": "modified", "T": "changed"}
        while at < len(raw) and raw[at].startswith(":"):
            _, _, old_blob, blob, letter = raw[at].split(" ")
            old = path = raw[at + 1]
            at += 2
            if letter[0] in "RC":
                path = raw[at]
                at += 1
            text = self.git("diff", "-M", before, after, "--", *dict.fromkeys((old, path)))
            patch = text[text.find("\n@@") + 1 :] if "\n@@" in text else ""
            more, less = counts.get(path, (0, 0))
            found.append(Changed(path, old, words.get(letter[0], "renamed"), more, less, blob if blob != ZERO else old_blob, patch))
        return found

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
