"""The place in which the client is tested."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from github_place import Place, place_in


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with place_in(tmp_path) as made:
        yield made
