"""The clone without a working tree, against a real bare repository: commits that repeat, leases, exports, nobody's hooks."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.github.git import Clone
from bot.hosting import Missing
from runner.errors import FactoryError


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    folder = tmp_path / "remote.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(folder)], check=True)
    return folder


@pytest.fixture
def clone(tmp_path: Path, remote: Path) -> Clone:
    return Clone(tmp_path / "clone", f"file://{remote}", lambda: "secret-token")


def test_a_commit_made_again_is_the_same(clone: Clone) -> None:
    first = clone.commit(None, {"a/x.txt": b"one\n", "b": b"\0\xff"}, "first")
    assert clone.commit(None, {"b": b"\0\xff", "a/x.txt": b"one\n"}, "first") == first
    assert clone.tree(first, "a") == {"x.txt": b"one\n"}
    assert clone.tree(first, "b") == clone.tree(first, "nothing") == {}
    second = clone.commit(first, {"a/x.txt": None, "a/y/z": b"new"}, "second", when="2026-11-30T10:00:00+00:00")
    assert clone.commit(first, {"a/x.txt": None, "a/y/z": b"new"}, "second", when="2026-11-30T10:00:00+00:00") == second
    assert clone.tree(second, "a") == {"y/z": b"new"}
    assert clone.changed(first, second) == ["a/x.txt", "a/y/z"]
    assert clone.merge_base(first, second) == first


def test_a_push_with_a_lease_moves_only_what_was_seen(clone: Clone, remote: Path, tmp_path: Path) -> None:
    first = clone.commit(None, {"x": b"1"}, "first")
    clone.push(f"{first}:refs/heads/main", lease="")
    second = clone.commit(first, {"x": b"2"}, "second")
    with pytest.raises(FactoryError, match="git push"):
        clone.push(f"{second}:refs/heads/main", lease="")
    clone.push(f"{second}:refs/heads/main", lease=first)
    assert git(remote, "rev-parse", "main") == second
    other = Clone(tmp_path / "other", f"file://{remote}", lambda: "t")
    other.fetch()
    assert other.tree(second, "") == {"x": b"2"}
    clone.push(f"+{first}:refs/factory/c/1")
    assert git(remote, "rev-parse", "refs/factory/c/1") == first


def test_a_newer_commit_is_fetched_and_one_that_is_gone_is_not_empty(clone: Clone, remote: Path, tmp_path: Path) -> None:
    first = clone.commit(None, {"k/x": b"1"}, "first")
    clone.push(f"{first}:refs/heads/main")
    other = Clone(tmp_path / "other", f"file://{remote}", lambda: "t")
    other.fetch()
    second = clone.commit(first, {"k/x": b"2"}, "second")
    clone.push(f"{second}:refs/heads/main")
    assert other.tree_id(second, "k") == clone.tree_id(second, "k")
    assert (other.tree(second, "k"), other.tree(second, "n")) == ({"x": b"2"}, {})
    for ask in (other.tree, other.tree_id):
        with pytest.raises(FactoryError, match="commit 123412341234 is on no branch"):
            ask("1234" * 10, "k")


def test_whatever_names_a_newer_commit_fetches_it_first(clone: Clone, remote: Path, tmp_path: Path) -> None:
    first = clone.commit(None, {"x": b"1"}, "first")
    clone.push(f"{first}:refs/heads/main")
    asked: dict[str, Callable[[Clone, str], object]] = {
        "merge_base": lambda other, new: other.merge_base(first, new) == first,
        "changed": lambda other, new: other.changed(first, new) == ["x"],
        "commit": lambda other, new: other.changed(new, other.commit(new, {"y": b"3"}, "third")) == ["y"],
        "export": lambda other, new: other.export(new, "", tmp_path / "out") is None,
    }
    for number, (name, ask) in enumerate(asked.items()):
        other = Clone(tmp_path / name, f"file://{remote}", lambda: "t")
        other.fetch()
        second = clone.commit(first, {"x": b"2"}, "second", when=f"2026-11-30T10:00:0{number}+00:00")
        clone.push(f"+{second}:refs/heads/main")
        assert ask(other, second), name


def test_only_what_is_gone_or_unrelated_is_missing(clone: Clone, remote: Path) -> None:
    first, stranger = clone.commit(None, {"x": b"1"}, "first"), clone.commit(None, {"x": b"2"}, "stranger")
    clone.push(f"{first}:refs/heads/main")
    with pytest.raises(Missing, match="no history in common"):
        clone.merge_base(first, stranger)
    for ask in (clone.merge_base, clone.changed):
        with pytest.raises(Missing, match="commit 123412341234 is on no branch"):
            ask(first, "1234" * 10)
    remote.rename(remote.with_name("away"))
    with pytest.raises(FactoryError, match="git fetch") as failed:
        clone.merge_base(first, "1234" * 10)
    assert not isinstance(failed.value, Missing), "what can't be fetched now may be there"


def test_a_folder_is_only_what_git_has_as_one(clone: Clone) -> None:
    odd = "a*b\n:(top)"
    commit = clone.commit(
        None, {"k/x": b"1", f"{odd}/-r/y": b"2", "file": b"3", "k2/.gitattributes": b"* text eol=crlf\n", "k2/z": b"\n"}, "m"
    )
    assert clone.tree(commit, "k2") == {".gitattributes": b"* text eol=crlf\n", "z": b"\n"}
    assert clone.tree(commit, odd) == {"-r/y": b"2"}
    assert clone.tree_id(commit, "k") == clone.tree_id(commit, "k/")
    assert clone.tree(commit, f"{odd}/-r") == {"y": b"2"}
    for none in ("file", "nothing", "k/x", "-r", "*", "k/x/y"):
        assert (clone.tree_id(commit, none), clone.tree(commit, none)) == (None, {})
    assert sorted(clone.tree(commit, "")) == sorted(["k/x", f"{odd}/-r/y", "file", "k2/.gitattributes", "k2/z"])


def test_only_plain_files_are_exported(clone: Clone, remote: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    git(tmp_path, "clone", "-q", str(remote), str(work))
    (work / "k").mkdir()
    (work / "k" / "plain").write_text("text")
    (work / "k" / "link").symlink_to("/etc/passwd")
    git(work, "add", ".")
    git(work, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "m")
    git(work, "push", "-q", "origin", "HEAD:main")
    clone.fetch()
    clone.export(git(work, "rev-parse", "HEAD"), "k", tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"plain"}


def test_the_token_is_in_no_argument_and_no_file(clone: Clone, remote: Path, tmp_path: Path) -> None:
    hook = tmp_path / "clone" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    commit = clone.commit(None, {"x": b"1"}, "first")
    clone.push(f"{commit}:refs/heads/main")
    assert git(remote, "rev-parse", "main") == commit
    assert "secret-token" not in (tmp_path / "clone" / "config").read_text()
