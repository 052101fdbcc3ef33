"""The publish port of a forge: one pull request a lineage, a dashboard issue a campaign, the winner's evidence, review and merge.

Every call looks before it writes, so each may be repeated after a crash. What was seen on the forge counts, not what an event said.
"""

from __future__ import annotations

from collections.abc import Sequence

from bot import checks, comments, notices
from bot.campaign.branches import Branches, Committed, branch_of, campaign_of, folder_of
from bot.campaign.dashboard import Dashboard
from bot.campaign.lineages import Lineages, post
from bot.campaign.opinions import Opinion, opinion
from bot.campaign.people import entered_by, kernel_of, number_of, numbers_of
from bot.campaign.ports import Arrival, Changed, Closing, Release
from bot.campaign.state import Course, Merged, Order, Outcome, Plan, Publication, Pull, Review, StopReason, Waiting
from bot.campaign.store import Store
from bot.evidence.notebook import Notebook
from bot.hosting import PullRequest, Repository
from bot.specs import Survey
from runner.errors import FaultsError
from runner.spec.models import Policy

# The comment that tells what became of a kernel that was pushed over a winner's; the winner's own table stays.
PUSHED = "pushed"
# The one that tells why a kernel that was pushed is not judged.
ENOUGH = "enough"


class PullRequests:
    """`ReviewPort` on a forge, where the bot is called `bot`."""

    def __init__(self, repository: Repository, branches: Branches, store: Store, notebook: Notebook, bot: str) -> None:
        self.repository = repository
        self.branches = branches
        self.store = store
        self.notebook = notebook
        self.bot = bot
        self.lineages = Lineages(repository, branches, store, notebook, bot)
        self.dashboard = Dashboard(repository, branches, store, notebook)
        # The pull requests that wait for people now, by campaign: for whoever looks on, and for nothing else.
        self.waiting: dict[str, Pull] = {}

    def started(self, order: Order, plan: Plan) -> None:
        self.unchanged(order)
        if order.waiting is None:
            self.dashboard.show(order, "judging the champion")

    def proceeding(self, order: Order, what: str) -> None:
        self.dashboard.show(order, what)

    def progressed(self, order: Order, course: Course) -> None:
        self.unchanged(order)
        self.lineages.show(order, course)
        self.dashboard.show(order, f"round {len(course.turns)} has ended" if course.turns else "running")

    def published(self, release: Release) -> Publication:
        """The winner's head with its evidence, its check and its table, and the request for a review."""
        order, winner = release.order, release.winner
        base = self.unchanged(order)
        if self.branches.kernel_tree(base, order.spec) not in (order.champion, winner.kernel_tree):
            told = f"{folder_of(order.spec)}/kernel was changed on the default branch since the campaign began"
            return Publication(published=False, message=f"{told}, so nothing is merged")
        entered = number_of(order, winner.agent)
        if entered is None:
            pull, waiting, made = self._lineage(release)
        else:
            mine = self.repository.pull_request(entered)
            if mine.state != "open" or self.branches.kernel_tree(mine.head, order.spec) != winner.kernel_tree:
                what = "closed" if mine.state != "open" else "changed"
                told = f"pull request {entered} was {what} after its kernel was confirmed"
                return Publication(published=False, message=told, withdrawn=True)
            pull, waiting, made = self._entered(release, base, mine)
        evidence = self._evidence(made)
        self.repository.kept_comment(pull.number, comments.RESULT, comments.winner_comment(release, evidence))
        post(self.repository, made.head, f"{order.campaign}/{winner.kernel_tree}", checks.winner_check(release))
        # Called the winner only now that its head is the one to review. A person's pull request keeps the person's words.
        if pull.author == self.bot:
            credit = notices.fork_credit(waiting.origin, waiting.author) if waiting.origin is not None else ""
            self.repository.edit_pull_request(pull.number, comments.winner_title(release), comments.winner_body(release, credit))
        needed = order.accept.approval == "required"
        if needed:
            self.repository.request_review(pull.number)
        self.dashboard.show(order, "waiting for a review" if needed else "merging", pull.number, Waiting(winner=winner, pull=waiting))
        return Publication(published=True, message=f"pull request {pull.number}", pull=waiting)

    def arrivals(self, order: Order, policy: Policy, waiting: Pull | None) -> Sequence[Arrival]:
        base = self.unchanged(order)
        found = []
        for pull in self.repository.pull_requests(state="open"):
            pushed = waiting is not None and waiting.number == pull.number and waiting.head != pull.head
            if not pushed and not self._asks(order, pull):
                continue
            try:
                kernel = kernel_of(self.branches.clone, base, pull, lambda _: policy)
            except FaultsError as error:
                post(self.repository, pull.head, f"specs/{pull.head}", checks.spec_check(Survey(pull.head, (), error.faults)))
                continue
            if kernel is not None and kernel.spec == order.spec:
                found.append(Arrival(pull.number, pull.head, pull.author, kernel.candidate))
        return found

    def enough(self, number: int, count: int) -> None:
        self.repository.kept_comment(number, ENOUGH, notices.entered_enough(count))

    def answered(self, order: Order, outcomes: Sequence[Outcome], waiting: Pull | None) -> None:
        for outcome in outcomes:
            number = number_of(order, outcome.entry.agent)
            assert number is not None, "only people's kernels are answered"
            pull = self.repository.pull_request(number)
            if self.branches.kernel_tree(pull.head, order.spec) == outcome.entry.tree:
                marker = PUSHED if waiting is not None and waiting.number == number else comments.RESULT
                self.lineages.told(order, pull, pull.head, outcome, marker)

    def reviewed(self, order: Order, pull: Pull) -> Review:
        """An approval counts for exactly the judged head; so does a request for changes, which goes before any approval."""
        base = self.unchanged(order)
        request = self.repository.pull_request(pull.number)
        said = self._said(pull, request)
        if request.merged and not request.aside:
            if request.head != pull.head:
                told = f"pull request {pull.number} was merged by {request.merged_by or 'somebody'} at another head than the judged one"
                raise Changed(StopReason.KERNEL_CHANGED, told)
            return Review(status="approved", by=said.approver or request.merged_by or "")
        if request.state != "open":
            return Review(status="closed")
        self.waiting[order.campaign] = pull
        if request.head != pull.head:
            judged = self._judged(order, base, request)
            if judged and self.branches.kernel_tree(request.head, order.spec) == pull.kernel_tree:
                return Review(status="moved")
            self.repository.kept_comment(pull.number, comments.STATE, notices.moved(pull, request.head, judged))
            return Review(status="pushed")
        if said.objection is not None:
            one = said.objection
            return Review(status="changes", by=one.author, text=one.body[:4000], review=one.id)
        return Review(status="approved", by=said.approver) if said.approver else Review(status="waiting")

    def merged(self, order: Order, pull: Pull, approved_by: str) -> Merged:
        base = self.unchanged(order)
        request = self.repository.pull_request(pull.number)
        if not request.merged:
            if self.branches.kernel_tree(base, order.spec) != order.champion:
                raise Changed(StopReason.KERNEL_CHANGED, "the kernel on the default branch was changed before the winner was merged")
            # Since the reviews were read the bot may have been down for days.
            said = self._said(pull, request)
            if said.objection is not None or (order.accept.approval == "required" and not said.approver):
                return Merged(merged=False, message="its approval was taken back")
            approved_by = said.approver
            merge = self.repository.merge(pull.number, pull.head, *comments.merge_message(order, pull, approved_by))
            if not merge.merged:
                self.repository.kept_comment(pull.number, comments.STATE, notices.not_merged(merge.message))
                return Merged(merged=False, message=merge.message)
            request = self.repository.pull_request(pull.number)
        sha = request.merge_commit or ""
        if self.branches.spec_hash(sha, order.spec) != order.spec_hash:
            self.repository.kept_comment(pull.number, comments.STATE, notices.spec_overtaken(order))
        if pull.origin is not None:
            self.repository.kept_comment(pull.origin, comments.CLOSED, notices.fork_merged(pull.number, sha))
            self.repository.close(pull.origin)
        tree = self.branches.kernel_tree(sha, order.spec) or ""
        if tree != pull.kernel_tree:
            self.repository.kept_comment(pull.number, comments.STATE, notices.mixed(order, pull, tree))
            told = f"pull request {pull.number} was merged, and the kernel that came of it is {tree or 'none'}, not the judged one"
            raise Changed(StopReason.KERNEL_CHANGED, told)
        return Merged(merged=True, sha=sha, number=pull.number, approved_by=approved_by, kernel_tree=tree, head=request.head)

    def ended(self, closing: Closing) -> tuple[str, ...]:
        """Close what did not win, with the reason, and tell the people whose kernels did not; the dashboard tells the end."""
        order, ending = closing.order, closing.ending
        self.lineages.close(order, ending)
        agents = {one.agent for one in self.notebook.experiments(order.spec, campaign=order.campaign)}
        entered = numbers_of(order, agents)
        for pull in self.repository.pull_requests(state="open"):
            if pull.number in entered and pull.author != self.bot:
                self.repository.kept_comment(pull.number, comments.STATE, notices.not_chosen(ending))
        self.dashboard.ended(closing)
        return ()

    def unchanged(self, order: Order) -> str:
        """The default branch's commit, where the spec is still the one that the campaign is about; `Changed` where it isn't.

        What stands where is asked of the forge. The clone only has what commits hold, and fetches one that it lacks.
        """
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

    def _lineage(self, release: Release) -> tuple[PullRequest, Pull, Committed]:
        """The winner's pull request where a lineage found it, with the evidence pushed."""
        order, winner = release.order, release.winner
        branch = branch_of(order.campaign, winner.agent)
        head, _ = self.lineages.head(order, winner.agent, release.candidate, comments.winner_commit_message(release))
        made = self.branches.evidence(release, order.commit, head, comments.evidence_message(release))
        if made.head != head:
            self.branches.push(branch, made.head, head)
        pull = self.repository.open_pull_request(branch, comments.winner_title(release), comments.winner_body(release))
        return pull, Pull(number=pull.number, head=made.head, kernel_tree=winner.kernel_tree), made

    def _entered(self, release: Release, base: str, mine: PullRequest) -> tuple[PullRequest, Pull, Committed]:
        """The winner's pull request where a person entered it. A fork's branch is not the bot's to push to: its commits get another."""
        order, winner = release.order, release.winner
        common = self.branches.clone.merge_base(base, mine.head)
        made = self.branches.evidence(release, common, mine.head, comments.evidence_message(release))
        author = mine.author if mine.author != self.bot else self.store.pusher(mine.head)
        pull = Pull(number=mine.number, head=made.head, kernel_tree=winner.kernel_tree, author=author)
        if not mine.fork:
            if made.head != mine.head:
                self.branches.push(mine.branch, made.head, mine.head)
            return mine, pull, made
        branch = branch_of(order.campaign, entered_by(mine.number))
        before = self.repository.head(branch)
        if before != made.head:
            self.branches.push(branch, made.head, before)
        body = comments.winner_body(release, notices.fork_credit(mine.number, author))
        own = self.repository.open_pull_request(branch, comments.winner_title(release), body)
        self.repository.kept_comment(mine.number, comments.STATE, notices.fork_waits(own.number))
        return own, pull.model_copy(update={"number": own.number, "origin": mine.number}), made

    def _said(self, pull: Pull, request: PullRequest) -> Opinion:
        """What the reviews of a winner's pull request amount to, those of whoever made its kernel left out."""
        # Whoever made it may be called otherwise by now.
        origin = self.repository.pull_request(pull.origin).author if pull.origin is not None else ""
        return opinion(self.repository.reviews(pull.number), pull.head, (self.bot, request.author, pull.author, origin))

    def _evidence(self, made: Committed) -> comments.Evidence:
        url = self.repository.file_url
        return comments.Evidence(made.head, made.result, url(made.head, made.result), url(made.head, made.plot))

    def _asks(self, order: Order, pull: PullRequest) -> bool:
        """Whether an open pull request is a person's that this campaign may judge."""
        own = pull.author == self.bot or (campaign_of(pull.branch) is not None and not pull.fork)
        return not own and not pull.aside and order.submission in (None, pull.number)

    def _judged(self, order: Order, base: str, request: PullRequest) -> bool:
        """Whether a head that was pushed over a winner's is judged: it changes nothing but the kernel, as far as can be said now."""
        if order.waiting is not None and order.waiting.pull.number == request.number:
            return False
        try:
            kernel = kernel_of(self.branches.clone, base, request, lambda _: Policy())
        except FaultsError:
            return True  # told at their lines
        return kernel is not None and kernel.spec == order.spec
