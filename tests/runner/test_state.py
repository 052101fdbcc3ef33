"""Where the state folder is."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.errors import FactoryError
from runner.state import VARIABLE, state_folder


def test_the_variable_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "a" / "b"))
    assert state_folder() == tmp_path / "a" / "b"
    assert state_folder().stat().st_mode & 0o777 == 0o700


def test_else_it_is_in_the_repository_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    (tmp_path / ".git").mkdir()
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    assert state_folder() == tmp_path / ".kernel-factory"


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file" / "state"))
    with pytest.raises(FactoryError, match=VARIABLE):
        state_folder()
