"""The stand itself: a committed spec goes to its merge, judged in the bot or in dispatched runs."""

from __future__ import annotations

import pytest
from factory_stand import KERNEL, Stand


@pytest.mark.parametrize("runs", [False, True])
def test_a_committed_spec_goes_to_its_merge(stand: Stand, runs: bool) -> None:
    stand.commit_spec(approval="none")
    (told,) = stand.run(runs=runs)
    summary = told["summary"]
    assert summary["status"] == "accepted", summary["reason"]
    assert summary["merged"] == stand.head()
    assert stand.tree(KERNEL) == summary["merged_kernel_tree"] == summary["winner"]["kernel_tree"]
    assert bool(stand.repository.runs) is runs
