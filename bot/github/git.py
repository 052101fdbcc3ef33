"""A clone without a working tree: what `bot.hosting.Clone` says, by git itself through GitPython, with no hook and no user's settings."""

from __future__ import annotations

import base64
import re
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Generic, TypeVar

import git

from bot.hosting import Missing, Unfit
from runner.errors import FactoryError

FETCHED = ("+refs/heads/*:refs/heads/*", "+refs/pull/*/head:refs/pull/*/head")
PLAIN = ("100644", "100755")
SHA = re.compile(r"[0-9a-f]{40}")
NAME, EMAIL = "Kernel Factory", "kernel-factory@users.noreply.github.com"
EPOCH = "1970-01-01T00:00:00+00:00"
# What git says where a token is refused.
REFUSED = "Authentication failed"
# So many folders' files are remembered, if they are small: each step of a campaign asks for the same few.
TREES, TREE_BYTES = 64, 2 << 20
# And so many commits that were seen here, and folders of commits: a name that is a hash stands for the same for ever.
COMMITS, FOLDERS = 1024, 1024
# No folder is read that has more: anybody may open a pull request, and what it holds is read into memory.
MAX_BYTES, MAX_FILES = 256 << 20, 20_000

V = TypeVar("V")


class Clone:
    """A bare clone of `url` in `folder`. `token` gives a token for each use, which stands in no file and no argument.

    `renew` is called where it is refused, after which `token` gives another; without it a refusal is final.
    """

    def __init__(self, folder: Path, url: str, token: Callable[[], str], renew: Callable[[], None] | None = None) -> None:
        self.url = url
        self._token = token
        self._renew = renew
        self._fetching = threading.Lock()
        self._files: _Remembered[Mapping[str, bytes]] = _Remembered(TREES)
        self._folders: _Remembered[str] = _Remembered(FOLDERS)
        self._here: _Remembered[bool] = _Remembered(COMMITS)
        try:
            self._repository = git.Repo.init(folder, bare=True, mkdir=True)
        except (git.GitError, OSError) as error:
            raise FactoryError(f"{folder} can't be a clone: {error}") from error
        self._repository.git.update_environment(
            # Named, never looked for: without its folder git would take whatever repository lies around the process.
            GIT_DIR=str(folder.resolve()),
            GIT_CONFIG_NOSYSTEM="1",
            GIT_CONFIG_GLOBAL="/dev/null",
            GIT_TERMINAL_PROMPT="0",
            GIT_ASKPASS="true",
            GIT_LITERAL_PATHSPECS="1",
            LC_ALL="C",
        )

    def fetch(self) -> None:
        """Everything that is new: branches and the heads of pull requests."""
        # Two at once would fail to move the same refs.
        with self._fetching:
            self._remote("fetch", "--quiet", "--prune", "--no-tags", "--no-write-fetch-head", self.url, *FETCHED)

    def tree(self, commit: str, path: str) -> Mapping[str, bytes]:
        """The plain files below a folder of a commit, by their path within it; none where there is no such folder.

        Raises `Unfit` where it is too large.
        """
        # The folder's own name stands for its content, whatever commit it is read from.
        name = self._folder(commit, path)
        found = self._files.get(name) if name else {}
        if found is None:
            found = self._read(name, f"{commit[:12]}:{path}")
            if sum(map(len, found.values())) <= TREE_BYTES:
                self._files.put(name, found)
        return dict(found)

    def tree_id(self, commit: str, path: str) -> str | None:
        """The git tree of a folder of a commit, whatever lies in it; None where there is no such folder."""
        return self._folder(commit, path) or None

    def changed(self, before: str, after: str) -> Sequence[str]:
        """The paths in which two commits differ."""
        self._bring(before, after)
        names = self._bytes("diff-tree", "-r", "-z", "--no-renames", "--name-only", before, after).decode("utf-8", "surrogateescape")
        return [name for name in names.split("\0") if name]

    def merge_base(self, one: str, other: str) -> str:
        """The best common ancestor. Raises `Missing` where they have no history in common, or the remote has one of them no more."""
        self._bring(one, other)
        found = self._said("merge-base", one, other, missing="")
        if not found:
            raise Missing(f"commits {one[:12]} and {other[:12]} have no history in common")
        return found

    def commit(self, parent: str | None, changes: Mapping[str, bytes | None], message: str, *, when: str = "") -> str:
        """A commit on `parent` with these files written, or removed where they are None. `when` (ISO 8601) is its time.

        Without a time it has its parent's, so that the same commit made again is the same.
        """
        if parent is not None:
            self._bring(parent)
        when = when or (self._said("show", "--no-patch", "--format=%cI", parent) if parent is not None else EPOCH)
        with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile() as rows:
            index = {"GIT_INDEX_FILE": f"{scratch}/index"}
            if parent is not None:
                self._said("read-tree", parent, env=index)
            blobs = iter(self._blobs([content for content in changes.values() if content is not None]))
            for name, content in changes.items():
                mode, blob = ("0", "0" * 40) if content is None else (PLAIN[0], next(blobs))
                rows.write(f"{mode} {blob}\t{name}\0".encode("utf-8", "surrogateescape"))
            rows.seek(0)
            self._said("update-index", "-z", "--index-info", env=index, stdin=rows)
            tree = self._said("write-tree", env=index)
        people = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (("NAME", NAME), ("EMAIL", EMAIL))}
        dates = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
        parents = ("-p", parent) if parent is not None else ()
        return self._said("commit-tree", *parents, "-m", message, tree, env={**people, **dates})

    def push(self, refspec: str, lease: str | None = None) -> None:
        """Push; with a `lease` only where the remote branch is still at that commit (empty: not there)."""
        held = () if lease is None else (f"--force-with-lease={refspec.rpartition(':')[2]}:{lease}",)
        self._remote("push", "--quiet", "--no-verify", *held, self.url, refspec)

    def export(self, commit: str, path: str, folder: Path) -> None:
        """Write a folder of a commit to `folder`, plain files only; nothing where the commit has no such folder. Raises `Unfit`."""
        for name, data in self.tree(commit, path).items():
            if ".." in PurePosixPath(name).parts or "\0" in name:
                raise Unfit(f"{commit[:12]}:{path} has a file called {name!r}")
            place = folder / name
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
            except OSError as error:
                told = name.encode("ascii", "backslashreplace").decode()[:80]
                raise Unfit(f"{commit[:12]}:{path}: a file called {told} can't be written: {error.strerror}") from error

    def _bring(self, *commits: str) -> None:
        """Fetch where one of these commits is newer than the last fetch. Raises `Missing` for one that the remote no longer has."""
        absent = [one for one in commits if not self._has(one)]
        if absent:
            self.fetch()
        for one in absent:
            if not self._has(one):
                raise Missing(f"commit {one[:12]} is on no branch and in no pull request of {self.url}")

    def _has(self, commit: str) -> bool:
        if self._here.get(commit):
            return True
        found = bool(self._said("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}", missing=""))
        if found and SHA.fullmatch(commit):
            self._here.put(commit, True)
        return found

    def _folder(self, commit: str, path: str) -> str:
        """The git tree of a folder of a commit, empty where it has no such folder. A commit that is newer than the last fetch is fetched.

        Raises `Missing` for a commit that the remote no longer has: that is no commit without files.
        """
        place = f"{commit}:{path}"
        found = self._folders.get(place)
        if found is None:
            self._bring(commit)
            if path:
                # Told as `<mode> <kind> <id>`, then the path; not at all where nothing is there.
                row = self._said("ls-tree", "--full-tree", "-z", "--", commit, path.rstrip("/")).partition("\t")[0].split()
                found = row[2] if row[1:2] == ["tree"] else ""
            else:
                found = self._said("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")
            if SHA.fullmatch(commit):
                self._folders.put(place, found)
        return found

    def _read(self, tree: str, where: str) -> Mapping[str, bytes]:
        """The plain files below a git tree."""
        rows = self._said("ls-tree", "-r", "-l", "-z", tree).split("\0")
        there = [(name, meta.split()) for meta, _, name in (row.partition("\t") for row in rows) if name]
        # Each is told as `<mode> blob <id> <size>`.
        plain = [(name, words[2], int(words[3])) for name, words in there if words[0] in PLAIN]
        if len(plain) > MAX_FILES or sum(size for _, _, size in plain) > MAX_BYTES:
            raise Unfit(f"{where} has more than {MAX_FILES:,} files or {MAX_BYTES:,} bytes; no more are read")
        blobs = {name: blob for name, blob, _ in plain}
        if not blobs:
            return {}
        with tempfile.TemporaryFile() as names:
            names.write("\n".join(blobs.values()).encode())
            names.seek(0)
            told = self._bytes("cat-file", "--batch", "--buffer", stdin=names)
        found, at = {}, 0
        for name in blobs:
            # Each is told as `<id> blob <size>`, a line's end, its bytes, and another line's end.
            start = told.index(b"\n", at) + 1
            end = start + int(told[at:start].split()[2])
            found[name], at = told[start:end], end + 1
        return found

    def _blobs(self, contents: Sequence[bytes]) -> Sequence[str]:
        """Keep these as blobs, as they are; their ids, in their order."""
        if not contents:
            return ()
        with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile() as names:
            for number, content in enumerate(contents):
                place = Path(scratch) / str(number)
                place.write_bytes(content)
                names.write(f"{place}\n".encode())
            names.seek(0)
            return self._said("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=names).split("\n")

    def _remote(self, *words: str) -> None:
        """Run git against the remote; once more with a new token where the old one is refused."""
        try:
            self._asked(*words)
        except FactoryError as error:
            if self._renew is None or REFUSED not in str(error):
                raise
            self._renew()
            self._asked(*words)

    def _asked(self, *words: str) -> None:
        """Run git against the remote, with a token in the environment."""
        header = "Authorization: Basic " + base64.b64encode(f"x-access-token:{self._token()}".encode()).decode()
        self._said(*words, env={"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "http.extraHeader", "GIT_CONFIG_VALUE_0": header})

    def _said(self, *words: str, missing: str | None = None, env: Mapping[str, str] | None = None, stdin: BinaryIO | None = None) -> str:
        """What git says, without its last newline; `missing` where it fails and that is an answer too."""
        try:
            return self._bytes(*words, env=env, stdin=stdin).decode("utf-8", "surrogateescape").rstrip("\n")
        except FactoryError:
            if missing is None:
                raise
            return missing

    def _bytes(self, *words: str, env: Mapping[str, str] | None = None, stdin: BinaryIO | None = None) -> bytes:
        line = ["git", "-c", "core.hooksPath=/dev/null", *words]
        try:
            found = self._repository.git.execute(
                line, istream=stdin, env=dict(env or {}), stdout_as_string=False, strip_newline_in_stdout=False
            )
        except git.GitCommandError as error:
            said = error.stderr.strip().removeprefix("stderr: ").strip("'\n ")
            raise FactoryError(f"git {words[0]}: {said or f'exit status {error.status}'}") from error
        assert isinstance(found, bytes)
        return found


class _Remembered(Generic[V]):
    """What was found under a name, of the last `room` names that were put."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, V] = OrderedDict()

    def get(self, name: str) -> V | None:
        return self._kept.get(name)

    def put(self, name: str, found: V) -> None:
        with self._lock:
            self._kept[name] = found
            if len(self._kept) > self._room:
                self._kept.popitem(last=False)
