"""The steps that only a campaign on a forge has: people enter kernels, review the winner, and it is merged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bot.campaign.people import entered_by
from bot.campaign.ports import EvaluatePort, Place, ReviewPort, Watch
from bot.campaign.state import Count, Course, Entries, Entry, Merged, Order, Outcome, Outcomes, Plan, Pull, Review
from bot.campaign.steps import AgentFactory, Steps, kind
from bot.campaign.store import Store
from bot.decision import confirmation_reserve
from bot.evidence.notebook import Notebook
from bot.evidence.remark import Remark

# How far apart the experiments of one pull request's heads are numbered.
ENTERED_STRIDE = 10
# So many kernels of one pull request are judged in a campaign.
MAX_ENTERED = 8


class HostedSteps(Steps):
    """The steps of a campaign that is published as pull requests."""

    def __init__(
        self,
        folder: Path,
        store: Store,
        notebook: Notebook,
        evaluation: EvaluatePort,
        publisher: ReviewPort,
        watch: Watch,
        make_agent: AgentFactory,
    ) -> None:
        super().__init__(folder, store, notebook, evaluation, publisher, watch, make_agent)
        self.port = publisher

    def evaluate(self, order: Order, plan: Plan, entries: Sequence[Entry], seconds: float) -> Outcomes:
        """Tell people what is evaluated, and do it: a batch may take long."""
        self.port.proceeding(order, f"round {entries[0].round}: {kind(entries[0])}")
        return super().evaluate(order, plan, entries, seconds)

    def arrivals(self, order: Order, course: Course, spent: Count, waiting: Pull | None) -> Entries:
        """What people entered and nobody judged yet, kept in the store; each takes a candidate of the budget, while there is one.

        While a winner is `waiting` for people, what they push over it is entered too.
        """
        known = {(outcome.entry.agent, outcome.entry.tree) for outcome in course.entered}
        left = order.budget.candidates - spent.candidates - confirmation_reserve(course).candidates
        # While a winner waits nothing else is counted, and kernels may be pushed without end.
        left = min(left, order.budget.candidates - len(course.entered))
        entries: list[Entry] = []
        for arrival in self.port.arrivals(order, self._spec(order).spec.policy, waiting):
            agent = entered_by(arrival.number)
            if (agent, arrival.candidate.tree) in known:
                continue
            earlier = sum(outcome.entry.agent == agent for outcome in course.entered)
            spent_now = len(entries) >= left and arrival.number != order.submission
            if earlier >= MAX_ENTERED or (spent_now and waiting is not None):
                self.port.enough(arrival.number, earlier)
            if earlier >= MAX_ENTERED or spent_now:
                continue
            entries.append(
                Entry(
                    campaign=order.campaign,
                    round=len(course.turns),
                    agent=agent,
                    # Its confirmations are numbered behind it, so a later head of the same pull request keeps a distance.
                    first=earlier * ENTERED_STRIDE,
                    tree=self.store.put_candidate(arrival.candidate),
                    kind="person",
                    parent=None,
                    hypothesis=f"pull request {arrival.number} by {arrival.author}",
                    tier="full",
                )
            )
        return Entries(entries=tuple(entries))

    def enter(self, order: Order, plan: Plan, entries: Sequence[Entry], waiting: Pull | None) -> Outcomes:
        """Judge in full what people entered, and tell them. What the gate refuses is an experiment too."""
        spec = self._judged(order, plan)
        place = Place(plan.device, plan.harness)
        outcomes: list[Outcome] = []
        for entry in entries:
            self.watch.doing(entry.round, f"judging {entry.hypothesis}")
            candidate = self.store.candidate(entry.tree, spec.spec.policy)
            refusal = self.evaluation.gate(spec, candidate)
            if refusal is None:
                outcomes += self.evaluation.evaluate(spec, [entry], order.budget.device_minutes * 60)
                continue
            kept = self._journal.refusal(spec, place, entry, candidate, refusal)
            outcomes.append(Outcome(entry=entry, experiments=1, tree=entry.tree, verdict=kept.verdict, message=kept.message[:500]))
        self.port.answered(order, outcomes, waiting)
        return Outcomes(outcomes=tuple(outcomes))

    def review(self, order: Order, pull: Pull) -> Review:
        """What people say of the winner's pull request now. What they want changed is evidence, for later campaigns too."""
        self._spec(order)
        said = self.port.reviewed(order, pull)
        if said.status == "changes":
            remark = Remark(
                campaign=order.campaign, spec=order.spec, review=said.review, by=said.by, text=said.text, kernel_tree=pull.kernel_tree
            )
            self.notebook.remark(remark)
        return said

    def merge(self, order: Order, pull: Pull, approved_by: str) -> Merged:
        """Merge exactly the judged head, or nothing."""
        self._spec(order)
        return self.port.merged(order, pull, approved_by)
