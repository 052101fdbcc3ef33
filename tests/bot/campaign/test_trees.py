"""The specs of commits: what is sound is checked once, what has faults each time, a copy that was forgotten is made again, and a commit
that can't be had now is none without specs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from formula import write_spec

from bot import specs
from bot.github.git import Clone
from bot.specs import Trees
from runner.errors import FactoryError
from runner.lint import lint_paths


def test_a_sound_commit_is_checked_once_and_one_with_faults_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = tmp_path / "remote.git"
    subprocess.run(["git", "init", "-q", "--bare", str(remote)], check=True)
    clone = Clone(tmp_path / "clone", f"file://{remote}", lambda: "t")
    folder = write_spec(tmp_path / "double-formula")
    files = {f"kernel-specs/double-formula/{one.relative_to(folder)}": one.read_bytes() for one in folder.rglob("*") if one.is_file()}
    sound = clone.commit(None, files, "sound")
    broken = clone.commit(sound, {"kernel-specs/double-formula/spec.yaml": b"id: 1\n"}, "broken")
    checked: list[str] = []
    monkeypatch.setattr(specs, "lint_paths", lambda paths: checked.append(paths[0].parents[1].name) or lint_paths(paths))
    trees = Trees(clone, tmp_path / "trees")
    first = trees.survey(sound)
    assert [one.spec.id for one in first.specs] == ["double-formula"]
    assert trees.survey(sound) == first
    assert trees.survey(broken).faults == trees.survey(broken).faults != ()
    assert checked == [sound, broken, broken]
    trees.forget(sound)
    assert not first.specs[0].folder.exists()
    assert trees.survey(sound) == first
    assert first.specs[0].folder.is_dir()
    assert checked == [sound, broken, broken, sound]


def test_a_commit_that_is_gone_has_no_specs_and_one_that_cannot_be_fetched_is_an_error(tmp_path: Path) -> None:
    remote = tmp_path / "remote.git"
    subprocess.run(["git", "init", "-q", "--bare", str(remote)], check=True)
    trees = Trees(Clone(tmp_path / "clone", f"file://{remote}", lambda: "t"), tmp_path / "trees")
    assert trees.survey("1" * 40).specs == ()
    remote.rename(tmp_path / "elsewhere.git")
    with pytest.raises(FactoryError, match="fetch"):
        trees.survey("1" * 40)
