"""What a campaign does next: another round, a confirmation, or the end with its reason. Pure functions of what is known."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bot.campaign.budget import Reserve, Share, affordable, reserve, share
from bot.campaign.people import entered_by
from bot.campaign.state import Count, Course, Order, Outcome, Plan, StopReason, Winner
from runner.spec.models import Budget
from runner.verdict import Verdict

# An improvement smaller than this is taken for noise.
MIN_GAIN = 1.005
# So many rounds in a row that timed candidates without improvement end the search.
PATIENCE = 2
# A person who asks for changes grants one more round of the spec's own size; so many times in a campaign.
MAX_GRANTS = 3
# So many rounds in a row without a proposal end a lineage: a search that has nothing new never will, a model may.
IDLE_ROUNDS = {"search": 1, "author": 2}


class Move(StrEnum):
    """What to do next."""

    PLAY = "play"
    CONFIRM = "confirm"
    STOP = "stop"


@dataclass(frozen=True)
class Decision:
    """The move: with its `share` for a round, its `candidate` for a confirmation, its `stop` and `reason` for the end."""

    move: Move
    share: Share | None = None
    candidate: Outcome | None = None
    stop: StopReason | None = None
    reason: str = ""


def decide(order: Order, plan: Plan, course: Course, spent: Count) -> Decision:
    """The next move.

    Rounds are played while the budget and the lineages last and something gets better. Then the best accepted candidate is
    confirmed; one that isn't confirmed makes room for the next best, as far as the budget reaches.
    """
    if winner(course) is not None:
        return Decision(Move.STOP, stop=StopReason.CONFIRMED, reason="the winner was confirmed in fresh processes")
    budget = granted(order, course)
    stop, why = StopReason.NOT_CONFIRMED, ""
    if len(course.confirmations) == (course.objections[-1].confirmations if course.objections else 0):
        kept = confirmation_reserve(course)
        part = share(budget, spent, kept, course.champion.seconds, len(course.turns), active(plan, course))
        halted = _halted(budget, plan, course, spent, part)
        if halted is None:
            return Decision(Move.PLAY, share=part)
        stop, why = halted
    contender = _contender(course)
    if contender is not None:
        if affordable(budget, spent, confirmation_reserve(course).candidates):
            return Decision(Move.CONFIRM, candidate=contender)
        why = "the budget has no room for another confirmation"
    if course.objections:
        return Decision(Move.STOP, stop=StopReason.REFUSED, reason=_refused(course, why))
    if course.withdrawn:
        told = "the person who had entered the winner's kernel took it back, and nothing else was accepted"
        return Decision(Move.STOP, stop=StopReason.CLOSED, reason=told)
    if order.submission is not None and not course.confirmations:
        return Decision(Move.STOP, stop=stop, reason=_submitted(order, course))
    return Decision(Move.STOP, stop=stop, reason=_told(order, course, stop, why))


def granted(order: Order, course: Course) -> Budget:
    """The budget with what people added to it.

    An objection adds a round of the size that the spec's own rounds have, for a few of them. A kernel that was pushed over a winner
    adds its judgement and its confirmation.
    """
    own, objections = order.budget, len(course.objections)
    # Whoever pushed an accepted kernel may have needed several tries.
    numbers = {entered_by(replacement.number) for replacement in course.replacements}
    pushed = sum(outcome.entry.agent in numbers for outcome in course.entered)
    budget = enlarged(own, objections, pushed, confirmation_reserve(course).candidates)
    # However few rounds were played by then, an objection brings one more.
    return budget.model_copy(update={"rounds": len(course.turns) + 1 if 0 < objections <= MAX_GRANTS else own.rounds})


def enlarged(own: Budget, objections: int, pushed: int, confirmation: int) -> Budget:
    """A spec's budget with what so many objections and pushed kernels add to it; a confirmation takes `confirmation` candidates."""
    grants = min(objections, MAX_GRANTS)
    return own.model_copy(
        update={
            "rounds": own.rounds + grants,
            "candidates": own.candidates + grants * max(own.candidates // own.rounds, 2 + confirmation) + pushed * (1 + confirmation),
            "device_minutes": own.device_minutes * (1 + (grants + pushed) / own.rounds),
        }
    )


def active(plan: Plan, course: Course) -> tuple[str, ...]:
    """The agents that may still have something to try: those that were not idle too often in a row."""
    names = []
    for lineage in plan.lineages:
        idle = 0
        for turn in reversed(course.turns):
            if lineage.agent.name not in {one.agent for one in turn.idle}:
                break
            idle += 1
        if idle < IDLE_ROUNDS[lineage.agent.kind]:
            names.append(lineage.agent.name)
    return tuple(names)


def to_judge(course: Course, screened: tuple[Outcome, ...]) -> Outcome | None:
    """The round's best, when it deserves a full judgement: it screened better than everything that was judged in full before."""
    judged = [turn for turn in course.turns if turn.judged is not None]
    earlier = [outcome for turn in judged for outcome in turn.screened if turn.judged and outcome.tree == turn.judged.tree]
    known = {course.champion.tree} | {outcome.tree for outcome in earlier}
    bar = max((outcome.strength or 0.0 for outcome in earlier), default=0.0)
    fresh = [outcome for outcome in screened if outcome.tree not in known and (outcome.strength or 0.0) > bar]
    return max(fresh, key=lambda outcome: outcome.strength or 0.0, default=None)


def lineage_best(course: Course, agent: str) -> Outcome | None:
    """The best that a lineage has screened."""
    timed = [outcome for turn in course.turns for outcome in turn.screened if outcome.entry.agent == agent and outcome.strength is not None]
    return max(timed, key=lambda outcome: outcome.strength or 0.0, default=None)


def must_beat_champion(course: Course) -> bool:
    """Whether the champion meets the spec's acceptance already, so that a winner must be faster than it."""
    return course.champion.verdict is Verdict.ACCEPTED


def confirmation_reserve(course: Course) -> Reserve:
    """What the confirmation needs: one full judgement, and one more against the champion where that counts."""
    return reserve(2 if must_beat_champion(course) else 1, course.champion.seconds)


def winner(course: Course) -> Winner | None:
    """The candidate whose confirmation holds: accepted again, and (where that counts) its interval against the champion above 1."""
    refused = objected(course)
    for outcome in course.confirmations:
        if outcome.entry.against != "baseline" or outcome.verdict is not Verdict.ACCEPTED:
            continue
        if outcome.speedup is None or outcome.interval is None or outcome.result is None:
            continue
        if outcome.tree in refused:
            continue
        over = _over_champion(course, outcome.tree)
        if over is None and must_beat_champion(course):
            continue
        return Winner(
            agent=outcome.entry.agent,
            kernel_tree=outcome.tree,
            speedup=outcome.speedup,
            interval=outcome.interval,
            result=outcome.result,
            found=outcome.entry.parent or "",
            over_champion=over,
        )
    return None


def _over_champion(course: Course, tree: str) -> tuple[float, tuple[float, float]] | None:
    for outcome in course.confirmations:
        faster = outcome.entry.against == "champion" and outcome.tree == tree and (outcome.strength or 0.0) > 1
        if faster and outcome.speedup is not None and outcome.interval is not None:
            return outcome.speedup, outcome.interval
    return None


def _contender(course: Course) -> Outcome | None:
    """The best accepted candidate that no confirmation has refused; before all others one that a person pushed over a winner."""
    refused = {outcome.tree for outcome in course.confirmations} | objected(course)
    judged = [*(turn.judged for turn in course.turns if turn.judged is not None), *course.entered]
    good = [outcome for outcome in judged if outcome.verdict is Verdict.ACCEPTED and outcome.tree not in refused]
    pushed = {replacement.by for replacement in course.replacements}
    if must_beat_champion(course):
        good = [outcome for outcome in good if (outcome.speedup or 0.0) > (course.champion.speedup or 0.0)]
    return max(good, key=lambda outcome: (outcome.tree in pushed, outcome.strength or 0.0), default=None)


def objected(course: Course) -> set[str]:
    """The kernels that people don't want: asked to change, pushed over (unless they came back), or taken back."""
    replaced = {replacement.tree for replacement in course.replacements} - {one.by for one in course.replacements[-1:]}
    return {objection.tree for objection in course.objections} | replaced | set(course.withdrawn)


def _halted(budget: Budget, plan: Plan, course: Course, spent: Count, part: Share | None) -> tuple[StopReason, str] | None:
    """Why no further round is played, or None."""
    played = len(course.turns)
    if not active(plan, course):
        notes = "; ".join(f"{one.agent}: {one.why}" for one in course.turns[-1].idle) if course.turns else "there is none"
        return StopReason.EXHAUSTED, f"no lineage has anything new to try ({notes})"
    if course.objections and played > course.objections[-1].turns:
        return StopReason.ROUNDS, "another round was played for the changes that were requested"
    if played >= budget.rounds:
        return StopReason.ROUNDS, f"all {played} rounds were played"
    if _stale(course) >= PATIENCE:
        return StopReason.NO_IMPROVEMENT, f"{PATIENCE} rounds in a row brought no improvement"
    if part is None:
        kept = "the rest is kept for the confirmation"
        if budget.candidates - spent.candidates - confirmation_reserve(course).candidates < 2:
            return StopReason.CANDIDATES, f"{spent.candidates} of {budget.candidates} candidates are spent, {kept}"
        spent_minutes = f"{spent.device_seconds / 60:.1f} of {budget.device_minutes:g} device minutes"
        return StopReason.DEVICE_TIME, f"{spent_minutes} are spent, {kept}"
    return None


def _stale(course: Course) -> int:
    """How many of the last rounds in a row timed candidates and brought nothing better."""
    best = course.champion.speedup or 0.0
    stale = 0
    # A request for changes begins the count again.
    since = course.objections[-1].turns if course.objections else 0
    for turn in course.turns[since:]:
        speedup = turn.judged.speedup if turn.judged is not None and turn.judged.strength is not None else None
        if speedup is not None and speedup > best * MIN_GAIN:
            best, stale = speedup, 0
        elif any(outcome.strength is not None for outcome in turn.screened):
            stale += 1
    return stale


def _told(order: Order, course: Course, stop: StopReason, why: str) -> str:
    """The reason in words: why the search ended, and how far the best came."""
    judged = [turn.judged for turn in course.turns if turn.judged is not None and turn.judged.strength is not None]
    best = max(judged, key=lambda outcome: outcome.strength or 0.0, default=None)
    if stop is StopReason.NOT_CONFIRMED:
        told = "; ".join(_confirmation(outcome) for outcome in course.confirmations)
        return f"no accepted candidate was confirmed: {told}" + (f"; {why}" if why else "")
    if best is None or best.speedup is None:
        return f"no candidate could be timed in full; {why}"
    where = f"{best.speedup:.3f} ({_interval(best)})"
    if must_beat_champion(course):
        champion = f"{course.champion.speedup:.3f} ({_interval(course.champion)})"
        return (
            f"the champion already meets the acceptance with {champion}, and nothing faster was accepted: the best reached {where}; {why}"
        )
    return f"no candidate was accepted: the best reached {where} where the interval must lie above {order.accept.min_speedup:g}; {why}"


def _submitted(order: Order, course: Course) -> str:
    """The reason where the campaign was about one person's kernel, which was not accepted."""
    if not course.entered:
        return f"pull request {order.submission} brings no kernel any more"
    last = course.entered[-1]
    measured = f" with {last.speedup:.3f} ({_interval(last)})" if last.speedup is not None else ""
    told = f"the kernel of pull request {order.submission} was {last.verdict or 'not evaluated'}{measured}"
    if last.verdict is Verdict.ACCEPTED and must_beat_champion(course):
        return f"{told}, and is not faster than the champion with {course.champion.speedup:.3f} ({_interval(course.champion)})"
    return told


def _refused(course: Course, why: str) -> str:
    """The reason when a person asked for changes and nothing else was accepted since."""
    last = course.objections[-1]
    said = f": {' '.join(last.text.split())[:200]}" if last.text.strip() else ""
    return f"{last.by} asked for changes{said}; nothing else was accepted" + (f"; {why}" if why else "")


def _confirmation(outcome: Outcome) -> str:
    against = "against the champion " if outcome.entry.against == "champion" else ""
    measured = f" {outcome.speedup:.3f} ({_interval(outcome)})" if outcome.speedup is not None else ""
    return f"{outcome.tree[:12]} {against}was {outcome.verdict or 'not evaluated'}{measured}"


def _interval(outcome: Outcome) -> str:
    return f"{outcome.interval[0]:.3f}–{outcome.interval[1]:.3f}" if outcome.interval is not None else "no interval"
