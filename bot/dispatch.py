"""From an event to what follows from it: checks on pushed specs, campaigns begun or woken, people's pull requests looked at.

An event only says where to look: what is done follows from what the forge holds now. So the same function serves a delivery, a
delivery that came twice or too late, and the timer that finds what was never delivered.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from bot.campaign.branches import PREFIX, Branches, campaign_of
from bot.campaign.hosted import entered_by
from bot.campaign.orders import order_of
from bot.campaign.people import kernel_of
from bot.campaign.state import Order, StopReason
from bot.campaign.store import Store
from bot.events import Event, Pushed
from bot.evidence.notebook import Notebook
from bot.hosting import PullRequest, Repository
from bot.specs import Survey, Trees, spec_named
from bot.verdicts import spec_check
from runner.errors import FaultsError
from runner.spec.load import LoadedSpec

# So ended, a campaign says nothing of what stands there now: another one begins.
OVERTAKEN = (StopReason.KERNEL_CHANGED, StopReason.JUDGE_CHANGED)


@dataclass(frozen=True)
class Known:
    """A campaign that was begun: whether it runs, and how it stopped where it has ended."""

    order: Order
    running: bool
    stop: StopReason | None = None


class Campaigns(Protocol):
    """The campaigns of this bot."""

    def known(self) -> Sequence[Known]:
        """All that were begun, oldest first."""

    def begin(self, order: Order) -> None:
        """Begin one; one of that name that was begun already is left alone."""

    def wake(self, campaign: str) -> None:
        """Tell one that something happened. One that has ended is left alone."""


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

    def handle(self, event: Event) -> None:
        """Do what follows from an event. What the bot did itself is no news to it."""
        if event.sender == self.bot:
            return
        if isinstance(event, Pushed):
            self._pushed(event)
            return
        campaign = campaign_of(event.branch)
        if campaign is not None:
            self.campaigns.wake(campaign)
        else:
            self.person(event.number)

    def look(self) -> None:
        """Look at everything there is: what a lost delivery would have told is found here."""
        with self._lock:
            survey = self._default()
            for known in self.campaigns.known():
                spec = spec_named(survey, known.order.spec)
                if known.running and (spec is None or spec.spec_hash != known.order.spec_hash):
                    self.campaigns.wake(known.order.campaign)
            for spec in survey.specs:
                if self._wanted(spec):
                    self._begin(spec, survey.commit)
            for pull in self.repository.pull_requests(state="open"):
                self._person(survey, pull)

    def person(self, number: int) -> None:
        """Look at one person's pull request."""
        with self._lock:
            pull = self.repository.pull_request(number)
            if pull.state == "open":
                self._person(self._default(), pull)

    def _pushed(self, event: Pushed) -> None:
        if event.branch == self.repository.default_branch().name:
            self.look()
            return
        campaign = campaign_of(event.branch)
        if campaign is not None:
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
            spec_check(self.repository, survey)
        return survey

    def _wanted(self, spec: LoadedSpec) -> bool:
        """Whether a spec has no campaign yet that says something of it as it stands."""
        mine = [one for one in self.campaigns.known() if one.order.spec == spec.spec.id and one.order.submission is None]
        same = [one for one in mine if one.order.spec_hash == spec.spec_hash]
        return not same or (not same[-1].running and same[-1].stop in OVERTAKEN)

    def _begin(self, spec: LoadedSpec, commit: str, submission: int | None = None) -> None:
        number = 1 + sum(one.order.spec == spec.spec.id for one in self.campaigns.known())
        if submission is None:
            order = order_of(spec, self.store, number, commit=commit)
        else:
            budget = spec.spec.budget.model_copy(update={"rounds": 1})
            order = order_of(spec, self.store, number, commit=commit, submission=submission, agents=(), budget=budget)
        self.campaigns.begin(order)

    def _person(self, survey: Survey, pull: PullRequest) -> None:
        """Have a person's kernel judged: by the campaign that runs on its spec, or by one of its own. Each kernel once."""
        if pull.author == self.bot or campaign_of(pull.branch) is not None:
            return
        try:
            kernel = kernel_of(self.branches.clone, survey.commit, pull)
        except FaultsError as error:
            spec_check(self.repository, Survey(pull.head, (), error.faults))
            return
        if kernel is None:
            self._checked(pull.head)
            return
        spec = spec_named(survey, kernel.spec)
        if spec is None:
            return
        agent, tree = entered_by(pull.number), kernel.candidate.tree
        experiments = self.notebook.experiments(kernel.spec)
        if any(one.agent == agent and one.kernel_tree == tree and one.spec_hash == spec.spec_hash for one in experiments):
            return
        running = [one for one in self.campaigns.known() if one.running and one.order.spec == kernel.spec]
        fitting = [one for one in running if one.order.spec_hash == spec.spec_hash and one.order.submission in (None, pull.number)]
        for one in fitting:
            self.campaigns.wake(one.order.campaign)
        if not fitting:
            self._begin(spec, survey.commit, submission=pull.number)
