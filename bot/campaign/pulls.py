"""The publish port of a forge: one pull request a lineage, a dashboard issue a campaign, the winner's evidence, review and merge.

Every call looks before it writes, so each may be repeated after a crash. What was seen on the forge counts, not what an event said.
"""

from __future__ import annotations

from collections.abc import Sequence

from bot import verdicts
from bot.campaign.branches import PREFIX, Branches, branch_of, folder_of
from bot.campaign.dashboard import Dashboard
from bot.campaign.hosted import PERSON
from bot.campaign.people import kernel_of
from bot.campaign.ports import Arrival, Changed, Closing, Release
from bot.campaign.state import Course, Merged, Order, Outcome, Plan, Publication, Pull, Review, StopReason
from bot.campaign.store import Store
from bot.decision import lineage_best, objected
from bot.evidence.notebook import Notebook
from bot.hosting import PullRequest, Repository
from bot.hosting import Review as Said
from runner.errors import FaultsError
from runner.spec.models import Policy
from runner.verdict import Verdict

# The bounds of what the store may hold; a spec's own were checked when the candidate came in.
STORED = Policy(max_files=64, max_bytes=4_000_000)


class PullRequests:
    """`ReviewPort` on a forge, where the bot is called `bot`."""

    def __init__(self, repository: Repository, branches: Branches, store: Store, notebook: Notebook, bot: str) -> None:
        self.repository = repository
        self.branches = branches
        self.store = store
        self.notebook = notebook
        self.bot = bot
        self.dashboard = Dashboard(repository, branches, notebook)
        # The pull requests that wait for people now, by campaign: for whoever looks on, and for nothing else.
        self.waiting: dict[str, Pull] = {}

    def started(self, order: Order, plan: Plan) -> None:
        self._unchanged(order)
        self.dashboard.show(order, "running")

    def progressed(self, order: Order, course: Course) -> None:
        self._unchanged(order)
        for agent in order.agents:
            best = _best(course, agent.name)
            if best is not None and best.tree != order.champion:
                self._lineage(order, agent.name, best)
        self.dashboard.show(order, "running")

    def published(self, release: Release) -> Publication:
        """The winner's head with its evidence, its check and its table, and the request for a review."""
        order, winner = release.order, release.winner
        self._unchanged(order)
        now = self.branches.kernel_tree(self.repository.default_branch().sha, order.spec)
        if now not in (order.champion, winner.kernel_tree):
            told = f"{folder_of(order.spec)}/kernel was changed on the default branch since the campaign began"
            return Publication(published=False, message=f"{told}, so nothing is merged; the winner is kept in its pull request")
        pull, head = self._winning(release)
        if not pull.fork:
            head = self.branches.evidence(release, pull.branch, head, verdicts.evidence_message(release))
        self.repository.kept_comment(pull.number, verdicts.RESULT, verdicts.winner_comment(release, head))
        verdicts.winner_check(self.repository, release, head)
        # Called the winner only now that its head is the one to review. A person's pull request keeps the person's words.
        if pull.author == self.bot:
            self.repository.edit_pull_request(pull.number, verdicts.winner_title(release), verdicts.winner_body(release))
        if order.accept.approval == "required":
            self.repository.request_review(pull.number)
        self.dashboard.show(order, "waiting" if order.accept.approval == "required" else "merging", pull.number)
        return Publication(
            published=True,
            message=f"pull request {pull.number}",
            pull=Pull(number=pull.number, head=head, kernel_tree=winner.kernel_tree),
        )

    def arrivals(self, order: Order) -> Sequence[Arrival]:
        base = self._unchanged(order)
        found = []
        for pull in self.repository.pull_requests(state="open"):
            if pull.author == self.bot or pull.branch.startswith(PREFIX) or order.submission not in (None, pull.number):
                continue
            try:
                kernel = kernel_of(self.branches.clone, base, pull)
            except FaultsError:
                continue  # told in a check of its own when it was pushed
            if kernel is not None and kernel.spec == order.spec:
                found.append(Arrival(pull.number, pull.head, pull.author, kernel.candidate))
        return found

    def answered(self, order: Order, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            number = int(outcome.entry.agent.removeprefix(PERSON))
            pull = self.repository.pull_request(number)
            if self.branches.kernel_tree(pull.head, order.spec) == outcome.entry.tree:
                self._told(order, pull, pull.head, outcome)

    def reviewed(self, order: Order, pull: Pull) -> Review:
        """An approval counts for exactly the judged head; so does a request for changes, which goes before any approval."""
        self._unchanged(order)
        request = self.repository.pull_request(pull.number)
        if request.merged:
            return Review(status="approved", by=self._approver(pull) or request.merged_by or "")
        if request.state != "open":
            return Review(status="closed")
        if request.head != pull.head:
            verdicts.moved(self.repository, pull, request.head)
            return Review(status="waiting")
        latest: dict[str, Said] = {}
        for review in self.repository.reviews(pull.number):
            if review.counts and review.author not in (self.bot, request.author):
                latest[review.author] = review
        asked = [one for one in latest.values() if one.state == "CHANGES_REQUESTED" and one.commit == pull.head]
        if asked:
            return Review(status="changes", by=asked[0].author, text=asked[0].body[:4000], review=asked[0].id)
        approver = self._approver(pull)
        self.waiting[order.campaign] = pull
        return Review(status="approved", by=approver) if approver else Review(status="waiting")

    def merged(self, order: Order, pull: Pull, approved_by: str) -> Merged:
        self._unchanged(order)
        request = self.repository.pull_request(pull.number)
        if not request.merged:
            now = self.branches.kernel_tree(self.repository.default_branch().sha, order.spec)
            if now != order.champion:
                raise Changed(StopReason.KERNEL_CHANGED, "the kernel on the default branch was changed before the winner was merged")
            title, message = verdicts.merge_message(order, pull, approved_by)
            merge = self.repository.merge(pull.number, pull.head, title, message)
            if not merge.merged:
                verdicts.not_merged(self.repository, pull, merge.message)
                return Merged(merged=False, message=merge.message)
            request = self.repository.pull_request(pull.number)
        self.branches.clone.fetch()
        tree = self.branches.kernel_tree(request.merge_commit or "", order.spec) or ""
        return Merged(
            merged=True, sha=request.merge_commit or "", number=pull.number, approved_by=approved_by, kernel_tree=tree, head=request.head
        )

    def ended(self, closing: Closing) -> tuple[str, ...]:
        """Close what did not win, with the reason; the dashboard tells the end."""
        order, ending = closing.order, closing.ending
        for pull in self.repository.pull_requests(state="open"):
            if pull.author == self.bot and pull.branch.startswith(f"{PREFIX}{order.campaign}/"):
                self.repository.kept_comment(pull.number, verdicts.CLOSED, verdicts.closing_comment(ending))
                self.repository.close(pull.number)
        self.dashboard.ended(closing)
        return ()

    def _unchanged(self, order: Order) -> str:
        """The default branch's commit, where the spec is still the one that the campaign is about; `Changed` where it isn't."""
        self.branches.clone.fetch()
        commit = self.repository.default_branch().sha
        now = self.branches.spec_hash(commit, order.spec)
        if now is None:
            raise Changed(StopReason.SPEC_CHANGED, "the spec was deleted while the campaign ran; nothing judged by it is merged")
        if now != order.spec_hash:
            told = (
                "the spec was changed while the campaign ran; nothing judged by the old one is merged, and a campaign on the new one begins"
            )
            raise Changed(StopReason.SPEC_CHANGED, told)
        return commit

    def _lineage(self, order: Order, agent: str, best: Outcome) -> PullRequest:
        """A lineage's pull request, with its head at this kernel."""
        branch = branch_of(order.campaign, agent)
        candidate = self.store.candidate(best.tree, STORED)
        head = self.branches.lineage(order, agent, self.repository.head(branch), candidate, verdicts.commit_message(order, best))
        title, body = verdicts.lineage_title(order, agent), verdicts.lineage_body(order, best)
        pull = self.repository.open_pull_request(branch, title, body)
        self._told(order, pull, head, best)
        return pull

    def _told(self, order: Order, pull: PullRequest, head: str, outcome: Outcome) -> None:
        """The verdict on a pull request's head: its table in the one kept comment, and its check."""
        result = self.store.result(outcome.result) if outcome.result is not None else None
        self.repository.kept_comment(pull.number, verdicts.RESULT, verdicts.result_comment(order, outcome, result, head))
        verdicts.check(self.repository, order, outcome, head)

    def _winning(self, release: Release) -> tuple[PullRequest, str]:
        """The winner's pull request and its head, which holds the winner's kernel."""
        order, winner = release.order, release.winner
        if winner.agent.startswith(PERSON):
            pull = self.repository.pull_request(int(winner.agent.removeprefix(PERSON)))
            if self.branches.kernel_tree(pull.head, order.spec) != winner.kernel_tree:
                raise Changed(StopReason.KERNEL_CHANGED, f"pull request {pull.number} was changed after its kernel was confirmed")
            return pull, pull.head
        branch = branch_of(order.campaign, winner.agent)
        message = verdicts.winner_commit_message(release)
        head = self.branches.lineage(order, winner.agent, self.repository.head(branch), release.candidate, message)
        return self.repository.open_pull_request(branch, verdicts.winner_title(release), verdicts.winner_body(release)), head

    def _approver(self, pull: Pull) -> str:
        """Who approves exactly this head and may; empty when nobody does."""
        request = self.repository.pull_request(pull.number)
        latest = {one.author: one for one in self.repository.reviews(pull.number) if one.counts}
        approving = [one for one in latest.values() if one.state == "APPROVED" and one.commit == pull.head]
        return next((one.author for one in approving if one.author not in (self.bot, request.author)), "")


def _best(course: Course, agent: str) -> Outcome | None:
    """What a lineage shows: the best that was accepted in full, else the best that was screened; nothing that a person objected to."""
    refused = objected(course)
    judged = [turn.judged for turn in course.turns if turn.judged is not None and turn.judged.entry.agent == agent]
    good = [one for one in judged if one.verdict is Verdict.ACCEPTED and one.tree not in refused]
    if good:
        return max(good, key=lambda one: one.strength or 0.0)
    best = lineage_best(course, agent)
    full = next((one for one in judged if best is not None and one.tree == best.tree), None)
    return None if best is None or best.tree in refused else full or best
