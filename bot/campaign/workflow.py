"""The campaign as a durable workflow: plan, rounds of propose → gate → evaluate → decide, confirmation, publication, end.

Everything that reads the world is a step, whose output the engine keeps; what stands between the steps is a pure function of those
outputs. So the workflow, run again after a crash, comes to the same place. Change it only so that what was recorded before is read as it
was: where an output says what no earlier one could say, or behind `DBOS.patch`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dbos import DBOS, DBOSConfiguredInstance

from bot.campaign.hosted import HostedSteps
from bot.campaign.people import entered_by
from bot.campaign.ports import Changed, Suspended
from bot.campaign.state import (
    Count,
    Course,
    Ending,
    Entries,
    Entry,
    Gated,
    LeftOut,
    Lineage,
    Merged,
    Objection,
    Order,
    Outcome,
    Outcomes,
    Plan,
    Publication,
    Pull,
    Replacement,
    Review,
    State,
    StopReason,
    Turn,
    Waiting,
    Winner,
)
from bot.campaign.steps import Steps, confirmation_entries, ending, full_entry
from bot.decision import Decision, Move, active, confirmation_reserve, decide, must_beat_champion, to_judge, winner
from runner.verdict import Verdict

StateT = TypeVar("StateT", bound=State)
GuardedT = TypeVar("GuardedT")
# A campaign may be killed and continued as often as it takes.
RECOVERY_ATTEMPTS = 1_000_000
INSTANCE = "campaigns"
# What a waiting campaign is woken by: a message says that something happened, never what. Without one it looks by itself, ever
# more seldom.
MAILBOX = "mailbox"
LOOK_SECONDS, LOOK_SECONDS_MAX = 20.0, 600.0


class Stopped(Exception):
    """A step found that the campaign can't go on, since what it began with was changed."""

    def __init__(self, stop: StopReason, reason: str) -> None:
        self.stop = stop
        super().__init__(reason)


@DBOS.dbos_class()
class CampaignWorkflow(DBOSConfiguredInstance):
    """The workflow over the steps of each campaign. The one instance must exist before DBOS is launched, since recovery looks for it."""

    def __init__(self, steps_of: Callable[[Order], Steps]) -> None:
        self.steps_of = steps_of
        self.plans: dict[str, Plan] = {}
        self.suspended: Callable[[str, Suspended], None] = lambda *_: None
        super().__init__(INSTANCE)

    @DBOS.workflow(name="campaign", max_recovery_attempts=RECOVERY_ATTEMPTS)
    def run(self, order_json: dict[str, Any]) -> dict[str, Any]:
        """Run a campaign to its end; returns the `Ending`. `order_json` is an `Order`."""
        order = Order.model_validate(order_json)
        steps = self._guard(order, lambda: self.steps_of(order))
        try:
            return _Run(self, order, steps).run().model_dump(mode="json")
        except Suspended:
            raise  # told where it was raised
        except Exception as error:
            # Between two steps, or in the engine's own writing: left alone it would end the campaign for good, and nobody would be told.
            failed = Suspended(error)
            self.suspended(order.campaign, failed)
            raise failed from error

    def _guarded(self, order: Order, steps: Steps, function: Callable[[], State]) -> dict[str, Any]:
        """A step's body: what went wrong is not its outcome, so that the campaign goes on where it was once that is mended."""

        def body() -> dict[str, Any]:
            steps.watch.interrupted()
            try:
                return function().model_dump(mode="json")
            except Changed as changed:
                return {"stopped": str(changed), "stop": str(changed.stop)}

        return self._guard(order, body)

    def _guard(self, order: Order, function: Callable[[], GuardedT]) -> GuardedT:
        try:
            return function()
        except Suspended as asked:
            self.suspended(order.campaign, asked)
            raise
        except Exception as error:
            # An expected failure or a defect: told at the top, and never kept as the step's outcome.
            failed = Suspended(error)
            self.suspended(order.campaign, failed)
            raise failed from error


class _Run:
    """One campaign on its way through the workflow."""

    def __init__(self, workflow: CampaignWorkflow, order: Order, steps: Steps) -> None:
        self.workflow = workflow
        self.order = order
        self.steps = steps
        self.course: Course | None = None

    def run(self) -> Ending:
        """From the plan to the end."""
        order, steps = self.order, self.steps
        try:
            plan = self._step("plan", Plan, lambda: steps.plan(order))
            self.workflow.plans[order.campaign] = plan
            steps.watch.opened(order, plan, steps.notebook.experiments(order.spec, campaign=order.campaign))
            self._step("start", Count, lambda: steps.start(order, plan))
            end = self._recovered(plan, order.waiting) if order.waiting is not None else self._played(plan)
        except Stopped as stopped:
            end = ending(order, self.course, stopped.stop, str(stopped))
        return self._step("end", Ending, lambda: steps.end(order, end))

    def _recovered(self, plan: Plan, waiting: Waiting) -> Ending:
        """A database was lost, and the forge still held the winner: people decide on it before anything is judged again."""
        came = self._approval(plan, None, waiting.pull)
        if isinstance(came, Objection):
            return self._played(plan, came)
        assert isinstance(came, Merged), "without a course nothing is entered"
        publication = Publication(published=True, message=f"pull request {waiting.pull.number}", pull=waiting.pull)
        reason = "the winner was confirmed in fresh processes, before the bot's records were lost"
        return ending(self.order, None, StopReason.CONFIRMED, reason, waiting.winner, publication, came)

    def _played(self, plan: Plan, *objections: Objection) -> Ending:
        """From the champion's judgement to the end."""
        order, steps = self.order, self.steps
        champion = self._step("champion", Outcome, lambda: steps.champion(order, plan))
        self.course = course = Course(champion=champion, objections=objections)
        spent = self._step("count", Count, lambda: steps.count(order, 0))
        while True:
            course, spent = self._entered(plan, course, spent)
            decision = decide(order, plan, course, spent)
            if decision.move is Move.PLAY:
                course = self._round(plan, course, decision)
            elif decision.move is Move.CONFIRM:
                course = self._confirmation(plan, course, decision)
            else:
                came = self._publication(plan, course, decision)
                if isinstance(came, Ending):
                    return came
                course = came
            self.course = course
            spent = self._report(course)

    def _round(self, plan: Plan, course: Course, decision: Decision) -> Course:
        share = decision.share
        assert share is not None
        entries: list[Entry] = []
        idle: list[LeftOut] = []
        for lineage in plan.lineages:
            name = lineage.agent.name
            if name not in active(plan, course):
                continue
            trials = share.trials.get(name, 0)
            proposed, gated = self._proposals(plan, course, lineage, trials)
            entries += gated.passed
            if trials > 0 and not proposed.entries:
                idle.append(LeftOut(agent=name, why=proposed.note))
        screened = self._evaluated("screen", plan, tuple(entries), share.device_seconds)
        best = to_judge(course, screened)
        judged = None
        if best is not None:
            first = share.trials[best.entry.agent]
            kept = confirmation_reserve(course)
            entry = full_entry(self.order, best, first)
            judged = self._evaluated("judge", plan, (entry,), share.device_seconds + kept.device_seconds)[0]
        return course.model_copy(
            update={"turns": (*course.turns, Turn(round=len(course.turns) + 1, screened=screened, idle=tuple(idle), judged=judged))}
        )

    def _proposals(self, plan: Plan, course: Course, lineage: Lineage, trials: int) -> tuple[Entries, Gated]:
        if trials < 1:
            return Entries(), Gated()
        order, steps, agent = self.order, self.steps, lineage.agent.name
        proposed = self._step(f"propose {agent}", Entries, lambda: steps.propose(order, plan, course, lineage, trials))
        if not proposed.entries:
            return proposed, Gated()
        return proposed, self._step(f"gate {agent}", Gated, lambda: steps.gate(order, plan, proposed.entries))

    def _evaluated(self, name: str, plan: Plan, entries: tuple[Entry, ...], seconds: float) -> tuple[Outcome, ...]:
        if not entries:
            return ()
        return self._step(name, Outcomes, lambda: self.steps.evaluate(self.order, plan, entries, seconds)).outcomes

    def _confirmation(self, plan: Plan, course: Course, decision: Decision) -> Course:
        assert decision.candidate is not None
        outcomes: tuple[Outcome, ...] = ()
        for entry in confirmation_entries(decision.candidate, must_beat_champion(course)):
            # The comparison with the champion is spared where the baseline was not beaten again.
            if outcomes and outcomes[-1].verdict != "accepted":
                break
            outcomes += self._evaluated("confirm", plan, (entry,), self.order.budget.device_minutes * 60)
        return course.model_copy(update={"confirmations": (*course.confirmations, *outcomes)})

    def _report(self, course: Course) -> Count:
        return self._step("report", Count, lambda: self.steps.report(self.order, course))

    def _entered(self, plan: Plan, course: Course, spent: Count, waiting: Pull | None = None) -> tuple[Course, Count]:
        """Judge what people entered since it was last looked. A working tree has no such place."""
        order = self.order
        if not order.hosted:
            return course, spent
        steps = self._hosted()
        arrived = self._step("arrivals", Entries, lambda: steps.arrivals(order, course, spent, waiting))
        if not arrived.entries:
            return course, spent
        outcomes = self._step("enter", Outcomes, lambda: steps.enter(order, plan, arrived.entries, waiting)).outcomes
        entered = course.model_copy(update={"entered": (*course.entered, *outcomes)})
        return entered, self._step("count", Count, lambda: steps.count(order, len(course.turns)))

    def _publication(self, plan: Plan, course: Course, decision: Decision) -> Ending | Course:
        """The end; or the course after what a person did to the winner, which goes on."""
        assert decision.stop is not None
        best, order = winner(course), self.order
        if best is None:
            return ending(order, course, decision.stop, decision.reason)
        publication = self._publish(best)
        if publication.withdrawn:
            return course.model_copy(update={"withdrawn": (*course.withdrawn, best.kernel_tree)})
        merged: Merged | None = None
        if publication.pull is not None:
            came = self._approval(plan, course, publication.pull)
            if isinstance(came, Course):
                return came
            assert isinstance(came, Merged), "an objection to a course is in the course"
            merged = came
        stop = decision.stop if publication.published or not order.publish else StopReason.KERNEL_CHANGED
        return ending(order, course, stop, decision.reason, best, publication, merged)

    def _publish(self, best: Winner) -> Publication:
        return self._step("publish", Publication, lambda: self.steps.publish(self.order, best))

    def _approval(self, plan: Plan, course: Course | None, pull: Pull) -> Merged | Course | Objection:
        """Wait until people approve exactly this head, and merge it; or until they want something else, and go on from there.

        Without a course (its database was lost) an objection is given back by itself. What happens meanwhile is heard at the mailbox,
        and looked for by itself where nothing was heard.
        """
        order, steps = self.order, self._hosted()
        wait = LOOK_SECONDS
        while True:
            review = self._step("review", Review, lambda: steps.review(order, pull))
            if review.status == "closed":
                raise Stopped(
                    StopReason.CLOSED, f"the pull request of the winner was closed by {review.by or 'somebody'} before it was merged"
                )
            if review.status == "changes":
                objection = _objection(course, pull, review)
                return objection if course is None else course.model_copy(update={"objections": (*course.objections, objection)})
            if review.status == "moved" and course is not None:
                return course  # the same kernel under another head: it is published again
            if review.status == "approved" or (order.accept.approval == "none" and review.status == "waiting"):
                merged = self._merge(pull, review.by)
                if merged.merged:
                    return merged
            if course is not None:
                before = len(course.entered)
                course, _ = self._entered(plan, course, Count(candidates=0, device_seconds=0.0), pull)
                replacement = _replacement(course.entered[before:], pull)
                if replacement is not None and DBOS.patch("a kernel that is pushed over a winner takes its place"):
                    return course.model_copy(update={"replacements": (*course.replacements, replacement)})
            heard = DBOS.recv(MAILBOX, timeout_seconds=wait)
            wait = LOOK_SECONDS if heard is not None else min(wait * 2, LOOK_SECONDS_MAX)

    def _merge(self, pull: Pull, approved_by: str) -> Merged:
        return self._step("merge", Merged, lambda: self._hosted().merge(self.order, pull, approved_by))

    def _hosted(self) -> HostedSteps:
        assert isinstance(self.steps, HostedSteps), "a campaign on a forge has the steps for it"
        return self.steps

    def _step(self, name: str, model: type[StateT], function: Callable[[], StateT]) -> StateT:
        """Run a step once for good, or take what it gave when it was run before."""
        output: dict[str, Any] = DBOS.run_step({"name": name}, self.workflow._guarded, self.order, self.steps, function)
        if "stopped" in output:
            raise Stopped(StopReason(output["stop"]), output["stopped"])
        return model.model_validate(output)


def _objection(course: Course | None, pull: Pull, review: Review) -> Objection:
    """A person's request for changes: this kernel is no candidate any more."""
    return Objection(
        review=review.review,
        by=review.by,
        text=review.text,
        tree=pull.kernel_tree,
        turns=len(course.turns) if course is not None else 0,
        confirmations=len(course.confirmations) if course is not None else 0,
    )


def _replacement(entered: Sequence[Outcome], pull: Pull) -> Replacement | None:
    """The accepted kernel that was pushed over a winner's, the last one."""
    mine = [one for one in entered if one.entry.agent == entered_by(pull.number) and one.tree != pull.kernel_tree]
    good = [one for one in mine if one.verdict is Verdict.ACCEPTED]
    return Replacement(number=pull.number, tree=pull.kernel_tree, by=good[-1].tree) if good else None
