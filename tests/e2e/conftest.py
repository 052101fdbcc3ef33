"""The stand for tests of the whole factory, and the formula that judges on it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bot" / "campaign"))

from factory_stand import Stand, factory_stand


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    """A factory on a fresh forge whose default branch holds a README and `evaluate.yml`."""
    with factory_stand(tmp_path) as made:
        yield made
