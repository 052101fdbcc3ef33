"""What no step is prepared for, a full disk or a defect between two steps, holds a campaign up and does not lose it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import factory_stand
import pytest
from factory_stand import ROOT, Stand

from bot import service
from bot.service import HostedEngine


@pytest.mark.parametrize("kind", [pytest.param("engine", marks=pytest.mark.suite), "workflow"])
def test_a_campaign_goes_on_after_a_failure_outside_its_steps(stand: Stand, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    here = Path(__file__).parent
    paths = os.pathsep.join(map(str, (here, ROOT / "tests" / "bot" / "campaign", *filter(None, [os.environ.get("PYTHONPATH")]))))
    environment = {**os.environ, "PYTHONPATH": paths, "FAILS": kind}
    words = [sys.executable, str(here / "failing_driver.py")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environment) as failing:
        monkeypatch.setattr(factory_stand, "driver", lambda: failing)
        stand.commit_spec("none", rounds=1, candidates=6, min_speedup=0.9)
        stand.start(again=0.3)
        stand.wait(lambda: any(told["held"] for told in stand.campaigns()))
        (told,) = stand.ended()
        assert failing.stdin is not None
        failing.stdin.close()
    assert told["summary"]["merged"], told["summary"]
    assert "can't go on" in stand.said()


def test_a_campaign_that_cannot_be_resumed_now_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, asked = HostedEngine.__new__(HostedEngine), []
    engine.held, engine._failures, engine._timers = {"c": "before"}, {}, []

    def resume(campaign: str) -> None:
        asked.append(campaign)
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(service.DBOS, "resume_workflow", resume)
    engine._resume("c")
    (timer,) = engine._timers
    timer.cancel()
    assert (asked, engine.held) == (["c"], {"c": "database or disk is full"})
