"""The pull requests of a campaign's lineages: each shows its lineage's best with its verdict, until the campaign ends."""

from __future__ import annotations

from collections.abc import Sequence

from bot import checks, comments, notices
from bot.campaign.branches import Branches, branch_of, campaign_of
from bot.campaign.state import Course, Ending, Order, Outcome
from bot.campaign.store import STORED, Store
from bot.decision import lineage_best, objected
from bot.evidence.notebook import Notebook
from bot.hosting import PullRequest, Repository
from runner.candidate import Candidate
from runner.verdict import Verdict


class Lineages:
    """One pull request a lineage, whose branch belongs to the campaign: what others push there is replaced, and that is told."""

    def __init__(self, repository: Repository, branches: Branches, store: Store, notebook: Notebook, bot: str) -> None:
        self.repository = repository
        self.branches = branches
        self.store = store
        self.notebook = notebook
        self.bot = bot

    def show(self, order: Order, course: Course) -> None:
        """Bring each lineage's pull request to its best."""
        pulls = self.of(order)
        # Where a person's kernel took a winner's place the branch is theirs now.
        taken = {replacement.number for replacement in course.replacements}
        for agent in order.agents:
            best = shown(course, agent.name)
            if best is None or best.tree == order.champion:
                continue
            mine = [pull for pull in pulls if pull.branch == branch_of(order.campaign, agent.name)]
            if taken & {pull.number for pull in mine}:
                continue
            if mine and mine[-1].state == "closed":
                text = notices.lineage_closed(order, agent.name)
                self.repository.kept_comment(mine[-1].number, comments.STATE, text)
                continue
            self._shown(order, agent.name, best)

    def of(self, order: Order) -> Sequence[PullRequest]:
        """The bot's own pull requests of a campaign, oldest first."""
        pulls = self.repository.pull_requests(state="all")
        return [pull for pull in pulls if pull.author == self.bot and campaign_of(pull.branch) == order.campaign]

    def head(self, order: Order, agent: str, candidate: Candidate, message: str) -> tuple[str, str | None]:
        """The head of a lineage's branch with this kernel, and what somebody else had pushed there, which it replaces."""
        now = self.repository.head(branch_of(order.campaign, agent))
        own = now is not None and self._own(order, now)
        head = self.branches.lineage(order, agent, now, candidate, message, own=own)
        return head, now if now is not None and not own else None

    def told(self, order: Order, pull: PullRequest, head: str, outcome: Outcome, marker: str = comments.RESULT) -> None:
        """The verdict on a pull request's head: its table in the one kept comment, and its check."""
        result = self.store.result(outcome.result) if outcome.result is not None else None
        kept = self.notebook.get(outcome.entry.experiment()) if outcome.entry.tuning is None else None
        message = kept.message if kept is not None else outcome.message
        files = self.store.candidate(outcome.tree, STORED).files
        self.repository.kept_comment(pull.number, marker, comments.result_comment(order, outcome, result, head, message))
        check = checks.verdict_check(order, outcome, result, message, files)
        post(self.repository, head, f"{order.campaign}/{outcome.tree}", check)

    def close(self, order: Order, ending: Ending) -> None:
        """Close what did not win, with the reason, and delete the campaign's branches: their commits stay with the pull requests."""
        pulls = self.of(order)
        for pull in pulls:
            if pull.state == "open":
                self.repository.kept_comment(pull.number, comments.CLOSED, notices.closed(ending))
                self.repository.close(pull.number)
        for branch in dict.fromkeys([*(branch_of(order.campaign, agent.name) for agent in order.agents), *(one.branch for one in pulls)]):
            head = self.repository.head(branch)
            if head is not None:
                self.branches.delete(branch, head)

    def _shown(self, order: Order, agent: str, best: Outcome) -> None:
        head, replaced = self.head(order, agent, self.store.candidate(best.tree, STORED), comments.commit_message(order, best))
        title, body = comments.lineage_title(order, agent), comments.lineage_body(order, agent)
        pull = self.repository.open_pull_request(branch_of(order.campaign, agent), title, body)
        if replaced is not None:
            self.repository.kept_comment(pull.number, comments.STATE, notices.lineage_replaced(replaced))
        self.told(order, pull, head, best)

    def _own(self, order: Order, head: str) -> bool:
        """Whether a head is the campaign's: beside a kernel that it knows, and evidence, nothing differs from where it began.

        Where the store was lost, the bot's own check on the head says that it knows the kernel.
        """
        tree = self.branches.kernel_tree(head, order.spec)
        if tree is None or self.branches.foreign(order.commit, head, order.spec):
            return False
        return self.store.candidate_folder(tree).exists() or f"{order.campaign}/{tree}" in self.repository.verdicts(head)


def post(repository: Repository, head: str, name: str, check: checks.Check) -> None:
    """Put a check on a commit."""
    repository.check(head, name, "completed", check.conclusion, check.title, check.summary, check.annotations)


def shown(course: Course, agent: str) -> Outcome | None:
    """What a lineage shows: the best that was accepted in full, else the best that was screened; nothing that a person objected to."""
    refused = objected(course)
    judged = [turn.judged for turn in course.turns if turn.judged is not None and turn.judged.entry.agent == agent]
    good = [one for one in judged if one.verdict is Verdict.ACCEPTED and one.tree not in refused]
    if good:
        return max(good, key=lambda one: one.strength or 0.0)
    best = lineage_best(course, agent)
    full = next((one for one in judged if best is not None and one.tree == best.tree), None)
    return None if best is None or best.tree in refused else full or best
