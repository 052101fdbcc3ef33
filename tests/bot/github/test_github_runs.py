"""A run is started once: it is known by its name, also where the answer was lost, or the bot died before it kept the answer."""

from __future__ import annotations

import time
import traceback
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from github_place import Place

from bot.forge.runs import Finished
from bot.github.asking import ANNOUNCED_SECONDS
from bot.hosting import Missing
from runner.errors import FactoryError

WORKFLOW = b"""\
run-name: evaluate ${{ inputs.request }} for ${{ github.actor }}
on:
  workflow_dispatch:
    inputs: {request: {type: string, required: true}}
jobs: {}
"""
INPUTS = {"request": "refs/factory/c/1"}
NAME = "evaluate refs/factory/c/1 for kernel-factory[bot]"
HOUR = timedelta(hours=1)


@pytest.fixture
def since(place: Place) -> datetime:
    """The default branch holds a workflow whose runs keep nothing; when that was."""
    place.forge.forge.execute = lambda *_, **__: Finished("success")
    commit = place.clone.commit(place.main, {".github/workflows/evaluate.yml": WORKFLOW}, "a workflow")
    place.clone.push(f"{commit}:refs/heads/main")
    return datetime.now(UTC) - timedelta(seconds=2)


def test_a_run_has_the_name_that_its_workflow_gives_it_and_is_found_by_it(place: Place, since: datetime) -> None:
    number = place.repository.dispatch("evaluate.yml", "main", INPUTS, NAME, since)
    assert place.waits == []
    assert place.repository.started("evaluate.yml", "main", NAME, since) == number
    for other in ({"name": "evaluate refs/factory/c/2"}, {"since": since + HOUR}, {"ref": "x"}):
        asked = {"workflow": "evaluate.yml", "ref": "main", "name": NAME, "since": since} | other
        assert place.repository.started(**asked) is None
    assert place.waits == [*ANNOUNCED_SECONDS] * 3


def test_a_run_of_somebody_else_is_not_taken_for_the_bots(place: Place, since: datetime) -> None:
    place.person("ada").get_workflow("evaluate.yml").create_dispatch("main", INPUTS, throw=True)
    title = NAME.replace("kernel-factory[bot]", "ada")
    assert [run.title for run in place.forge.state("demo/kernels").runs.values()] == [title]
    assert place.repository.started("evaluate.yml", "main", title, since) is None


@pytest.mark.parametrize("kind", ["error_after", "no_run_id"])
def test_where_the_answer_says_nothing_of_the_run_it_is_looked_for(place: Place, since: datetime, kind: str) -> None:
    place.forge.misbehave(kind, path="" if kind == "no_run_id" else "dispatches")
    # Listed only a while after it was started.
    place.forge.misbehave("run_unlisted", 2)
    number = place.repository.dispatch("evaluate.yml", "main", INPUTS, NAME, since)
    assert list(place.forge.state("demo/kernels").runs) == [number]
    assert place.waits == [*ANNOUNCED_SECONDS[:2]]
    assert place.forge.misbehaviours_left == []


def test_a_run_that_was_not_started_is_a_failure_that_says_why(place: Place, since: datetime) -> None:
    place.forge.misbehave("server_error", path="dispatches")
    with pytest.raises(FactoryError, match=r"evaluate\.yml can't be started on main: 502"):
        place.repository.dispatch("evaluate.yml", "main", INPUTS, NAME, since)
    with pytest.raises(FactoryError, match="422 No ref found for: y"):
        place.repository.dispatch("evaluate.yml", "y", INPUTS, NAME, since)
    assert not place.forge.state("demo/kernels").runs


def test_a_deleted_run_and_a_deleted_artifact_are_missing(place: Place, since: datetime, tmp_path: Path) -> None:
    kept = tmp_path / "evaluation.zip"
    kept.write_bytes(b"zip")
    place.forge.forge.execute = lambda *_, **__: Finished("success", {"evaluation": kept})
    number = place.repository.dispatch("evaluate.yml", "main", INPUTS, NAME, since)
    record = place.forge.state("demo/kernels")
    while record.runs[number].status != "completed":
        time.sleep(0.01)
    assert place.repository.artifact(number, "evaluation", 10) == b"zip"
    with pytest.raises(Missing, match="3 bytes; 2 are allowed"):
        place.repository.artifact(number, "evaluation", 2)
    place.forge.misbehave("server_error", 3, path="storage")
    with pytest.raises(FactoryError, match="502") as refused:
        place.repository.artifact(number, "evaluation", 10)
    told = "".join(traceback.format_exception(refused.value))
    assert "/storage/" not in told, "whoever has the address of an artifact may fetch it"
    kept.unlink()
    with pytest.raises(FactoryError) as unfetched:
        place.repository.artifact(number, "evaluation", 10)
    assert not isinstance(unfetched.value, Missing)
    record.runs[number].artifacts.clear()
    with pytest.raises(Missing, match="kept no artifact"):
        place.repository.artifact(number, "evaluation", 10)
    del record.runs[number]
    for gone in (place.repository.run, lambda one: place.repository.artifact(one, "evaluation", 10)):
        with pytest.raises(Missing, match="404"):
            gone(number)
