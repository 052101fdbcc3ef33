"""From an event to what follows from it: checks on pushed specs, campaigns begun or woken, people's pull requests looked at.

An event only says where to look: what is done follows from what the forge holds now. So the same function serves a delivery, a
delivery that came twice or too late, and the timer that finds what was never delivered.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from bot import comments, notices
from bot.campaign.branches import PREFIX, Branches, campaign_of
from bot.campaign.lineages import post
from bot.campaign.orders import order_of
from bot.campaign.people import entered_by, kernel_of
from bot.campaign.recall import judged, recalled, recovered
from bot.campaign.state import Merged, Order, StopReason
from bot.campaign.store import Store
from bot.checks import spec_check
from bot.events import Event, Pushed
from bot.evidence.notebook import Notebook
from bot.hosting import PullRequest, Repository
from bot.specs import Survey, Trees, spec_named
from runner.errors import FaultsError
from runner.spec.load import LoadedSpec
from runner.spec.models import Policy

# So ended, a campaign says nothing of what stands there now: another one begins.
OVERTAKEN = (StopReason.KERNEL_CHANGED, StopReason.JUDGE_CHANGED, StopReason.SPEC_CHANGED)


@dataclass(frozen=True)
class Known:
    """A campaign that was begun: whether it runs, and how it stopped and what it merged where it has ended."""

    order: Order
    running: bool
    stop: StopReason | None = None
    merged: Merged | None = None


class Campaigns(Protocol):
    """The campaigns of this bot."""

    def known(self) -> Sequence[Known]:
        """All that were begun, oldest first."""

    def begin(self, order: Order) -> None:
        """Begin one; one of that name that was begun already is left alone."""

    def wake(self, campaign: str) -> None:
        """Tell one that something happened. One that has ended is left alone."""

    def overtake(self, campaign: str) -> None:
        """Tell one that what it is about was changed, so that not even a long evaluation is waited for."""


class Dispatch:
    """What follows from events, for one repository."""

    def __init__(
        self, repository: Repository, branches: Branches, trees: Trees, store: Store, notebook: Notebook, campaigns: Campaigns, bot: str
    ) -> None:
        self.repository = repository
        self.branches = branches
        self.trees = trees
        self.store = store
        self.notebook = notebook
        self.campaigns = campaigns
        self.bot = bot
        self._lock = threading.Lock()
        # Campaigns that the forge tells of and the database doesn't; None until the forge was asked.
        self._recalled: tuple[Known, ...] | None = None
        # What was told about an end already, so that the timer need not look for it again.
        self._told: set[tuple[int, str]] = set()

    def handle(self, event: Event) -> None:
        """Do what follows from an event. What the bot did itself is no news to it."""
        if event.sender == self.bot:
            return
        if isinstance(event, Pushed):
            self._pushed(event)
            return
        with self._lock:
            pull = self.repository.pull_request(event.number)
            campaign = campaign_of(pull.branch) if not pull.fork else None
            if campaign is not None:
                self.campaigns.wake(campaign)
            if pull.state == "open":
                self._person(self._default(), pull)

    def look(self) -> None:
        """Look at everything there is: what a lost delivery would have told is found here."""
        with self._lock:
            survey = self._default()
            self._recall()
            for known in self._known():
                spec = spec_named(survey, known.order.spec)
                if known.running and (spec is None or spec.spec_hash != known.order.spec_hash):
                    self.campaigns.overtake(known.order.campaign)
            for spec in survey.specs:
                if self._wanted(spec):
                    self._begin(spec, survey.commit)
                self._reverted(spec, survey.commit)
            for pull in self.repository.pull_requests(state="open"):
                self._person(survey, pull)

    def _pushed(self, event: Pushed) -> None:
        if event.branch == self.repository.default_branch().name:
            self.look()
            return
        campaign = campaign_of(event.branch)
        if campaign is not None:
            if event.after is not None:
                # Whose kernel it is, should it win: no API tells who pushed.
                self.store.put_pusher(event.after, event.sender)
            self.campaigns.wake(campaign)
        elif event.after is not None and not event.branch.startswith(PREFIX):
            with self._lock:
                self.branches.clone.fetch()
                self._checked(event.after)

    def _default(self) -> Survey:
        """The default branch as it is now, with its check."""
        self.branches.clone.fetch()
        return self._checked(self.repository.default_branch().sha)

    def _checked(self, commit: str) -> Survey:
        survey = self.trees.survey(commit)
        if survey.specs or survey.faults:
            post(self.repository, commit, f"specs/{commit}", spec_check(survey))
        return survey

    def _known(self) -> Sequence[Known]:
        return (*(self._recalled or ()), *self.campaigns.known())

    def _recall(self) -> None:
        """Once a process: take up what the forge tells of and the database doesn't know, which is nothing unless it was lost."""
        if self._recalled is not None:
            return
        known = {one.order.campaign for one in self.campaigns.known()}
        records = [record for record in recalled(self.repository) if record.order.campaign not in known]
        for record in records:
            if record.status != "ended":
                self.campaigns.begin(recovered(self.repository, self.branches, self.store, record))
        ended = (record for record in records if record.status == "ended")
        self._recalled = tuple(Known(record.order, False, record.stop, record.merged) for record in ended)

    def _wanted(self, spec: LoadedSpec) -> bool:
        """Whether a spec has no campaign yet that says something of it as it stands."""
        mine = [one for one in self._known() if one.order.spec == spec.spec.id and one.order.submission is None]
        same = [one for one in mine if one.order.spec_hash == spec.spec_hash]
        return not same or (not same[-1].running and same[-1].stop in OVERTAKEN)

    def _begin(self, spec: LoadedSpec, commit: str, submission: int | None = None) -> None:
        number = 1 + max((one.order.number for one in self._known() if one.order.spec == spec.spec.id), default=0)
        if submission is None:
            order = order_of(spec, self.store, number, commit=commit)
        else:
            budget = spec.spec.budget.model_copy(update={"rounds": 1})
            order = order_of(spec, self.store, number, commit=commit, submission=submission, agents=(), budget=budget)
        self.campaigns.begin(order)

    def _reverted(self, spec: LoadedSpec, commit: str) -> None:
        """Tell in a winner's pull request that its kernel is no longer the one on the default branch."""
        merged = [one for one in self._known() if one.order.spec == spec.spec.id and one.merged is not None]
        if not merged or merged[-1].merged is None:
            return
        order, last = merged[-1].order, merged[-1].merged
        now = self.branches.kernel_tree(commit, order.spec)
        if now not in (None, last.kernel_tree):
            self._tell(last.number, notices.reverted(order, now == order.champion))

    def _tell(self, number: int, text: str) -> None:
        if (number, text) not in self._told:
            self.repository.kept_comment(number, comments.STATE, text)
            self._told.add((number, text))

    def _person(self, survey: Survey, pull: PullRequest) -> None:
        """Have a person's kernel judged: by the campaign that runs on its spec, or by one of its own. Each kernel once."""
        campaign = campaign_of(pull.branch) if not pull.fork else None
        if campaign is not None and any(one.order.campaign == campaign and not one.running for one in self._known()):
            self._tell(pull.number, notices.reopened(campaign))
        if pull.author == self.bot or campaign is not None:
            return

        def policy_of(identifier: str) -> Policy:
            found = spec_named(survey, identifier)
            return found.spec.policy if found is not None else Policy()

        try:
            kernel = kernel_of(self.branches.clone, survey.commit, pull, policy_of)
        except FaultsError as error:
            post(self.repository, pull.head, f"specs/{pull.head}", spec_check(Survey(pull.head, (), error.faults)))
            return
        if kernel is None:
            self._checked(pull.head)
            return
        spec = spec_named(survey, kernel.spec)
        if spec is None or self._judged(spec, pull, kernel.candidate.tree):
            return
        running = [one for one in self._known() if one.running and one.order.spec == kernel.spec]
        fitting = [one for one in running if one.order.spec_hash == spec.spec_hash and one.order.submission in (None, pull.number)]
        for one in fitting:
            self.campaigns.wake(one.order.campaign)
        if not fitting:
            self._begin(spec, survey.commit, submission=pull.number)

    def _judged(self, spec: LoadedSpec, pull: PullRequest, tree: str) -> bool:
        """Whether a person's kernel was judged by this spec, as the notebook says or, where it was lost, the forge."""
        agent, experiments = entered_by(pull.number), self.notebook.experiments(spec.spec.id)
        if any(one.agent == agent and one.kernel_tree == tree and one.spec_hash == spec.spec_hash for one in experiments):
            return True
        lost = [one.order.campaign for one in self._recalled or () if one.order.spec_hash == spec.spec_hash]
        return bool(lost) and judged(self.repository, pull.head, tree, lost)
