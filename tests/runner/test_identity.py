"""Identities: git's own tree hash, and hashes that change exactly when what they name changes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import runner
from runner.candidate import candidate_from_files, with_knobs
from runner.identity import git_tree, harness_hash, source_hash, spec_hash

NAMES = st.text(alphabet="abcXYZ019._-é ", min_size=1, max_size=12).filter(lambda name: name not in (".", "..") and name.lower() != ".git")

LAUNCH = b"""
sources: [k.cpp]
build: {defines: {U: u}}
knobs: {u: [1, 2, 4]}   # a comment
launches: [{function: k, args: [x, {i64: rows}]}]
"""


def written_tree(folder: Path, files: dict[str, bytes]) -> str:
    """What git itself calls the tree of these files."""
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)

    def git(*arguments: str) -> str:
        command = ["git", "-c", "core.hooksPath=/dev/null", "-c", "core.autocrlf=false", *arguments]
        return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet", "--object-format=sha1")
    git("add", "--all", "--force")
    return git("write-tree")


@settings(max_examples=8, deadline=None)
@given(files=st.dictionaries(NAMES, st.binary(max_size=200), max_size=5))
def test_the_tree_is_what_git_writes(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]) -> None:
    assert git_tree(files) == written_tree(tmp_path_factory.mktemp("git") / "tree", files)


def test_names_are_ordered_by_their_bytes(tmp_path: Path) -> None:
    files = {"b.cpp": b"1", "B.hpp": b"2", "a-b.cpp": b"", "a.cpp": b"x" * 5000, "a_b.cpp": b"\r\n", "é.cpp": b"3"}
    assert git_tree(files) == written_tree(tmp_path / "tree", files)


@pytest.mark.parametrize("name", ["a/b", "", "a\0"])
def test_a_tree_is_flat(name: str) -> None:
    with pytest.raises(ValueError, match="flat names"):
        git_tree({name: b""})


def test_the_spec_hash_covers_the_spec_and_its_python_files_only(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text("a")
    (tmp_path / "reference.py").write_text("b")
    first = spec_hash(tmp_path)
    (tmp_path / "RESULTS.md").write_text("new")
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "k.py").write_text("new")
    assert spec_hash(tmp_path) == first
    (tmp_path / "reference.py").write_text("c")
    second = spec_hash(tmp_path)
    (tmp_path / "extra.py").write_text("")
    third = spec_hash(tmp_path)
    (tmp_path / "extra.py").rename(tmp_path / "other.py")
    assert len({first, second, third, spec_hash(tmp_path)}) == 4


def test_content_cannot_pass_for_another_file(tmp_path: Path) -> None:
    hashes = set()
    for folder, (first, second) in {"one": (b"ab", b""), "two": (b"a", b"b"), "three": (b"", b"ab")}.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "spec.yaml").write_bytes(first)
        (tmp_path / folder / "a.py").write_bytes(second)
        hashes.add(spec_hash(tmp_path / folder))
    assert len(hashes) == 3


def test_the_harness_hash_covers_the_sources_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "runner"
    (package / "inner").mkdir(parents=True)
    for name in ("__init__.py", "inner/a.py", "inner/b.cpp", "inner/c.hpp", "inner/d.h", "notes.md"):
        (package / name).write_text(name)
    monkeypatch.setattr(runner, "__file__", str(package / "__init__.py"))
    fresh = harness_hash.__wrapped__
    first = fresh()
    (package / "notes.md").write_text("other")
    assert fresh() == first
    for name in ("inner/a.py", "inner/b.cpp", "inner/c.hpp", "inner/d.h"):
        (package / name).write_text("other")
        changed = fresh()
        assert changed != first
        first = changed


def test_the_source_hash_leaves_the_chosen_values_out() -> None:
    candidate = candidate_from_files({"launch.yaml": LAUNCH, "k.cpp": b"// 1\n"}, "k")
    one, two = with_knobs(candidate, {"u": 1}), with_knobs(candidate, {"u": 2})
    assert one.tree != two.tree
    assert source_hash(one) == source_hash(two) == source_hash(candidate)
    other = candidate_from_files({"launch.yaml": LAUNCH, "k.cpp": b"// 2\n"}, "k")
    wider = candidate_from_files({"launch.yaml": LAUNCH.replace(b"4]", b"4, 8]"), "k.cpp": b"// 1\n"}, "k")
    assert len({source_hash(candidate), source_hash(other), source_hash(wider)}) == 3
