"""Publishing into the working tree: exactly the judged kernel, or nothing, and the same when it is done twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from formula import DEVICE, HARNESS, KNOBS, FormulaBench, write_spec

from bot.campaign.ports import Closing, Release
from bot.campaign.state import Ending, Order, StopReason, Winner
from bot.campaign.store import Store
from bot.campaign.worktree import WorkingTree, kernel_tree
from bot.evidence.lessons import Lesson
from runner.candidate import read_candidate, with_knobs
from runner.result import Result, load_result
from runner.spec.load import load_spec

LESSON = Lesson("Doubling is easy.", ("c-1/1/tpe/0",), 0.1)


@pytest.fixture
def release(tmp_path: Path) -> Release:
    """A winner with the knobs a = 6, b = 5 for a fresh spec folder."""
    spec = load_spec(write_spec(tmp_path / "double-formula"))
    champion = read_candidate(spec.folder / "kernel", spec.spec.policy)
    store = Store(tmp_path / "state")
    candidate = with_knobs(read_candidate(spec.folder / "seeds/knobs", spec.spec.policy), {"a": 6, "b": 5})
    store.put_candidate(candidate)
    result = FormulaBench().judge(spec, candidate, tier="full", against="baseline", fresh=True, progress=lambda _: None)
    assert result.geomean is not None
    order = Order(
        campaign="c-1",
        number=1,
        spec="double-formula",
        spec_hash=spec.spec_hash,
        champion=champion.tree,
        seed=1,
        accept=spec.spec.accept,
        budget=spec.spec.budget,
        agents=spec.spec.agents,
        publish=True,
        started="2026-11-30T12:00:00+00:00",
    )
    winner = Winner(
        agent="tpe",
        kernel_tree=candidate.tree,
        speedup=result.geomean.speedup,
        interval=result.geomean.interval,
        result=store.put_result("c-1/1/tpe/9", result),
        found="c-1/1/tpe/8",
    )
    return Release(order, spec, winner, candidate, store.candidate_folder(candidate.tree), result, (), (LESSON,))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix != ".png"}


def test_the_judged_kernel_and_its_pages_are_written(release: Release) -> None:
    publication = WorkingTree().published(release)
    folder = release.spec.folder
    assert publication.published
    assert kernel_tree(release.spec) == release.winner.kernel_tree
    assert {str(Path(file).relative_to(folder)) for file in publication.files} == {
        "kernel/launch.yaml",
        "kernel/twice.cpp",
        "results/2026-11-30-formula-1.json",
        "results/2026-11-30-formula-1.png",
        "RESULTS.md",
        "lessons.md",
    }
    assert all(Path(file).is_file() for file in publication.files)
    assert load_result(folder / "results/2026-11-30-formula-1.json") == release.result
    assert (folder / "results/2026-11-30-formula-1.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "RESULTS.md").read_text()
    assert "results/2026-11-30-formula-1.png" in page
    assert release.winner.kernel_tree in page
    assert "Doubling is easy" in (folder / "lessons.md").read_text()


def test_the_spec_keeps_its_identity(release: Release) -> None:
    WorkingTree().published(release)
    assert load_spec(release.spec.folder).spec_hash == release.spec.spec_hash


def test_publishing_twice_changes_nothing_more(release: Release) -> None:
    first = WorkingTree().published(release)
    before = contents(release.spec.folder)
    assert WorkingTree().published(release) == first
    assert contents(release.spec.folder) == before


def test_a_kernel_that_a_person_edited_is_left_alone(release: Release) -> None:
    folder = release.spec.folder
    (folder / "kernel/twice.cpp").write_text((folder / "kernel/twice.cpp").read_text() + "// mine\n")
    before = contents(folder)
    publication = WorkingTree().published(release)
    assert not publication.published
    assert "was changed since the campaign began" in publication.message
    assert str(release.kept) in publication.message
    assert contents(folder) == before


def test_a_kernel_folder_that_is_no_kernel_any_more_is_left_alone(release: Release) -> None:
    (release.spec.folder / "kernel/launch.yaml").unlink()
    assert not WorkingTree().published(release).published
    assert not (release.spec.folder / "kernel/launch.yaml").exists()


def test_another_result_of_the_same_day_gets_a_name_of_its_own(release: Release) -> None:
    WorkingTree().published(release)
    other = release.result.model_copy(update={"seed": 8})
    champion = release.winner.kernel_tree
    WorkingTree().published(replace(release, result=other, order=release.order.model_copy(update={"champion": champion})))
    results = release.spec.folder / "results"
    assert sorted(path.name for path in results.glob("*.json")) == ["2026-11-30-formula-1-2.json", "2026-11-30-formula-1.json"]
    assert load_result(results / "2026-11-30-formula-1-2.json") == other


def test_files_that_the_winner_does_not_have_are_gone(release: Release) -> None:
    # The champion of an earlier campaign had a header; it goes with that champion.
    folder = release.spec.folder / "kernel"
    (folder / "old.hpp").write_text("#pragma once\n")
    champion = read_candidate(folder, release.spec.spec.policy).tree
    WorkingTree().published(replace(release, order=release.order.model_copy(update={"champion": champion})))
    assert sorted(path.name for path in folder.iterdir()) == ["launch.yaml", "twice.cpp"]
    assert KNOBS.splitlines()[2] in (folder / "launch.yaml").read_text()


@pytest.mark.parametrize(("status", "written"), [("no_winner", True), ("not_published", True), ("accepted", False)])
def test_a_campaign_without_a_winner_keeps_its_lessons(release: Release, status: str, written: bool) -> None:
    ending = Ending.model_validate(
        {"status": status, "stop": StopReason.ROUNDS, "reason": "", "rounds": 3, "winner": None, "files": (), "seconds": 1.0}
    )
    files = WorkingTree().ended(Closing(release.order, release.spec, ending, (LESSON,)))
    assert [Path(file).name for file in files] == (["lessons.md"] if written else [])
    assert (release.spec.folder / "lessons.md").exists() == written
    assert kernel_tree(release.spec) == release.order.champion


def test_what_was_judged_is_what_is_told(release: Release) -> None:
    result: Result = release.result
    assert (result.device, result.identity.harness, result.identity.kernel_tree) == (DEVICE, HARNESS, release.candidate.tree)
