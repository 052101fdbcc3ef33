"""What people read in pull requests, checks and the dashboard: every text as it is, held against the one that was looked at."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot
from texts_support import HEAD, MERGE, TREE, check_text, ending, entry, experiments, failed, order, outcome, pull, release, result

from bot import checks, comments, notices
from bot.campaign.ports import Closing
from bot.dashboard.issue import dashboard_body, dashboard_end
from bot.hosting import Annotation, PullRequest
from bot.specs import Survey
from runner.errors import Fault
from runner.verdict import Verdict

URL = f"https://forge.example/o/r/blob/{HEAD}/kernel-specs/rmsnorm-cpu/results"
EVIDENCE = comments.Evidence(HEAD, "kernel-specs/rmsnorm-cpu/results/a.json", f"{URL}/a.json?raw=true", f"{URL}/a.png?raw=true")


def test_the_winners_comment_has_all_that_a_reviewer_needs():
    text = comments.winner_comment(release(), EVIDENCE)
    check_text("winner.md", text)
    assert text.count("\n| llama") + text.count("\n| bert") >= 1 or len(result().rows) == 10
    for needed in ("of roofline", "of copy", "Identity and environment", "kernel-runner reproduce", "Every raw sample", "Hypothesis"):
        assert needed in text


def test_a_lineages_comment():
    accepted = outcome(Verdict.ACCEPTED, speedup=1.327, interval=(1.27, 1.39), entry=entry(kind="search", agent="tpe"))
    check_text("lineage.md", comments.result_comment(order(), accepted, result(), HEAD))
    screened = outcome(Verdict.SLOWER, speedup=0.95, entry=entry(tier="screening"), message="by less than the spec asks for")
    assert comments.result_comment(order(), screened, None, HEAD) == snapshot(
        """\
## rmsnorm-cpu: slower (screening, 0.950× the baseline)

by less than the spec asks for

Made by a model, round 2 of `rmsnorm-cpu-1-0123abcd`. Its hypothesis: two rows a thread

Judged: `b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2`\
"""
    )


def test_a_persons_wrong_kernel_is_told_with_a_small_reproduction():
    mine = outcome(Verdict.INCORRECT, entry=entry(kind="person", agent="pr-5", hypothesis="pull request 5 by bob"))
    check_text("incorrect.md", comments.result_comment(order(), mine, failed(), HEAD))
    check = checks.verdict_check(order(), mine, failed(), failed().message, {"kernel.cpp"})
    assert (check.conclusion, check.title, check.annotations) == snapshot(("failure", "incorrect (full)", []))
    check_text("incorrect-check.md", check.summary)


def test_a_build_error_stands_at_its_line():
    lines = ["kernel.cpp:3:7: error: expected ';' before '}'", "    3 | int x }", "/usr/include/c++/12/cmath:9:1: note: here"]
    message = "\n".join([*lines, "/box/kernel.cpp:8: warning"])
    mine = outcome(Verdict.BUILD_ERROR, entry=entry(kind="person", agent="pr-5"))
    check = checks.verdict_check(order(), mine, None, message, {"kernel.cpp", "launch.yaml"})
    path = "kernel-specs/rmsnorm-cpu/kernel/kernel.cpp"
    assert check.annotations == [Annotation(path, 3, 7, "error: expected ';' before '}'"), Annotation(path, 8, 1, "warning")]
    assert "kernel.cpp:3:7: error: expected" in comments.result_comment(order(), mine, None, HEAD, message)


def test_titles_and_bodies():
    assert comments.lineage_title(order(), "tpe") == snapshot("rmsnorm-cpu: candidate of tpe (rmsnorm-cpu-1-0123abcd)")
    assert comments.winner_title(release()) == snapshot("rmsnorm-cpu: 1.33× (1.27–1.39), the winner of rmsnorm-cpu-1-0123abcd")
    check_text("lineage-body.md", comments.lineage_body(order(), "tpe"))
    check_text("winner-body.md", comments.winner_body(release(), notices.fork_credit(5, "eve")))
    title, message = comments.merge_message(order(), pull(), "ada")
    assert f"{title}\n\n{message}" == snapshot(
        """\
rmsnorm-cpu: the winner of rmsnorm-cpu-1-0123abcd (pull request 12)

Approved by ada.
Kernel tree a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1
"""
    )


def test_notices():
    told = {
        "closed, another won": notices.closed(ending()),
        "closed, none won": notices.closed(ending(merged=False)),
        "not chosen": notices.not_chosen(ending()),
        "not chosen, none won": notices.not_chosen(ending(merged=False)),
        "fork waits": notices.fork_waits(12),
        "fork merged": notices.fork_merged(12, MERGE),
        "moved, judged": notices.moved(pull(), "9" * 40, True),
        "moved, not judged": notices.moved(pull(), "9" * 40, False),
        "not merged": notices.not_merged("at least 2 approving reviews are required"),
        "lineage closed": notices.lineage_closed(order(), "tpe"),
        "lineage replaced": notices.lineage_replaced("9" * 40),
        "reopened": notices.reopened("rmsnorm-cpu-1-0123abcd"),
        "reverted": notices.reverted(order(), True),
        "replaced": notices.reverted(order(), False),
        "enough": notices.enough(5),
        "entered enough": notices.entered_enough(8),
        "mixed": notices.mixed(order(), pull(), "9" * 40),
        "spec overtaken": notices.spec_overtaken(order()),
    }
    check_text("notices.md", "\n".join(f"# {name}\n\n{text}\n" for name, text in told.items()))


def test_checks_of_specs():
    faults = (
        Fault("kernel-specs/a/spec.yaml", 3, 1, "unknown key `titel`; did you mean `title`?"),
        Fault("kernel-specs/b/spec.yaml", 9, 4, "x"),
    )
    check = checks.spec_check(Survey(HEAD, (), faults))
    assert (check.conclusion, check.title, len(check.annotations)) == ("failure", "2 faults", 2)
    assert check.summary == snapshot(
        """\
- `kernel-specs/a/spec.yaml:3:1` unknown key \\`titel\\`; did you mean \\`title\\`?
- `kernel-specs/b/spec.yaml:9:4` x\
"""
    )
    winner = checks.winner_check(release())
    assert (winner.conclusion, winner.title) == snapshot(("success", "accepted 1.327× (1.271–1.394)"))
    assert TREE in winner.summary


def test_the_dashboard():
    pulls = [PullRequest(12, "open", "factory/rmsnorm-cpu-1-0123abcd/tpe", HEAD, "bot")]
    check_text("dashboard.md", dashboard_body(order(), "waiting", experiments(), pulls, f"{URL}/plot.png", 12))
    closing = Closing(order(), None, ending(), release().lessons)
    check_text("dashboard-end.md", dashboard_end(closing, experiments(), pulls, None))


@pytest.mark.parametrize(
    "given",
    [
        "kernel-runner evaluate state/trees/0a/kernel-specs/x --candidate /tmp/b/c --workload w --seed 7 --out result.json",
        "kernel-runner evaluate x --candidate kernel --workload w --seed 7 --out result.json",
    ],
)
def test_a_judges_command_is_given_for_a_clone_of_the_pull_request(given):
    told = comments.repository_command(given, "x")
    assert told == "kernel-runner evaluate kernel-specs/x --workload w --seed 7 --out result.json"


def test_a_kernel_that_comes_with_other_changes():
    check = checks.unjudged_check(["rmsnorm-cpu", "other"])
    assert (check.conclusion, check.title, check.summary) == snapshot(
        (
            "failure",
            "a kernel that is not judged",
            "This changes `kernel-specs/rmsnorm-cpu/kernel`, `kernel-specs/other/kernel` and more. A kernel is judged where a pull request "
            "changes nothing but it.",
        )
    )
