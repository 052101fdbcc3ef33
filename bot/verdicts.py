"""What a campaign says on the forge, put where it belongs: the texts are pure functions, each call shows one of them once."""

from __future__ import annotations

from collections.abc import Sequence

from bot.campaign.ports import Closing, Release
from bot.campaign.state import Ending, Order, Outcome, Pull
from bot.dashboard.markdown import code, escape, inert
from bot.evidence.experiment import Experiment
from bot.hosting import Annotation, Conclusion, PullRequest, Repository
from bot.specs import Survey
from runner import report
from runner.result import Result
from runner.verdict import Verdict

# The markers of the comments that are kept current, one of each in a pull request.
RESULT, CLOSED, STATE = "result", "closed", "state"
MAX_ANNOTATIONS = 50


def lineage_title(order: Order, agent: str) -> str:
    return f"{order.spec}: candidate of {agent} ({order.campaign})"


def lineage_body(order: Order, best: Outcome) -> str:
    return "\n\n".join(
        [
            f"The best kernel so far of the lineage {code(best.entry.agent)} in the campaign {code(order.campaign)}.",
            f"Hypothesis: {escape(best.entry.hypothesis)}" if best.entry.hypothesis else "",
            "The verdict on its head is in the comment below and in the check. "
            "This branch moves only when the lineage finds something better.",
        ]
    ).strip()


def commit_message(order: Order, best: Outcome) -> str:
    measured = f"\n\n{best.entry.tier}: {best.verdict}, {best.speedup:.3f} times the {best.entry.against}" if best.speedup else ""
    return f"{order.spec}: {best.entry.agent}, round {best.entry.round}{measured}"


def winner_commit_message(release: Release) -> str:
    return f"{release.order.spec}: the kernel of {release.winner.agent} that was confirmed"


def evidence_message(release: Release) -> str:
    return f"{release.order.spec}: results and lessons of {release.order.campaign}"


def winner_title(release: Release) -> str:
    low, high = release.winner.interval
    return f"{release.order.spec}: {release.winner.speedup:.2f}× ({low:.2f}–{high:.2f}), the winner of {release.order.campaign}"


def winner_body(release: Release) -> str:
    order, winner = release.order, release.winner
    return (
        f"**The winner** of the campaign {code(order.campaign)}, of the lineage {code(winner.agent)}, confirmed in fresh processes.\n\n"
        f"The judged kernel tree is {code(winner.kernel_tree)}. The last commit adds the results, the page and the lessons, and nothing "
        "else. An approving review of exactly this head by a person with write access merges it; a request for changes brings another."
    )


def winner_comment(release: Release, head: str) -> str:
    table = inert(report.markdown(release.result, f"kernel-specs/{release.order.spec}/results/result.json"))
    return f"{table}\nJudged: {code(head)}\n"


def result_comment(order: Order, outcome: Outcome, result: Result | None, head: str) -> str:
    if result is not None:
        return f"{inert(report.markdown(result))}\nJudged: {code(head)}\n"
    measured = f", {outcome.speedup:.3f}× the baseline" if outcome.speedup is not None else ""
    told = report.prose(outcome.message) if outcome.message else ""
    verdict = escape(str(outcome.verdict or "not evaluated"))
    return f"## {escape(order.spec)}: {verdict} ({outcome.entry.tier}{measured})\n\n{inert(told)}\n\nJudged: {code(head)}\n"


def closing_comment(ending: Ending) -> str:
    if ending.merged is not None and ending.winner is not None:
        over = f"{ending.winner.speedup:.3f}×"
        return f"Closed: the kernel of {code(ending.winner.agent)} won with {over} and was merged as {code(ending.merged.sha[:12])}."
    return f"Closed: the campaign ended without a merge. {escape(ending.reason)}"


def dashboard_title(order: Order) -> str:
    return f"Campaign {order.campaign}"


def dashboard_body(
    order: Order, state: str, experiments: Sequence[Experiment], pulls: Sequence[PullRequest], plot: str | None, winner: int | None = None
) -> str:
    spent = sum(one.seconds for one in experiments) / 60
    budget = order.budget
    lines = [
        f"Spec {code(order.spec)}, **{escape(state)}**" + (f": pull request {number_of(winner)} waits for a review" if winner else ""),
        f"{len(experiments)} of {budget.candidates} candidates, {spent:.1f} of {budget.device_minutes:g} device minutes.",
        *([f"![How the best speed-up grew](<{plot}>)"] if plot else []),
        _lineages(experiments, pulls),
    ]
    return "\n\n".join(line for line in lines if line)


def dashboard_end(closing: Closing, experiments: Sequence[Experiment], pulls: Sequence[PullRequest], plot: str | None) -> str:
    body = dashboard_body(closing.order, "merged" if closing.ending.merged else "ended without a merge", experiments, pulls, plot)
    lessons = [f"- {escape(lesson.statement)}" for lesson in closing.lessons[:10]]
    return "\n\n".join([body, f"Why it ended: {escape(closing.ending.reason)}", *(["### Lessons", "\n".join(lessons)] if lessons else [])])


def number_of(number: int) -> str:
    """A reference to a pull request of this repository, meant as one."""
    return f"#{number}"


def _lineages(experiments: Sequence[Experiment], pulls: Sequence[PullRequest]) -> str:
    agents = dict.fromkeys(one.agent for one in experiments)
    lines = ["| lineage | judged | best | pull request |", "|---|--:|--:|---|"] if agents else []
    for agent in agents:
        mine = [one for one in experiments if one.agent == agent]
        best = max((one.speedup for one in mine if one.speedup is not None), default=None)
        pull = next((one for one in pulls if one.branch.endswith(f"/{agent}")), None)
        lines.append(
            f"| {code(agent, cell=True)} | {len(mine)} | {f'{best:.3f}×' if best else '–'} | {number_of(pull.number) if pull else ''} |"
        )
    return "\n".join(lines)


def check(repository: Repository, order: Order, outcome: Outcome, head: str) -> None:
    """The check on a lineage's or a person's head: success only where it was accepted in full."""
    measured = f" {outcome.speedup:.3f}×" if outcome.speedup is not None else ""
    conclusion: Conclusion = "success" if outcome.verdict is Verdict.ACCEPTED else "failure"
    if outcome.entry.tier == "screening":
        conclusion = "neutral"
    title = f"{outcome.verdict or 'not evaluated'}{measured} ({outcome.entry.tier})"
    repository.check(head, f"{order.campaign}/{outcome.tree}", "completed", conclusion, title, report.prose(outcome.message) or title, ())


def winner_check(repository: Repository, release: Release, head: str) -> None:
    """The check on the winner's head."""
    low, high = release.winner.interval
    title = f"accepted {release.winner.speedup:.3f}× ({low:.3f}–{high:.3f})"
    summary = f"Kernel tree {release.winner.kernel_tree}, confirmed in fresh processes."
    repository.check(head, f"{release.order.campaign}/{release.winner.kernel_tree}", "completed", "success", title, summary, ())


def spec_check(repository: Repository, survey: Survey) -> None:
    """The check on a commit whose specs were read: valid, or every fault at its line."""
    faults = survey.faults
    notes = [Annotation(path=one.file, line=one.line, column=one.column, message=one.message) for one in faults[:MAX_ANNOTATIONS]]
    if faults:
        title = f"{len(faults)} faults" if len(faults) > 1 else "1 fault"
        summary = "\n".join(f"- {code(f'{one.file}:{one.line}:{one.column}')} {escape(one.message)}" for one in faults)
    else:
        title = f"{len(survey.specs)} valid" if len(survey.specs) != 1 else "valid"
        summary = "\n".join(f"- {code(spec.spec.id)} {escape(spec.spec.title)}" for spec in survey.specs)
    repository.check(survey.commit, f"specs/{survey.commit}", "completed", "failure" if faults else "success", title, summary, notes)


def moved(repository: Repository, pull: Pull, head: str) -> None:
    """Tell that a push voided what was said of the judged head."""
    repository.kept_comment(
        pull.number,
        STATE,
        f"The head is {code(head)} now, and was {code(pull.head)} when it was judged. Approvals count for the judged head only, "
        "so nothing is merged. Push that commit back, or close this pull request.",
    )


def not_merged(repository: Repository, pull: Pull, why: str) -> None:
    """Tell why an approved head could not be merged."""
    repository.kept_comment(pull.number, STATE, f"Not merged yet: {escape(why)}. It is tried again.")


def merge_message(order: Order, pull: Pull, approved_by: str) -> tuple[str, str]:
    """The title and text of the merge commit."""
    approved = f"Approved by {approved_by}.\n" if approved_by else ""
    return f"{order.spec}: the winner of {order.campaign} (pull request {pull.number})", f"{approved}Kernel tree {pull.kernel_tree}\n"
