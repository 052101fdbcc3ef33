"""The short notices that the bot leaves in pull requests when people or specs do something. Pure functions; who posts them is elsewhere."""

from __future__ import annotations

from bot.campaign.state import Ending, Order, Pull
from bot.comments import times
from bot.dashboard.markdown import code, escape


def closed(ending: Ending) -> str:
    """Why a lineage's pull request is closed."""
    kept = "Its commits stay with this pull request, its experiments in the notebook."
    if ending.merged is not None and ending.winner is not None:
        return f"Closed: {_won(ending)} as {code(ending.merged.sha[:12])}. {kept}"
    return f"Closed: the campaign ended without a merge: {escape(ending.reason, 1000)}\n\n{kept}"


def not_chosen(ending: Ending) -> str:
    """A person's kernel was judged and did not win."""
    why = f"{_won(ending)}." if _won(ending) else f"The campaign ended without a merge: {escape(ending.reason, 1000)}."
    return f"{why[0].upper()}{why[1:]} This pull request is yours and stays as it is: push another kernel to have it judged, or close it."


def fork_waits(number: int) -> str:
    """The kernel of a fork's pull request won, and waits in the bot's own."""
    return f"This kernel won, and waits for a review in #{number}, on top of these very commits: the bot can't push to a fork's branch."


def fork_credit(number: int, author: str) -> str:
    """Whose work a pull request of the bot's carries."""
    whose = f"The kernel is that of #{number} by {code(author)}, whose commits this carries as they are."
    return f"{whose} That pull request is closed once this one is merged."


def fork_merged(number: int, sha: str) -> str:
    """Commits from a fork were merged through the bot's own pull request."""
    return f"Merged with your commits as {code(sha[:12])} through #{number}, which adds the evidence."


def moved(pull: Pull, head: str, judged: bool) -> str:
    """A push came to the head that waits for its review; `judged` says that only the kernel was changed."""
    now = f"The head is {code(head)} now, and was {code(pull.head)} when it was judged."
    void = f"{now} Approvals count for the judged head only, so nothing is merged."
    if judged:
        return f"{void} Only the kernel was changed, so the new one is judged as a person's own: accepted, it takes the winner's place."
    return f"{void} More than the kernel was changed, so it is not judged. Push the judged commit back, or close this pull request."


def not_merged(why: str) -> str:
    """An approved head could not be merged yet."""
    return f"Not merged yet: {escape(why, 1000)}. It is tried again."


def lineage_closed(order: Order, agent: str) -> str:
    """A person closed a lineage's pull request, or deleted its branch."""
    return (
        f"Closed by a person while {code(order.campaign)} runs. The lineage {code(agent)} goes on, and is not shown here any more "
        "unless this is opened again. Should it win, the winner gets a pull request of its own."
    )


def lineage_replaced(head: str) -> str:
    """Somebody pushed to a lineage's branch, and the campaign put its own best there again."""
    return f"Somebody pushed {code(head)} here. The branch is the campaign's: it holds its own best again, and nothing of that push."


def reopened(campaign: str) -> str:
    """A pull request of a campaign that has ended was opened again."""
    return (
        f"The campaign {code(campaign)} has ended, so nothing more is judged or merged here. To enter this kernel, open a pull request "
        "from a branch of your own."
    )


def enough(count: int) -> str:
    """A pull request whose kernel changes again and again has had its share of the machines."""
    return (
        f"{count} campaigns were about kernels of this pull request, and no more begin because of it. A further kernel of it is judged "
        "when a campaign on its spec runs."
    )


def entered_enough(count: int) -> str:
    """A campaign judges no more of a pull request's kernels."""
    told = f"This campaign judges no more kernels of this pull request, of which it has judged {count}."
    return f"{told} What was pushed last waits for its end."


def mixed(order: Order, pull: Pull, tree: str) -> str:
    """A merge brought another kernel than the judged one: the default branch's own was changed in the meantime."""
    return (
        f"The kernel of {code(order.spec)} on the default branch was changed before this merge, and {code(tree or 'nothing')} came of "
        f"both. Judged was {code(pull.kernel_tree)}: what stands there now nobody has judged. The next campaign judges it first; "
        "revert this merge, or that change, to have one of the two."
    )


def reverted(order: Order, again: bool) -> str:
    """The merged kernel is no longer the one on the default branch; `again` says that the one before it is back."""
    what = "was reverted: the kernel before it is back" if again else "was replaced by another kernel"
    return (
        f"What was merged here {what} on the default branch. That is a person's decision, and no campaign begins because of it: "
        f"a change of {code(f'kernel-specs/{order.spec}')} beside its kernel begins one."
    )


def spec_overtaken(order: Order) -> str:
    """The spec was changed in the very moment of the merge."""
    return (
        f"The spec {code(order.spec)} was changed in the moment of this merge, so the merged kernel was judged by the spec before. "
        "The campaign on the new spec judges it first."
    )


def _won(ending: Ending) -> str:
    if ending.merged is None or ending.winner is None:
        return ""
    return f"the kernel of {code(ending.winner.agent)} won with {times(ending.winner)} and was merged from #{ending.merged.number}"
