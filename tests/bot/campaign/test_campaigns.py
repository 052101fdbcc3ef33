"""Whole campaigns on the formula, each command a process: what is published, every way to end, and what the next one begins with."""

from __future__ import annotations

import fcntl
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from formula import FULL_SECONDS, SCREENING_SECONDS
from support import KILLED, Field, field

from runner.result import load_result
from runner.spec.load import load_spec
from runner.verdict import Verdict


@pytest.fixture(scope="module")
def won(tmp_path_factory: pytest.TempPathFactory) -> Field:
    """A field on which a campaign was won, for tests that only look at it."""
    made = field(tmp_path_factory.mktemp("won"))
    assert made.run() == 0
    return made


def test_a_campaign_ends_with_the_winner_in_the_working_tree(won: Field) -> None:
    summary = won.summary()
    assert (summary["status"], summary["stop"]) == ("accepted", "confirmed")
    assert won.kernel_tree() == summary["winner"]["kernel_tree"]
    (path,) = (won.spec / "results").glob("*.json")
    result = load_result(path)
    assert result.identity.kernel_tree == won.kernel_tree()
    assert result.geomean is not None
    assert summary["winner"]["speedup"] == result.geomean.speedup
    assert summary["winner"]["interval"] == list(result.geomean.interval)


def test_the_summary_counts_what_the_notebook_holds(won: Field) -> None:
    summary, experiments = won.summary(), won.experiments()
    assert summary["evaluations"] == sum(summary["verdicts"].values()) == len(experiments) <= 30
    assert set(summary) == {
        "campaign",
        "spec",
        "status",
        "stop",
        "reason",
        "rounds",
        "evaluations",
        "verdicts",
        "lineages",
        "left_out",
        "winner",
        "files",
    }
    assert [lineage["agent"] for lineage in summary["lineages"]] == ["tpe", "local"]
    assert max(lineage["best"] for lineage in summary["lineages"]) == summary["winner"]["speedup"]
    assert len({experiment.id for experiment in experiments}) == len(experiments)


def test_the_champion_is_judged_first_and_the_winner_last(won: Field) -> None:
    made = sorted(won.experiments(), key=lambda experiment: experiment.created)
    assert (made[0].agent, made[0].round, made[0].tier) == ("champion", 0, "full")
    assert (made[-1].tier, made[-1].kernel_tree) == ("full", won.kernel_tree())
    assert made[-1].hypothesis.startswith("confirmation of ")


def test_the_story_names_the_files_and_the_next_commands(won: Field) -> None:
    told = won.output()
    assert "accepted. " in told
    assert f"kernel-runner reproduce {won.spec}/results/" in told
    assert f"git diff {won.spec}" in told
    assert "geomean" in told
    assert "Lessons:" in told


def test_no_database_holds_samples(won: Field) -> None:
    with closing(sqlite3.connect(won.state / "campaigns/double-formula/campaigns.sqlite")) as database:
        outputs = [row[0] or "" for row in database.execute("SELECT output FROM operation_outputs")]
    assert outputs
    assert max(map(len, outputs)) < 4000
    assert not any('"samples"' in output for output in outputs)


def test_the_next_campaign_begins_with_the_winner_and_the_evidence(tmp_path: Path) -> None:
    made = field(tmp_path)
    assert made.run() == 0
    first, kernel = made.summary(), made.kernel_tree()
    assert made.run() == 0
    second = made.summary()
    assert second["campaign"].startswith("double-formula-2-")
    # The new champion meets the bar, so a winner must beat it, over the baseline and over the champion.
    its = [experiment for experiment in made.experiments() if experiment.campaign == second["campaign"]]
    assert (its[0].agent, its[0].verdict, its[0].kernel_tree) == ("champion", Verdict.ACCEPTED, kernel)
    assert second["winner"] is None or second["winner"]["speedup"] > first["winner"]["speedup"]
    screened = [tuple(experiment.knobs.items()) for experiment in made.experiments() if experiment.tier == "screening"]
    assert len(set(screened)) >= len(screened) - 2, "the second campaign tried again what the first had tried"


def test_a_spec_that_cannot_be_improved_ends_without_a_winner(tmp_path: Path) -> None:
    made = field(tmp_path, min_speedup=3.0)
    before = made.kernel_tree()
    assert made.run() == 0
    summary = made.summary()
    assert (summary["status"], summary["winner"]) == ("no_winner", None)
    assert "no candidate was accepted: the best reached" in summary["reason"]
    assert summary["files"] == ["lessons.md"]
    assert made.kernel_tree() == before
    assert not (made.spec / "results").exists()
    assert not made.unfinished


def test_a_champion_that_cannot_be_beaten_stays(tmp_path: Path) -> None:
    made = field(tmp_path, rounds=8, candidates=200)
    while made.run() == 0 and made.summary()["winner"] is not None:
        pass
    summary = made.summary()
    assert "the champion already meets the acceptance" in summary["reason"] or "no lineage has anything new" in summary["reason"]
    assert summary["status"] == "no_winner"


@pytest.mark.parametrize("candidates", [1, 3, 4, 7, 11])
def test_the_budget_of_candidates_holds_to_the_unit(tmp_path: Path, candidates: int) -> None:
    made = field(tmp_path)
    assert made.run(candidates=candidates) == 0
    summary = made.summary()
    assert summary["evaluations"] <= candidates
    # The champion, a trial, its full judgement and a confirmation: with less no round is played.
    assert (summary["rounds"] > 0) == (candidates >= 4)
    if candidates < 4:
        assert summary["stop"] == "candidates_spent"


def test_the_budget_of_device_minutes_holds(tmp_path: Path) -> None:
    # The champion's judgement, its margin twice, and time for two or three trials.
    seconds = FULL_SECONDS * (1 + 2 * 1.25) + 2.5 * SCREENING_SECONDS
    made = field(tmp_path, minutes=seconds / 60)
    assert made.run() == 0
    used = sum(experiment.seconds for experiment in made.experiments())
    assert used <= seconds
    assert len([experiment for experiment in made.experiments() if experiment.tier == "screening"]) == 3


def test_without_publishing_the_winner_stays_in_the_state_folder(tmp_path: Path) -> None:
    made = field(tmp_path)
    before = made.kernel_tree()
    assert made.run(publish=False) == 0
    summary = made.summary()
    assert (summary["status"], summary["files"]) == ("accepted", [])
    assert str(made.state / "candidates" / summary["winner"]["kernel_tree"]) in summary["reason"]
    assert (made.state / "candidates" / summary["winner"]["kernel_tree"] / "launch.yaml").is_file()
    assert made.kernel_tree() == before


def test_only_the_named_lineage_takes_part(tmp_path: Path) -> None:
    made = field(tmp_path)
    assert made.run(agents=["local"]) == 0
    assert {experiment.agent for experiment in made.experiments()} == {"champion", "local"}
    assert made.run(agents=["nobody"]) == 2
    assert "no agent is called nobody; the spec has: tpe, local" in made.output()


def test_an_author_without_a_server_is_left_out_and_named(tmp_path: Path) -> None:
    made = field(tmp_path)
    spec = made.spec / "spec.yaml"
    spec.write_text(spec.read_text() + "  - {name: writer, kind: author}\n")
    assert made.run() == 0
    (left_out,) = made.summary()["left_out"]
    assert left_out["agent"] == "writer"
    assert "KERNEL_FACTORY_MODEL_URL" in left_out["why"]
    assert "writer was left out" in made.output()


def test_a_campaign_without_any_lineage_waits_for_one(tmp_path: Path) -> None:
    made = field(tmp_path)
    spec = made.spec / "spec.yaml"
    spec.write_text(spec.read_text().split("agents:")[0] + "agents: [{name: writer, kind: author}]\n")
    assert made.run() == 2
    assert "no lineage can take part" in made.output()
    assert made.unfinished


def test_a_spec_changed_in_mid_campaign_ends_it(tmp_path: Path) -> None:
    made = field(tmp_path)
    assert made.run(kill="after commit of screen#2") == KILLED
    spec = made.spec / "spec.yaml"
    spec.write_text(spec.read_text().replace("max_ulp: 0.5", "max_ulp: 1.0"))
    before = len(made.experiments())
    assert made.run() == 0
    summary = made.summary()
    assert (summary["status"], summary["stop"]) == ("no_winner", "spec_changed")
    assert len(made.experiments()) == before
    assert made.run() == 0
    assert made.summary()["status"] == "accepted"


def test_a_judge_changed_in_mid_campaign_ends_it(tmp_path: Path) -> None:
    made = field(tmp_path)
    assert made.run(kill="after commit of screen#2") == KILLED
    before = len(made.experiments())
    assert made.run(harness="e" * 64) == 0
    summary = made.summary()
    assert (summary["status"], summary["stop"]) == ("no_winner", "judge_changed")
    assert len(made.experiments()) == before


def test_a_kernel_edited_in_mid_campaign_is_not_overwritten(tmp_path: Path) -> None:
    made = field(tmp_path)
    assert made.run(kill="after commit of confirm#1") == KILLED
    source = made.spec / "kernel/twice.cpp"
    source.write_text(source.read_text() + "// mine\n")
    assert made.run() == 0
    summary = made.summary()
    assert (summary["status"], summary["stop"]) == ("not_published", "kernel_changed")
    assert source.read_text().endswith("// mine\n")
    assert summary["winner"] is not None
    assert str(made.state / "candidates" / summary["winner"]["kernel_tree"]) in summary["reason"]


def test_options_of_a_later_command_do_not_change_a_campaign(tmp_path: Path) -> None:
    made = field(tmp_path)
    assert made.run(kill="after commit of screen#2") == KILLED
    assert made.run(candidates=5, seed=99, agents=["local"]) == 0
    assert made.summary()["rounds"] == 3
    assert {experiment.agent for experiment in made.experiments()} == {"champion", "tpe", "local"}


def test_a_campaign_that_was_not_reported_is_reported_by_the_next_command(tmp_path: Path) -> None:
    made = field(tmp_path)
    assert made.run(kill="before the report#1") == KILLED
    before = made.experiments()
    assert made.run() == 0
    assert made.summary()["campaign"].startswith("double-formula-1-")
    assert made.experiments() == before


def test_the_same_seed_makes_the_same_campaign(tmp_path: Path) -> None:
    one, other, third = field(tmp_path / "one"), field(tmp_path / "other"), field(tmp_path / "third")
    assert (one.run(seed=5), other.run(seed=5), third.run(seed=6)) == (0, 0, 0)
    assert one.summary() == other.summary()
    assert one.summary()["campaign"] != third.summary()["campaign"]
    assert [experiment.knobs for experiment in one.experiments()] != [experiment.knobs for experiment in third.experiments()]


def test_a_refused_candidate_is_an_experiment_that_takes_no_device_time(tmp_path: Path) -> None:
    made = field(tmp_path)
    source = made.spec / "seeds/knobs/twice.cpp"
    source.write_text(source.read_text() + "// forbidden\n")
    assert made.run() == 0
    summary = made.summary()
    assert summary["status"] == "no_winner"
    # Two lineages in three rounds: each is refused each time.
    assert summary["verdicts"] == {"policy_violation": 6, "slower": 1}
    refused = [experiment for experiment in made.experiments() if experiment.verdict is Verdict.POLICY_VIOLATION]
    assert {experiment.seconds for experiment in refused} == {0.0}
    assert {experiment.message for experiment in refused} == {"twice.cpp:1:1: forbidden"}


def test_a_lost_database_loses_no_evaluation(tmp_path: Path) -> None:
    whole, made = field(tmp_path / "whole"), field(tmp_path / "made")
    assert whole.run() == 0
    assert made.run(kill="after record of screening#13") == KILLED
    before = made.experiments()
    for path in (made.state / "campaigns/double-formula").glob("campaigns.sqlite*"):
        path.unlink()
    assert made.run() == 0
    assert made.summary() == whole.summary()
    assert made.experiments()[:1] == before[:1]
    assert {experiment.id: experiment for experiment in made.experiments()}.items() >= {one.id: one for one in before}.items()


def test_what_stops_a_step_is_mended_and_the_campaign_goes_on(tmp_path: Path) -> None:
    whole, made = field(tmp_path / "whole"), field(tmp_path / "made")
    assert whole.run() == 0
    assert made.run(kill="after commit of gate local#1") == KILLED
    sources = list((made.state / "candidates").glob("*/twice.cpp"))
    kept = [source.read_bytes() for source in sources]
    for source in sources:
        source.write_bytes(b"// changed by somebody\n")
    assert made.run() == made.run() == 2
    assert "was changed: its files have the tree" in made.output()
    for source, data in zip(sources, kept, strict=True):
        source.write_bytes(data)
    assert made.run() == 0
    assert made.summary() == whole.summary()


def test_a_second_process_on_the_same_spec_is_refused(tmp_path: Path) -> None:
    made = field(tmp_path)
    lock = made.state / "campaigns/double-formula/lock"
    lock.parent.mkdir(parents=True)
    with lock.open("w") as held:
        held.write("4711\n")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        assert made.run() == 2
    assert "running already (process 4711)" in made.output()
    assert made.run() == 0


def test_a_damaged_database_is_an_expected_failure(tmp_path: Path) -> None:
    made = field(tmp_path)
    database = made.state / "campaigns/double-formula/campaigns.sqlite"
    database.parent.mkdir(parents=True)
    database.write_bytes(b"this is no database" * 100)
    assert made.run() == 2
    assert "campaigns.sqlite can't be used" in made.output()


def test_the_order_is_kept_until_it_is_reported(tmp_path: Path) -> None:
    made = field(tmp_path)
    assert made.run(kill="before commit of the campaign's start#1") == KILLED
    order = json.loads((made.state / "campaigns/double-formula/current.json").read_text())
    assert order["spec_hash"] == load_spec(made.spec).spec_hash
    assert made.run() == 0
    assert made.summary()["campaign"] == order["campaign"]
    assert not made.unfinished
