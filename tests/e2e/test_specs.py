"""Pushed specs: broken ones are told at their lines, changed and deleted ones end their campaigns, and nothing judged by one is merged
under another."""

from __future__ import annotations

import time

from factory_stand import MACHINE, MAIN, SPEC, Content, Stand

from bot.forge.model import Check, Pull


def spec_checks(stand: Stand, sha: str) -> list[Check]:
    return [one for one in stand.checks(sha) if one.external_id.startswith("specs/")]


def comments(stand: Stand, pull: Pull) -> str:
    return "\n".join(comment.body for comment in stand.comments(pull.number))


def renamed(files: dict[str, Content], name: str) -> dict[str, Content]:
    return {path.replace(SPEC, f"kernel-specs/{name}"): data for path, data in files.items()}


def test_two_broken_specs_are_told_at_their_lines_and_the_mended_one_begins(stand: Stand) -> None:
    good = stand.spec("none", rounds=1, candidates=6, min_speedup=9.0)
    text = str(good[f"{SPEC}/spec.yaml"])
    first = {**good, f"{SPEC}/spec.yaml": text.replace("title:", "titel:").replace("dtype: float32", "dtype: float31")}
    broken = {**good, f"{SPEC}/spec.yaml": text.replace("id: double-formula", "id: other").replace("n: 4096", "n: 4097")}
    head = stand.commit({**first, **renamed(broken, "other")}, "Two broken specs")
    stand.start()
    (check,) = stand.wait(lambda: [one for one in spec_checks(stand, head) if one.status == "completed"])
    assert check.conclusion == "failure"
    lines = {name: str(data).splitlines() for name, data in {**first, **renamed(broken, "other")}.items()}
    told = {(one["path"], one["start_line"]) for one in check.annotations}
    assert {path for path, _ in told} == {f"{SPEC}/spec.yaml", "kernel-specs/other/spec.yaml"}
    wanted = {("titel:", f"{SPEC}/spec.yaml"), ("float31", f"{SPEC}/spec.yaml"), ("4097", "kernel-specs/other/spec.yaml")}
    for word, path in wanted:
        assert any(word in lines[path][line - 1] for where, line in told if where == path), word
    time.sleep(1)
    assert (stand.pulls(), stand.issues(), stand.campaigns()) == ([], [], [])

    mended = stand.commit(good, "Mend one")
    (told_campaign,) = stand.ended()
    assert told_campaign["spec"] == "double-formula"
    (check,) = spec_checks(stand, mended)
    assert (check.conclusion, {one["path"] for one in check.annotations}) == ("failure", {"kernel-specs/other/spec.yaml"})


def test_a_spec_that_changes_or_goes_while_a_winner_waits_takes_it_along(stand: Stand) -> None:
    stand.commit_spec(rounds=1, candidates=8, min_speedup=0.9)
    stand.start(until=2)
    first = stand.waiting()
    stand.kill()
    # Between the approval and the merge: the bot finds both at once, and merges nothing.
    stand.approve(first.number)
    files = stand.spec(rounds=1, candidates=8, min_speedup=0.91)
    changed = stand.commit({f"{SPEC}/spec.yaml": files[f"{SPEC}/spec.yaml"]}, "Ask for more")
    stand.start(until=2)
    second = stand.waiting(than=first.head)
    assert stand.head() == changed
    stand.wait(lambda: stand.pull(first.number).state == "closed")
    assert first.merged is None
    assert "the spec was changed while the campaign ran" in comments(stand, first)
    stand.wait(lambda: stand.issues()[0].state == "closed")
    assert "the spec was changed" in stand.issues()[0].body
    assert second.branch.split("/")[1] != first.branch.split("/")[1]

    gone = stand.commit(dict.fromkeys(stand.files(SPEC)), "No longer needed")
    old, new = stand.ended()
    assert "changed" in old["summary"]["reason"]
    assert "deleted" in new["summary"]["reason"]
    assert stand.head(MAIN) == gone
    assert "the spec was deleted" in comments(stand, second)
    assert not stand.pulls("open")
    assert not [one for one in stand.issues() if one.state == "open"]


def test_a_spec_that_changes_during_a_long_evaluation_ends_it_and_its_run(stand: Stand) -> None:
    with MACHINE:
        stand.commit_spec("none", rounds=1, candidates=6)
        stand.start(until=2, runs=True, queue=60.0)
        run = stand.wait(lambda: next(iter(stand.repository.runs.values()), None))
        files = stand.spec("none", rounds=1, candidates=6, min_speedup=9.0)
        stand.wait(lambda: run.status == "in_progress")
        stand.commit({f"{SPEC}/spec.yaml": files[f"{SPEC}/spec.yaml"]}, "Think again")
        stand.wait(lambda: stand.issues() and stand.issues()[0].state == "closed")
        assert run.cancelled.is_set()
    old, new = stand.ended()
    assert "changed" in old["summary"]["reason"]
    assert (new["summary"]["status"], new["summary"]["evaluations"] > 1) == ("no_winner", True)
    assert not stand.pulls("open")
