"""Realistic things to render: a real result, an order, a winner, experiments, lessons; and what attacks look like."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from bot.campaign.ports import Release
from bot.campaign.state import Course, Ending, Entry, Merged, Order, Outcome, Pull, StopReason, Winner
from bot.evidence.experiment import Experiment
from bot.evidence.lessons import Lesson
from runner.candidate import read_candidate
from runner.result import Reproduction, Result, load_result
from runner.spec.load import LoadedSpec, load_spec
from runner.spec.models import Accept, AgentSpec, Budget, Policy
from runner.verdict import Verdict

ROOT = Path(__file__).parents[2]
TEXTS = Path(__file__).with_name("texts")
SPEC = "rmsnorm-cpu"
TREE, HEAD, MERGE = "a1" * 20, "b2" * 20, "c3" * 20


@cache
def spec() -> LoadedSpec:
    return load_spec(ROOT / "kernel-specs" / SPEC)


@cache
def result() -> Result:
    """A real judgement of ten workloads."""
    found = load_result(ROOT / "tests/data/fairness/2026-12-01-champion-against-itself.json")
    identity = found.identity.model_copy(update={"kernel_tree": TREE})
    return found.model_copy(update={"verdict": Verdict.ACCEPTED, "message": "", "against": "baseline", "identity": identity})


def failed(**changes: Any) -> Result:
    """A result whose first failing workload was made small."""
    small = Reproduction(
        workload="llama-8k",
        axes={"rows": 1, "cols": 17},
        command="kernel-runner evaluate rmsnorm-cpu --candidate /tmp/x/kernel --workload llama-8k --seed 7 --out result.json",
        index=(0, 16),
        output="y",
        actual="nan",
        expected="0.51",
    )
    fields = {"verdict": Verdict.INCORRECT, "message": "llama-8k: 8192 of 33554432 elements are wrong", "rows": (), "geomean": None}
    return result().model_copy(update={**fields, "reproduction": small, **changes})


def order(**changes: Any) -> Order:
    fields: dict[str, Any] = {
        "campaign": f"{SPEC}-1-0123abcd",
        "number": 1,
        "spec": SPEC,
        "spec_hash": "5" * 64,
        "champion": "0" * 40,
        "seed": 1,
        "accept": Accept(min_speedup=1.05, min_workload_speedup=0.95, confidence=0.95, approval="required"),
        "budget": Budget(rounds=3, candidates=40, device_minutes=30),
        "agents": (AgentSpec(name="tpe", kind="search", strategy="tpe"), AgentSpec(name="writer", kind="author")),
        "publish": True,
        "started": "2026-12-01T10:00:00.000+00:00",
        "commit": "d" * 40,
    }
    return Order(**{**fields, **changes})


def winner(**changes: Any) -> Winner:
    fields: dict[str, Any] = {
        "agent": "tpe",
        "kernel_tree": TREE,
        "speedup": 1.327,
        "interval": (1.271, 1.394),
        "result": "e" * 64,
        "found": f"{SPEC}-1-0123abcd/2/tpe/4",
        "over_champion": (3.98, (3.77, 4.21)),
    }
    return Winner(**{**fields, **changes})


def experiments(hypothesis: str = "wider vectors, since the rows are long") -> list[Experiment]:
    """A small campaign: the champion, a lineage that found the winner, and one that failed."""
    name = f"{SPEC}-1-0123abcd"
    common = {"campaign": name, "spec": SPEC, "spec_hash": "5" * 64, "harness": "6" * 64, "device": "AMD EPYC 7003, 2 cores", "knobs": {}}
    rows: list[tuple[int, str, int, str, str, Verdict, float | None]] = [
        (0, "champion", 0, "full", "seed", Verdict.SLOWER, 0.333),
        (1, "tpe", 0, "screening", "search", Verdict.SLOWER, 0.9),
        (1, "writer", 0, "screening", "model", Verdict.BUILD_ERROR, None),
        (2, "tpe", 4, "screening", "search", Verdict.ACCEPTED, 1.35),
        (2, "tpe", 5, "full", "search", Verdict.ACCEPTED, 1.33),
        (2, "writer", 0, "screening", "model", Verdict.INCORRECT, None),
    ]
    return [
        Experiment(
            id=f"{name}/{number}/{agent}/{index}",
            round=number,
            agent=agent,
            index=index,
            tier=tier,
            kernel_tree=TREE if speedup and speedup > 1 else f"{place:040x}",
            source="7" * 64,
            kind=kind,
            parent="0" * 40 if number else None,
            hypothesis=hypothesis if number else "",
            verdict=verdict,
            message="",
            speedup=speedup,
            interval=(speedup * 0.98, speedup * 1.02) if speedup else None,
            workloads={},
            seconds=12.0,
            created=f"2026-12-01T10:{place:02d}:00.000+00:00",
            **common,
        )
        for place, (number, agent, index, tier, kind, verdict, speedup) in enumerate(rows)
    ]


def lesson(statement: str = "vec=8 is 1.21 times as fast as vec=4 (1.17 to 1.25).") -> Lesson:
    return Lesson(statement, (f"{SPEC}-1-0123abcd/1/tpe/0",), 0.2)


def release(**changes: Any) -> Release:
    fields: dict[str, Any] = {
        "order": order(),
        "spec": spec(),
        "winner": winner(),
        "candidate": read_candidate(spec().folder / "kernel", Policy()),
        "kept": Path("kept"),
        "result": result(),
        "experiments": experiments(),
        "lessons": [lesson()],
    }
    return Release(**{**fields, **changes})


def entry(**changes: Any) -> Entry:
    fields: dict[str, Any] = {
        "campaign": f"{SPEC}-1-0123abcd",
        "round": 2,
        "agent": "writer",
        "first": 0,
        "tree": TREE,
        "kind": "model",
        "parent": None,
        "hypothesis": "two rows a thread",
        "tier": "full",
    }
    return Entry(**{**fields, **changes})


def outcome(verdict: Verdict = Verdict.INCORRECT, **changes: Any) -> Outcome:
    fields: dict[str, Any] = {"entry": entry(), "experiments": 1, "tree": TREE, "verdict": verdict, "message": ""}
    return Outcome(**{**fields, **changes})


def ending(merged: bool = True, reason: str = "all 3 rounds were played") -> Ending:
    done = Merged(merged=True, sha=MERGE, head=HEAD, number=12, approved_by="ada", kernel_tree=TREE)
    return Ending(
        status="accepted" if merged else "no_winner",
        stop=StopReason.CONFIRMED if merged else StopReason.ROUNDS,
        reason=reason,
        rounds=3,
        winner=winner() if merged else None,
        files=(),
        seconds=500.0,
        merged=done if merged else None,
    )


def pull() -> Pull:
    return Pull(number=12, head=HEAD, kernel_tree=TREE)


def course(**changes: Any) -> Course:
    return Course(champion=outcome(Verdict.SLOWER, speedup=0.333, interval=(0.33, 0.34), seconds=10.0), **changes)


def check_text(name: str, text: str) -> None:
    """Hold a text against the stored one. `KERNEL_FACTORY_TEXTS=write` stores it anew, for a person to look at the difference."""
    path = TEXTS / name
    if os.environ.get("KERNEL_FACTORY_TEXTS") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
