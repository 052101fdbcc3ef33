"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from runner import lock


@pytest.fixture(scope="session", autouse=True)
def own_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests that run beside others judge beside others: none of them is about times, and none waits for another's lock of the machine."""
    with pytest.MonkeyPatch.context() as patch:
        if "PYTEST_XDIST_WORKER" in os.environ:
            patch.setattr(lock, "FOLDERS", (tmp_path_factory.mktemp("locks"),))
        yield
