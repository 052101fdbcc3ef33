"""The campaign as a durable workflow: plan, rounds of propose → gate → evaluate → decide, confirmation, publication, end.

Everything that reads the world is a step, whose output the engine keeps; what stands between the steps is a pure function of those
outputs. So the workflow, run again after a crash, comes to the same place. Change it only through `DBOS.patch`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from dbos import DBOS, DBOSConfiguredInstance

from bot.campaign.ports import Suspended
from bot.campaign.state import (
    Count,
    Course,
    Ending,
    Entries,
    Entry,
    Gated,
    LeftOut,
    Lineage,
    Order,
    Outcome,
    Outcomes,
    Plan,
    Publication,
    State,
    StopReason,
    Turn,
)
from bot.campaign.steps import Changed, Steps, confirmation_entries, ending, full_entry
from bot.decision import Decision, Move, active, confirmation_reserve, decide, must_beat_champion, to_judge, winner

StateT = TypeVar("StateT", bound=State)
# A campaign may be killed and continued as often as it takes.
RECOVERY_ATTEMPTS = 1_000_000
INSTANCE = "campaigns"


class Stopped(Exception):
    """A step found that the campaign can't go on, since what it began with was changed."""

    def __init__(self, stop: StopReason, reason: str) -> None:
        self.stop = stop
        super().__init__(reason)


@DBOS.dbos_class()
class CampaignWorkflow(DBOSConfiguredInstance):
    """The workflow over one process's steps. The one instance must exist before DBOS is launched, since recovery looks for it."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.plan: Plan | None = None
        self.suspended: Callable[[Suspended], None] = lambda _: None
        super().__init__(INSTANCE)

    @DBOS.workflow(name="campaign", max_recovery_attempts=RECOVERY_ATTEMPTS)
    def run(self, order_json: dict[str, Any]) -> dict[str, Any]:
        """Run a campaign to its end; returns the `Ending`. `order_json` is an `Order`."""
        order = Order.model_validate(order_json)
        course: Course | None = None
        try:
            plan = self._step("plan", Plan, lambda: self.steps.plan(order))
            self.plan = plan
            self.steps.watch.opened(order, plan, self.steps.notebook.experiments(order.spec, campaign=order.campaign))
            self._step("start", Count, lambda: self.steps.start(order, plan))
            course = Course(champion=self._step("champion", Outcome, lambda: self.steps.champion(order, plan)))
            spent = self._step("count", Count, lambda: self.steps.count(order, 0))
            decision = decide(order, plan, course, spent)
            while decision.move is not Move.STOP:
                if decision.move is Move.PLAY:
                    course = self._round(order, plan, course, decision)
                else:
                    course = self._confirmation(order, plan, course, decision)
                spent = self._report(order, course)
                decision = decide(order, plan, course, spent)
            end = self._publication(order, course, decision)
        except Stopped as stopped:
            end = ending(order, course, stopped.stop, str(stopped))
        return self._step("end", Ending, lambda: self.steps.end(order, end)).model_dump(mode="json")

    def _round(self, order: Order, plan: Plan, course: Course, decision: Decision) -> Course:
        share = decision.share
        assert share is not None
        entries: list[Entry] = []
        idle: list[LeftOut] = []
        for lineage in plan.lineages:
            name = lineage.agent.name
            if name not in active(plan, course):
                continue
            trials = share.trials.get(name, 0)
            proposed, gated = self._proposals(order, plan, course, lineage, trials)
            entries += gated.passed
            if trials > 0 and not proposed.entries:
                idle.append(LeftOut(agent=name, why=proposed.note))
        screened = self._evaluated("screen", order, plan, tuple(entries), share.device_seconds)
        best = to_judge(course, screened)
        judged = None
        if best is not None:
            first = share.trials[best.entry.agent]
            kept = confirmation_reserve(course)
            judged = self._evaluated("judge", order, plan, (full_entry(order, best, first),), share.device_seconds + kept.device_seconds)[0]
        return course.model_copy(
            update={"turns": (*course.turns, Turn(round=len(course.turns) + 1, screened=screened, idle=tuple(idle), judged=judged))}
        )

    def _proposals(self, order: Order, plan: Plan, course: Course, lineage: Lineage, trials: int) -> tuple[Entries, Gated]:
        if trials < 1:
            return Entries(), Gated()
        agent = lineage.agent.name
        proposed = self._step(f"propose {agent}", Entries, lambda: self.steps.propose(order, plan, course, lineage, trials))
        if not proposed.entries:
            return proposed, Gated()
        return proposed, self._step(f"gate {agent}", Gated, lambda: self.steps.gate(order, plan, proposed.entries))

    def _evaluated(self, name: str, order: Order, plan: Plan, entries: tuple[Entry, ...], seconds: float) -> tuple[Outcome, ...]:
        if not entries:
            return ()
        return self._step(name, Outcomes, lambda: self.steps.evaluate(order, plan, entries, seconds)).outcomes

    def _confirmation(self, order: Order, plan: Plan, course: Course, decision: Decision) -> Course:
        assert decision.candidate is not None
        outcomes: tuple[Outcome, ...] = ()
        for entry in confirmation_entries(decision.candidate, must_beat_champion(course)):
            # The comparison with the champion is spared where the baseline was not beaten again.
            if outcomes and outcomes[-1].verdict != "accepted":
                break
            outcomes += self._evaluated("confirm", order, plan, (entry,), order.budget.device_minutes * 60)
        return course.model_copy(update={"confirmations": (*course.confirmations, *outcomes)})

    def _report(self, order: Order, course: Course) -> Count:
        return self._step("report", Count, lambda: self.steps.report(order, course))

    def _publication(self, order: Order, course: Course, decision: Decision) -> Ending:
        assert decision.stop is not None
        best = winner(course)
        if best is None:
            return ending(order, course, decision.stop, decision.reason)
        publication = self._step("publish", Publication, lambda: self.steps.publish(order, best))
        stop = decision.stop if publication.published or not order.publish else StopReason.KERNEL_CHANGED
        return ending(order, course, stop, decision.reason, best, publication)

    def _step(self, name: str, model: type[StateT], function: Callable[[], StateT]) -> StateT:
        """Run a step once for good, or take what it gave when it was run before."""
        output: dict[str, Any] = DBOS.run_step({"name": name}, self._guarded, function)
        if "stopped" in output:
            raise Stopped(StopReason(output["stop"]), output["stopped"])
        return model.model_validate(output)

    def _guarded(self, function: Callable[[], State]) -> dict[str, Any]:
        """A step's body: what went wrong is not its outcome, so that the campaign goes on where it was once that is mended."""
        try:
            self.steps.watch.interrupted()
            return function().model_dump(mode="json")
        except Changed as changed:
            return {"stopped": str(changed), "stop": str(changed.stop)}
        except Suspended as asked:
            self.suspended(asked)
            raise
        except Exception as error:
            # An expected failure or a defect: told at the top, and never kept as the step's outcome.
            failed = Suspended(error)
            self.suspended(failed)
            raise failed from error
