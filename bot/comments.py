"""What a campaign says in pull requests: titles, texts, verdicts and commit messages. Pure functions; who posts them is elsewhere.

What a spec, a model, a compiler or a person wrote is data in these texts: it is escaped, stands on one line or in a fence, and is kept
short. A page that would be longer than a forge takes has fewer rows, and says so.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bot.campaign.ports import Release
from bot.campaign.state import Order, Outcome, Pull, Winner
from bot.dashboard.markdown import block, code, document, escape
from bot.evidence.experiment import Experiment
from runner import report
from runner.result import Result

# The markers of the comments that are kept current, one of each in a pull request.
RESULT, CLOSED, STATE = "result", "closed", "state"
# A forge takes 65,536 characters; the rest is left for the marker.
ROOM = 64_000
MAX_MESSAGE = 4_000
MAX_TITLE = 250
LESSONS = 8
MADE_BY = {"seed": "a kernel written by hand", "search": "a search over knobs", "model": "a model", "person": "a person"}


@dataclass(frozen=True)
class Evidence:
    """Where a winner's evidence lies: its head, the result's path in the repository, and the addresses of result and plot in that commit.

    All but the head are empty where nothing could be committed to the pull request.
    """

    head: str
    path: str = ""
    result_url: str = ""
    plot_url: str = ""


def lineage_title(order: Order, agent: str) -> str:
    return _title(f"{order.spec}: candidate of {agent} ({order.campaign})")


def lineage_body(order: Order, agent: str) -> str:
    return (
        f"The best kernel so far of the lineage {code(agent)} in the campaign {code(order.campaign)}. The verdict on its head is in the "
        "comment below and in the check.\n\n"
        "This branch is the campaign's: it moves only when the lineage finds something better, and what others push to it is replaced. "
        "Closing this pull request stops it from being shown, not the lineage. To enter a kernel of your own, open another one that "
        f"touches only {code(f'kernel-specs/{order.spec}/kernel')}."
    )


def winner_title(release: Release) -> str:
    return _title(f"{release.order.spec}: {times(release.winner)}, the winner of {release.order.campaign}")


def winner_body(release: Release, credit: str = "") -> str:
    """`credit` is what a winner that came from a fork owes to its pull request."""
    order, winner = release.order, release.winner
    parts = [
        f"**The winner** of the campaign {code(order.campaign)}: {times(winner)} over the best baseline, found by {code(winner.agent)} "
        "and confirmed in fresh processes. The table, the environment and where it comes from are in the comment below.",
        credit,
        f"The judged kernel tree is {code(winner.kernel_tree)}. The last commit adds the results, the page and the lessons, and nothing "
        "else.",
        "An approving review of exactly this head, by a person with write access who did not write it, merges it. A request for changes "
        "goes back to the agents, with its text as evidence. A push voids approvals; if it touches only the kernel, that is judged."
        if order.accept.approval == "required"
        else "The spec asks for no approval: it is merged as it was judged.",
    ]
    return "\n\n".join(part for part in parts if part)


def winner_comment(release: Release, evidence: Evidence) -> str:
    """Everything that a reviewer needs: the table, the environment, where the samples are, provenance, what was tried, lessons."""
    winner = release.winner
    over = ""
    if winner.over_champion is not None:
        speedup, (low, high) = winner.over_champion
        over = f"Over the champion, the kernel that this replaces: **{speedup:.3f}×** ({low:.3f}–{high:.3f})."
    samples = f"Every raw sample is in [{escape(evidence.path)}](<{evidence.result_url}>)." if evidence.path else ""
    plot = f"![How the best speed-up grew with the evaluations spent](<{evidence.plot_url}>)" if evidence.plot_url else ""
    after = [
        over,
        samples,
        "### Where it comes from",
        _provenance(release),
        "### What was tried",
        tried(release.experiments),
        plot,
        *(["### Lessons", _lessons(release)] if release.lessons else []),
        f"Judged: {code(evidence.head)}",
    ]
    again = "" if evidence.path else evaluate_command(release.order.spec)
    return _page(release.result, [part for part in after if part], evidence.path, again)


def result_comment(order: Order, outcome: Outcome, result: Result | None, head: str, message: str = "") -> str:
    """The verdict on the head of a lineage's or a person's pull request; `message` is what was said, in full."""
    entry = outcome.entry
    origin = [f"Made by {MADE_BY[entry.kind]}, round {entry.round} of {code(order.campaign)}."]
    if entry.kind != "person" and entry.hypothesis:
        origin.append(f"Its hypothesis: {escape(entry.hypothesis, 1000)}")
    after = [" ".join(origin), f"Judged: {code(head)}"]
    if result is not None:
        return _page(result, after, "", evaluate_command(order.spec))
    measured = f", {outcome.speedup:.3f}× the baseline" if outcome.speedup is not None else ""
    heading = f"## {escape(order.spec)}: {escape(str(outcome.verdict or 'not evaluated'))} ({entry.tier}{measured})"
    return "\n\n".join(part for part in (heading, told(message or outcome.message), *after) if part)


def told(message: str) -> str:
    """What a judge or compiler said: one line as text, more as a fence; the end of what is too long is left out, and that is said."""
    text = message.strip()
    if not text:
        return ""
    cut = text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE].rstrip()}\n… {len(text) - MAX_MESSAGE:,} more characters are left out"
    return block(cut, "text") if "\n" in cut else escape(cut, MAX_MESSAGE + 100)


def reproduction(result: Result) -> str:
    """The first failing workload made small: by which command it is seen in a clone of the pull request, and one wrong element."""
    small = result.reproduction
    if small is None:
        return ""
    axes = ", ".join(f"{escape(name, 60)} = {length}" for name, length in list(small.axes.items())[:20])
    again = repository_command(small.command, result.spec)
    lines = [f"The failing workload {code(small.workload, 100)}, made small ({axes}):", block(again[:2000], "sh")]
    if small.actual is not None:
        at = "" if small.index is None else "[" + ", ".join(map(str, small.index)) + "]"
        lines.append(f"There {code(f'{small.output}{at}', 200)} is {code(small.actual, 200)}, expected {code(small.expected or '', 200)}.")
    return "\n\n".join(lines)


def tried(experiments: Sequence[Experiment]) -> str:
    """How much was evaluated, and what came of it."""
    counts = Counter((str(one.verdict), one.tier) for one in experiments)
    rounds = len({one.round for one in experiments} - {0})
    verdicts = sorted({verdict for verdict, _ in counts}, key=lambda one: (-counts[one, "screening"] - counts[one, "full"], one))
    lines = [f"{rounds} {_plural(rounds, 'round')}, {len(experiments)} {_plural(len(experiments), 'evaluation')}.", ""]
    lines += ["| verdict | screened | judged in full |", "|---|--:|--:|"]
    lines += [f"| {escape(one)} | {counts[one, 'screening'] or ''} | {counts[one, 'full'] or ''} |" for one in verdicts]
    return "\n".join(lines)


def commit_message(order: Order, best: Outcome) -> str:
    measured = f"\n\n{best.entry.tier}: {best.verdict}, {best.speedup:.3f} times the {best.entry.against}" if best.speedup else ""
    return f"{order.spec}: {best.entry.agent}, round {best.entry.round}{measured}"


def winner_commit_message(release: Release) -> str:
    return f"{release.order.spec}: the kernel of {release.winner.agent} that was confirmed"


def evidence_message(release: Release) -> str:
    return f"{release.order.spec}: results and lessons of {release.order.campaign}"


def merge_message(order: Order, pull: Pull, approved_by: str) -> tuple[str, str]:
    """The title and text of the merge commit."""
    approved = f"Approved by {approved_by}.\n" if approved_by else ""
    return f"{order.spec}: the winner of {order.campaign} (pull request {pull.number})", f"{approved}Kernel tree {pull.kernel_tree}\n"


def evaluate_command(spec: str) -> str:
    """The command that judges a pull request's kernel in a clone of it."""
    return f"kernel-runner evaluate kernel-specs/{spec} --out result.json"


def repository_command(command: str, spec: str) -> str:
    """A judge's command as it is given in a clone of the pull request, whose spec folder holds the candidate as its `kernel/`."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    if words[:2] != ["kernel-runner", "evaluate"] or len(words) < 3:
        return command
    words[2] = f"kernel-specs/{spec}"
    if "--candidate" in words:
        at = words.index("--candidate")
        del words[at : at + 2]
    return shlex.join(words)


def _page(result: Result, after: Sequence[str], where: str, again: str) -> str:
    """A result's report with what follows it, in no more than `ROOM` characters."""
    small = result.model_copy(
        update={
            "message": "",
            "reproduction": None,
            "environment": dict(list(result.environment.items())[:40]),
            "knobs": result.knobs[:10],
        }
    )
    found = "\n\n".join(part for part in (told(result.message), reproduction(result)) if part)
    rest = "\n\n".join(after)
    rows = list(result.rows)
    while True:
        left_out = len(result.rows) - len(rows)
        note = f"{left_out} of {len(result.rows)} rows are left out here; the result has them all.\n\n" if left_out else ""
        page = document(report.markdown(small.model_copy(update={"rows": tuple(rows)}), where, again=again))
        heading, _, body = page.partition("\n\n")
        text = "\n\n".join(part for part in (heading, found, f"{body}\n{note}{rest}\n") if part)
        if len(text) <= ROOM or not rows:
            return text
        rows = rows[: len(rows) * 3 // 4]


def _provenance(release: Release) -> str:
    winner, experiments = release.winner, release.experiments
    first = next((one for one in experiments if one.id == winner.found), None)
    first = first or next((one for one in experiments if one.kernel_tree == winner.kernel_tree), None)
    lines = [f"- Agent: {code(winner.agent)}" + (f", made by {MADE_BY[first.kind]}, round {first.round}" if first is not None else "")]
    if first is not None:
        lines.append(f"- Parent: {code(first.parent)}" if first.parent else "- Parent: none")
        lines += [f"- Hypothesis: {escape(first.hypothesis, 1000)}"] if first.hypothesis else []
        lines.append(f"- First seen as {code(first.id)}")
    return "\n".join([*lines, f"- Kernel tree {code(winner.kernel_tree)}, spec {code(release.order.spec_hash)}"])


def _lessons(release: Release) -> str:
    lines = [f"- {escape(lesson.statement, 500)}" for lesson in release.lessons[:LESSONS]]
    more = len(release.lessons) - LESSONS
    return "\n".join([*lines, *([f"- … and {more} more in `lessons.md`"] if more > 0 else [])])


def times(winner: Winner) -> str:
    """A winner's speed-up with its interval."""
    low, high = winner.interval
    return f"{winner.speedup:.2f}× ({low:.2f}–{high:.2f})"


def _title(text: str) -> str:
    return text if len(text) <= MAX_TITLE else text[: MAX_TITLE - 1] + "…"


def _plural(number: int, word: str) -> str:
    return word if number == 1 else f"{word}s"
