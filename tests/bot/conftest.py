"""Experiments for the bot's tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bot.evidence.experiment import Experiment
from runner.verdict import Verdict


@pytest.fixture(scope="session")
def make_experiment() -> Callable[..., Experiment]:
    """Makes one screened point, `c1/1/tpe/0` unless told otherwise: timed when a speed-up is given, else failed."""

    def make(index: int = 0, speedup: float | None = None, **other: Any) -> Experiment:
        campaign, number, agent = other.pop("campaign", "c1"), other.pop("round", 1), other.pop("agent", "tpe")
        fields: dict[str, Any] = {
            "id": f"{campaign}/{number}/{agent}/{index}",
            "campaign": campaign,
            "spec": "a-spec",
            "spec_hash": "5" * 64,
            "harness": "6" * 64,
            "device": "a CPU with two cores",
            "round": number,
            "agent": agent,
            "index": index,
            "tier": "screening",
            "kernel_tree": f"{index:040x}",
            "source": "7" * 64,
            "knobs": {},
            "kind": "search",
            "parent": None,
            "hypothesis": "",
            "verdict": Verdict.LAUNCH_ERROR if speedup is None else Verdict.SLOWER,
            "message": "",
            "speedup": speedup,
            "interval": None if speedup is None else (speedup * 0.99, speedup * 1.01),
            "workloads": {},
            "seconds": 1.0,
            "created": f"2026-11-02T10:{index // 60:02d}:{index % 60:02d}.000+00:00",
        }
        return Experiment.model_validate({**fields, **other})

    return make
