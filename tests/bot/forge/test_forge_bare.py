"""The bare repository's answers: differences file by file, whatever the files are called, and refs that are read without git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bot.forge import bare as module
from bot.forge.bare import EMPTY_TREE, Bare, environment

PEOPLE = ("-c", "user.name=a", "-c", "user.email=a@b")
# A name that looks like the head of a file's part of a diff.
ODD = "new\ndiff --git a b\n@@ x"
RAW = b"raw\xff*".decode("utf-8", "surrogateescape")


@pytest.fixture
def bare(tmp_path: Path) -> Bare:
    return Bare.create(tmp_path / "there.git", "main")


def git(work: Path, *words: str) -> str:
    return subprocess.run(["git", *PEOPLE, *words], cwd=work, env=environment(), capture_output=True, text=True, check=True).stdout.strip()


def pushed(bare: Bare, work: Path, branch: str = "main") -> str:
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "--allow-empty", "-m", "m")
    git(work, "push", "--quiet", "--force", str(bare.folder), f"HEAD:refs/heads/{branch}")
    return git(work, "rev-parse", "HEAD")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init", "--quiet")
    return folder


def test_each_file_has_its_own_part_of_the_difference(bare: Bare, work: Path) -> None:
    for name, data in {"tab\tx": b"a\n", ODD: b"q\n", "bin": b"\0\1", "mode": b"z\n", "moved": b"l\n" * 9, "gone": b"g\n"}.items():
        (work / name).write_bytes(data)
    (work / "link").symlink_to("/x")
    first = pushed(bare, work)
    (work / "tab\tx").write_bytes(b"diff --git a/x b/x\n@@ -1 +1 @@\n")
    (work / ODD).write_bytes(b"w\n")
    (work / "bin").write_bytes(b"\0\2")
    (work / "mode").chmod(0o755)
    (work / "moved").rename(work / "mo ved")
    (work / "mo ved").write_bytes(b"l\n" * 9 + b"more\n")
    (work / "gone").unlink()
    (work / "link").unlink()
    (work / "link").write_bytes(b"+diff --git a/y b/y")
    (work / RAW).write_bytes("ü\n".encode())
    second = pushed(bare, work)
    found = {one.path: one for one in bare.changed(first, second)}
    assert {path: (one.status, one.added, one.removed) for path, one in found.items()} == {
        "tab\tx": ("modified", 2, 1),
        ODD: ("modified", 1, 1),
        "bin": ("modified", 0, 0),
        "mode": ("modified", 0, 0),
        "mo ved": ("renamed", 1, 0),
        "gone": ("removed", 0, 1),
        "link": ("changed", 1, 1),
        "raw\ufffd*": ("added", 1, 0),
    }
    assert found["tab\tx"].patch == "@@ -1 +1,2 @@\n-a\n+diff --git a/x b/x\n+@@ -1 +1 @@"
    assert found[ODD].patch == "@@ -1 +1 @@\n-q\n+w"
    assert (found["bin"].patch, found["mode"].patch) == ("", "")
    assert (found["mo ved"].before, found["mo ved"].patch.splitlines()[-1]) == ("moved", "+more")
    assert found["gone"].patch == "@@ -1 +0,0 @@\n-g"
    assert found["link"].patch.startswith("@@ -1 +0,0 @@\n-/x\n\\ No newline at end of file\ndiff --git a/link b/link\n")
    assert found["link"].patch.endswith("\n++diff --git a/y b/y\n\\ No newline at end of file")
    assert found["raw\ufffd*"].patch == "@@ -0,0 +1 @@\n+ü"
    assert [one.status for one in bare.changed(EMPTY_TREE, first)] == ["added"] * 7
    assert list(bare.changed(first, first)) == []


def test_a_branch_is_where_git_has_it_however_that_is_kept(bare: Bare, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = pushed(bare, work)
    assert bare.head("main") == bare.resolve("refs/heads/main") == bare.resolve("heads/main") == first
    second = pushed(bare, work)
    assert (bare.head("main"), bare.head("other")) == (second, None)
    for wrong in ("../../HEAD", "main.lock", "refs/heads/../heads/main", "", "main\n", "-x"):
        assert bare.head(wrong) is None
    # As git has it while it moves a ref: not to be taken for one.
    (bare.folder / "refs/heads/main.lock").write_text(f"{first}\n")
    assert (bare.head("main"), bare.head("main.lock"), bare.refs()) == (second, None, {"refs/heads/main": second})
    (bare.folder / "refs/heads/main.lock").unlink()
    git(work, "tag", "-a", "v1", "-m", "t")
    git(work, "push", "--quiet", str(bare.folder), "v1")
    assert bare.resolve("v1") == bare.resolve("refs/tags/v1") == second
    kept = bare.refs()
    assert kept == {"refs/heads/main": second, "refs/tags/v1": git(work, "rev-parse", "v1")}
    assert bare.refs("refs/tags") == {"refs/tags/v1": kept["refs/tags/v1"]}
    assert bare.refs("refs/pull") == {}
    bare.git("pack-refs", "--all")
    assert (bare.head("main"), bare.resolve("v1"), bare.refs(), bare.refs("refs/tags")) == (
        second,
        second,
        kept,
        {"refs/tags/v1": kept["refs/tags/v1"]},
    )
    assert bare.update("refs/heads/main", first, second)
    assert (bare.head("main"), bare.refs()["refs/heads/main"]) == (first, first)
    bare.git("symbolic-ref", "refs/heads/same", "refs/heads/main")
    assert bare.head("same") == first
    assert bare.update("refs/heads/main", None)
    assert (bare.head("main"), bare.head("same")) == (None, None)


def test_what_a_commit_is_is_asked_of_git_once(bare: Bare, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = "1234" * 10
    assert (bare.resolve(absent), bare.merge_base(absent, absent)) == (None, None)
    first, second = pushed(bare, work), pushed(bare, work)
    base, log, found = bare.merge_base(first, second), bare.log(f"{first}..{second}"), bare.resolve(second)
    assert (base, [one.sha for one in log], found) == (first, [second], second)
    assert [one.sha for one in bare.log("main")] == [second, first]
    third = pushed(bare, work)
    assert [one.sha for one in bare.log("main")] == [third, second, first], "a branch is not remembered"
    head = bare.head("main")
    monkeypatch.setattr(module.subprocess, "run", lambda *_, **__: pytest.fail("git was asked again"))
    assert (bare.merge_base(first, second), bare.log(f"{first}..{second}"), bare.resolve(second)) == (base, log, found)
    assert (bare.head("main"), head) == (third, third)
