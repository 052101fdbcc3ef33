"""The place in which the client is tested. Whatever it asks there is held against the list of its routes and GitHub's description."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from github_place import Place, place_in

sys.path.insert(0, str(Path(__file__).parents[1] / "forge"))

from description import Listener


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with place_in(tmp_path) as made:
        listener = Listener(made.forge.app.login)
        made.forge.listen(listener)
        yield made
        assert listener.wrong == []
