"""From an event to what follows from it: checks on pushed specs, campaigns begun or woken, people's pull requests looked at.

An event only says where to look: what is done follows from what the forge holds now. So the same function serves a delivery, a
delivery that came twice or too late, and the timer that finds what was never delivered.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from bot import comments, notices
from bot.campaign.branches import PREFIX, Branches, campaign_of
from bot.campaign.lineages import post
from bot.campaign.orders import hosted_order
from bot.campaign.people import entered_by, kernel_of
from bot.campaign.recall import judged, recalled, recovered
from bot.campaign.state import Merged, Order, StopReason
from bot.campaign.store import Store
from bot.checks import spec_check, unjudged_check
from bot.events import Event, Pushed
from bot.evidence.notebook import Notebook
from bot.hosting import Missing, PullRequest, Repository, TryLater
from bot.specs import Survey, Trees, spec_named
from runner.errors import FactoryError, FaultsError
from runner.spec.load import LoadedSpec
from runner.spec.models import Policy

LOG = logging.getLogger("kernel-factory")
# So ended, a campaign says nothing of what stands there now: another one begins.
OVERTAKEN = (StopReason.KERNEL_CHANGED, StopReason.JUDGE_CHANGED, StopReason.SPEC_CHANGED)
# So many campaigns begin because of one pull request, each on another kernel of it; and so many at once because of any.
MAX_SUBMISSIONS, MAX_SUBMITTED = 5, 4
# So many campaigns in so long that found another machine, or another judge, and no more: the labels may name machines that take turns.
MAX_TURNS, TURNS_WITHIN = 3, timedelta(days=1)


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
        # The commits that were checked against a default branch already, in a pull request or not.
        self._seen: set[tuple[str, str, bool]] = set()

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
            self._recall(survey.commit)
            for known in self._known():
                spec = spec_named(survey, known.order.spec)
                if known.running and (spec is None or spec.spec_hash != known.order.spec_hash):
                    self.campaigns.overtake(known.order.campaign)
            for spec in survey.specs:
                if self._wanted(spec):
                    self._begin(spec, survey.commit)
                self._reverted(spec, survey.commit)
            for pull in self.repository.pull_requests(state="open"):
                try:
                    self._person(survey, pull)
                except TryLater:
                    raise
                except Exception as error:
                    # Whatever one brings, the others are looked at.
                    expected = isinstance(error, FactoryError)
                    LOG.warning("pull request %s can't be looked at: %s", pull.number, error, exc_info=None if expected else error)

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
                self._looked(self._default().commit, event.after, asked=False)

    def _default(self) -> Survey:
        """The default branch as it is now, with its check."""
        self.branches.clone.fetch()
        return self._checked(self.repository.default_branch().sha)

    def _checked(self, commit: str) -> Survey:
        survey = self.trees.survey(commit)
        if survey.specs or survey.faults:
            post(self.repository, commit, f"specs/{commit}", spec_check(survey))
        return survey

    def _looked(self, base: str, commit: str, *, asked: bool) -> None:
        """The check on a commit that is not the default branch's, `base`. Where it brings a kernel that is not judged there is no success;
        a pull request that asks for its merge is told so."""
        if (base, commit, asked) in self._seen:
            return
        survey = self.trees.survey(commit)
        kernels = self._brought(base, survey) if not survey.faults else ()
        if kernels and asked:
            post(self.repository, commit, f"specs/{commit}", unjudged_check(kernels))
        elif not kernels and (survey.specs or survey.faults):
            post(self.repository, commit, f"specs/{commit}", spec_check(survey))
        self._seen.add((base, commit, asked))
        # Anybody may push as many as they like, each with much in it.
        if commit != base and all(one.order.commit != commit for one in self._known()):
            self.trees.forget(commit)

    def _brought(self, base: str, survey: Survey) -> Sequence[str]:
        """The specs whose kernel, and nothing else of them, a commit would change. Who changes a spec has its kernel judged anew."""
        try:
            common = self.branches.clone.merge_base(base, survey.commit)
        except Missing:
            common = base  # no common history: all of it would be new
        found = []
        for name, spec_hash in ((one.spec.id, one.spec_hash) for one in survey.specs):
            changed = self.branches.kernel_tree(survey.commit, name) != self.branches.kernel_tree(common, name)
            if changed and self.branches.spec_hash(common, name) == spec_hash:
                found.append(name)
        return found

    def _known(self) -> Sequence[Known]:
        return (*(self._recalled or ()), *self.campaigns.known())

    def _recall(self, base: str) -> None:
        """Once a process: take up what the forge tells of and the database doesn't know, which is nothing unless it was lost.

        `base` is the default branch's commit.
        """
        if self._recalled is not None:
            return
        known = {one.order.campaign for one in self.campaigns.known()}
        records = [record for record in recalled(self.repository) if record.order.campaign not in known]
        for record in records:
            if record.status == "ended":
                continue
            order = recovered(self.repository, self.branches, self.trees, self.store, record, base, self.bot)
            if order is not None:
                self.campaigns.begin(order)
        ended = (record for record in records if record.status == "ended")
        self._recalled = tuple(Known(record.order, False, record.stop, record.merged) for record in ended)

    def _wanted(self, spec: LoadedSpec) -> bool:
        """Whether a spec has no campaign yet that says something of it as it stands."""
        mine = [one for one in self._known() if one.order.spec == spec.spec.id and one.order.submission is None]
        same = [one for one in mine if one.order.spec_hash == spec.spec_hash]
        return not same or (not same[-1].running and same[-1].stop in OVERTAKEN and not _taking_turns(same))

    def _begin(self, spec: LoadedSpec, commit: str, submission: int | None = None) -> None:
        number = 1 + max((one.order.number for one in self._known() if one.order.spec == spec.spec.id), default=0)
        self.campaigns.begin(hosted_order(spec, self.store, number, commit, submission))

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
        if pull.aside:
            self._looked(survey.commit, pull.head, asked=False)
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
            self._looked(survey.commit, pull.head, asked=True)
            return
        spec = spec_named(survey, kernel.spec)
        if spec is None or self._judged(spec, pull, kernel.candidate.tree):
            return
        running = [one for one in self._known() if one.running and one.order.spec == kernel.spec]
        fitting = [one for one in running if one.order.spec_hash == spec.spec_hash and one.order.submission in (None, pull.number)]
        for one in fitting:
            self.campaigns.wake(one.order.campaign)
        if not fitting:
            self._submitted(spec, survey.commit, pull.number)

    def _submitted(self, spec: LoadedSpec, commit: str, number: int) -> None:
        """Begin a campaign on a person's kernel, as far as one pull request, and all together, may have the machines."""
        submitted = [one for one in self._known() if one.order.submission is not None]
        mine = [one for one in submitted if (one.order.submission, one.order.spec_hash) == (number, spec.spec_hash)]
        if len(mine) >= MAX_SUBMISSIONS:
            self._tell(number, notices.enough(len(mine)))
        elif sum(one.running for one in submitted) < MAX_SUBMITTED:
            self._begin(spec, commit, submission=number)

    def _judged(self, spec: LoadedSpec, pull: PullRequest, tree: str) -> bool:
        """Whether a person's kernel was judged by this spec, as the notebook says or, where it was lost, the forge."""
        agent, experiments = entered_by(pull.number), self.notebook.experiments(spec.spec.id)
        if any(one.agent == agent and one.kernel_tree == tree and one.spec_hash == spec.spec_hash for one in experiments):
            return True
        lost = [one.order.campaign for one in self._recalled or () if one.order.spec_hash == spec.spec_hash]
        return bool(lost) and judged(self.repository, pull.head, tree, lost)


def _taking_turns(campaigns: Sequence[Known]) -> bool:
    """Whether the last campaigns on a spec all ended, and not long ago, since the device or the judge had changed."""
    last = campaigns[-MAX_TURNS:]
    since = datetime.now(UTC) - datetime.fromisoformat(last[0].order.started)
    return len(last) == MAX_TURNS and all(one.stop is StopReason.JUDGE_CHANGED for one in last) and since < TURNS_WITHIN
