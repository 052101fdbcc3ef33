"""The spec that the pages of these tests are about."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.spec.load import load_spec
from runner.spec.models import Spec


@pytest.fixture(scope="session")
def spec() -> Spec:
    return load_spec(Path(__file__).parents[3] / "kernel-specs" / "rmsnorm-cpu").spec
