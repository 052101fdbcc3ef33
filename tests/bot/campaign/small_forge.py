"""A forge in a folder: a bare git repository, and pull requests, reviews and checks in one file, so that they outlive the bot.

It does what `bot.hosting` says and logs every write. It is for the campaign's logic and its kill tests; what GitHub really answers is
tested where the client is.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bot.hosting import Annotation, Branch, Merge, PullRequest, Review
from runner.errors import FactoryError

BOT, PERSON, MAIN = "kernel-factory[bot]", "ada", "main"
EMPTY = {"pulls": [], "reviews": [], "comments": [], "issues": [], "checks": {}, "writes": []}
FOLLOW = {
    "GIT_AUTHOR_NAME": "Factory",
    "GIT_AUTHOR_EMAIL": "f@example.org",
    "GIT_COMMITTER_NAME": "Factory",
    "GIT_COMMITTER_EMAIL": "f@example.org",
}


class SmallClone:
    """`Clone` that is the bare repository itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def git(self, *words: str, data: bytes = b"", **environment: str) -> str:
        return self.raw(*words, data=data, **environment).decode().strip()

    def raw(self, *words: str, data: bytes = b"", **environment: str) -> bytes:
        full = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **FOLLOW, **environment}
        done = subprocess.run(["git", "-C", str(self.folder), *words], input=data, capture_output=True, env=full, check=False)
        if done.returncode != 0:
            raise FactoryError(f"git {' '.join(words)}: {done.stderr.decode()}")
        return done.stdout

    def fetch(self) -> None:
        """It is the remote."""

    def tree(self, commit: str, path: str) -> Mapping[str, bytes]:
        try:
            listing = self.raw("ls-tree", "-r", "-z", f"{commit}:{path}").decode()
        except FactoryError:
            return {}
        rows = [row.split("\t", 1) for row in listing.split("\0") if row]
        return {name: self.raw("cat-file", "blob", meta.split()[2]) for meta, name in rows}

    def changed(self, before: str, after: str) -> Sequence[str]:
        return [name for name in self.git("diff-tree", "-r", "-z", "--name-only", before, after).split("\0") if name]

    def merge_base(self, one: str, other: str) -> str:
        return self.git("merge-base", one, other)

    def commit(self, parent: str | None, changes: Mapping[str, bytes | None], message: str, *, when: str = "") -> str:
        with tempfile.TemporaryDirectory() as scratch:
            index = {"GIT_INDEX_FILE": f"{scratch}/index"}
            if parent is not None:
                self.git("read-tree", parent, **index)
            rows = []
            for name, content in changes.items():
                blob = "0" * 40 if content is None else self.git("hash-object", "-w", "--stdin", data=content)
                rows.append(f"{'0' if content is None else '100644'} {blob}\t{name}\0")
            self.git("update-index", "-z", "--index-info", data="".join(rows).encode(), **index)
            tree = self.git("write-tree", **index)
        dates = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when} if when else {}
        return self.git("commit-tree", tree, *(("-p", parent) if parent else ()), "-m", message, **dates)

    def push(self, refspec: str, lease: str | None = None) -> None:
        commit, _, ref = refspec.removeprefix("+").partition(":")
        self.git("update-ref", ref, commit, *(() if lease is None else (lease or "0" * 40,)))

    def export(self, commit: str, path: str, folder: Path) -> None:
        for name, data in self.tree(commit, path).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)


class SmallForge:
    """`Repository` in a folder. What people do there are its other methods."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clone = SmallClone(folder / "bare.git")
        if not self.clone.folder.exists():
            self.clone.folder.mkdir(parents=True)
            self.clone.git("init", "--quiet", "--bare", f"--initial-branch={MAIN}")
            (folder / "state.json").write_text(json.dumps(EMPTY))

    @contextmanager
    def state(self, *write: Any) -> Iterator[dict[str, Any]]:
        """The content of the file; with a `write` it is changed, and the write logged, at once or not at all."""
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            path = self.folder / "state.json"
            state = json.loads(path.read_text())
            yield state
            if write:
                state["writes"].append(list(write))
                (self.folder / "new.json").write_text(json.dumps(state))
                (self.folder / "new.json").replace(path)

    def default_branch(self) -> Branch:
        return Branch(MAIN, self.head(MAIN) or "")

    def head(self, branch: str) -> str | None:
        return self.clone.git("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}") or None

    def pull_requests(self, state: str = "open") -> Sequence[PullRequest]:
        with self.state() as kept:
            found = kept["pulls"]
        pulls = [self._pull(one) for one in found]
        return [pull for pull in pulls if state in ("all", pull.state)]

    def _pull(self, kept: dict[str, Any]) -> PullRequest:
        if kept["state"] == "open":
            kept = {**kept, "head": self.head(kept["branch"])}
        return PullRequest(**kept)

    def pull_request(self, number: int) -> PullRequest:
        return next(pull for pull in self.pull_requests("all") if pull.number == number)

    def open_pull_request(self, branch: str, title: str, body: str, author: str = BOT) -> PullRequest:
        there = [pull for pull in self.pull_requests() if pull.branch == branch]
        if there:
            return there[0]
        with self.state("open", branch) as state:
            number = len(state["pulls"]) + len(state["issues"]) + 1
            pull = {"number": number, "state": "open", "branch": branch, "head": "", "author": author, "title": title, "body": body}
            state["pulls"].append(pull)
        return self.pull_request(number)

    def edit_pull_request(self, number: int, title: str, body: str) -> None:
        now = self.pull_request(number)
        if (now.title, now.body) != (title, body):
            self._change(number, "edit", title=title, body=body)

    def close(self, number: int) -> None:
        with self.state() as state:
            pulls = {one["number"]: one for one in state["pulls"]}
            issue = next((one for one in state["issues"] if one["number"] == number), None)
        if number in pulls and pulls[number]["state"] == "open":
            self._change(number, "close", state="closed", head=self.head(pulls[number]["branch"]))
        elif issue is not None and issue["state"] == "open":
            with self.state("close", number) as state:
                next(one for one in state["issues"] if one["number"] == number)["state"] = "closed"

    def _change(self, number: int, what: str, **changes: Any) -> None:
        with self.state(what, number) as state:
            next(one for one in state["pulls"] if one["number"] == number).update(changes)

    def merge(self, number: int, sha: str, title: str, message: str) -> Merge:
        pull, base = self.pull_request(number), self.default_branch().sha
        if pull.head != sha:
            return Merge(False, "the head has moved")
        try:
            tree = self.clone.git("merge-tree", "--write-tree", base, sha)
        except FactoryError:
            return Merge(False, "it conflicts with the default branch")
        commit = self.clone.git("commit-tree", tree, "-p", base, "-p", sha, "-m", f"{title}\n\n{message}")
        self.clone.push(f"{commit}:refs/heads/{MAIN}", base)
        self._change(number, "merge", state="closed", merged=True, merge_commit=commit, merged_by=BOT, head=sha)
        return Merge(True)

    def reviews(self, number: int) -> Sequence[Review]:
        with self.state() as state:
            return [Review(**{**one, "id": place}) for place, (pull, one) in enumerate(state["reviews"], 1) if pull == number]

    def request_review(self, number: int) -> None:
        """It has nobody to ask."""

    def kept_comment(self, number: int, marker: str, body: str) -> None:
        self._kept("comments", {"number": number, "marker": marker}, {"body": body})

    def kept_issue(self, marker: str, title: str, body: str) -> int:
        with self.state() as state:
            number = len(state["pulls"]) + len(state["issues"]) + 1
        return int(self._kept("issues", {"marker": marker}, {"title": title, "body": body}, number=number, state="open")["number"])

    def _kept(self, kind: str, key: dict[str, Any], value: dict[str, Any], **first: Any) -> dict[str, Any]:
        with self.state() as state:
            there = next((one for one in state[kind] if all(one[name] == of for name, of in key.items())), None)
        if there is not None and all(there[name] == of for name, of in value.items()):
            return there
        with self.state("make" if there is None else "update", kind, *key.values()) as state:
            if there is None:
                state[kind].append({**first, **key, **value})
                return state[kind][-1]
            found = next(one for one in state[kind] if all(one[name] == of for name, of in key.items()))
            found.update(value)
            return found

    def check(
        self,
        sha: str,
        external_id: str,
        status: str,
        conclusion: str | None,
        title: str,
        summary: str,
        annotations: Sequence[Annotation] = (),
    ) -> None:
        made = {"status": status, "conclusion": conclusion, "title": title, "summary": summary}
        made["annotations"] = [[one.path, one.line, one.column, one.message] for one in annotations]
        with self.state() as state:
            there = state["checks"].get(sha, {}).get(external_id)
        if there != made:
            with self.state("make" if there is None else "update", "check", sha, external_id) as state:
                state["checks"].setdefault(sha, {})[external_id] = made

    def checks(self, sha: str) -> dict[str, Any]:
        with self.state() as state:
            return dict(state["checks"].get(sha, {}))

    def file_url(self, commit: str, path: str) -> str:
        return f"https://forge.invalid/{commit}/{path}"

    def redeliver_failed(self) -> None:
        """It delivers nothing."""

    def review(self, number: int, state: str, commit: str, *, by: str = PERSON, body: str = "", counts: bool = True) -> None:
        """A person reviews."""
        with self.state() as kept:
            kept["reviews"].append([number, {"author": by, "state": state, "commit": commit, "body": body, "counts": counts}])
            (self.folder / "state.json").write_text(json.dumps(kept))

    def commit(self, changes: Mapping[str, bytes | None], message: str, branch: str = MAIN) -> str:
        """A person pushes a commit on the default branch's, or the branch's own, head."""
        head = self.head(branch) or self.head(MAIN)
        commit = self.clone.commit(head, changes, message)
        self.clone.push(f"{commit}:refs/heads/{branch}", self.head(branch) or "")
        return commit


def files_of(folder: Path, under: str) -> dict[str, bytes | None]:
    """A folder's files as changes of a commit."""
    return {f"{under}/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
