"""The campaign's steps: what each reads, does and keeps. Every one is at-least-once, so each may be run again after a crash.

No step knows the workflow or its engine. `Changed` says that the spec, or the place that judges it, is no longer the one that the
campaign began with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bot.agents.protocol import Agent, Brief, Proposal
from bot.campaign import budget
from bot.campaign.journal import Journal, over_baseline
from bot.campaign.ports import Changed, Closing, EvaluatePort, Place, PublishPort, Release, Watch
from bot.campaign.state import (
    CHAMPION,
    Count,
    Course,
    Ending,
    Entries,
    Entry,
    Gated,
    LeftOut,
    Lineage,
    Merged,
    Order,
    Outcome,
    Outcomes,
    Plan,
    Publication,
    StopReason,
    Tuning,
    Winner,
)
from bot.campaign.store import STORED, Store
from bot.decision import lineage_best
from bot.evidence.experiment import Experiment
from bot.evidence.notebook import Notebook
from bot.evidence.novelty import is_known, normalized_hash
from bot.evidence.remark import Remark
from runner.candidate import Candidate, read_candidate
from runner.errors import FactoryError
from runner.identity import spec_hash
from runner.spec.load import LoadedSpec, load_spec
from runner.spec.models import AgentSpec

if TYPE_CHECKING:
    from bot.evidence.lessons import Lesson

AGAIN = "its evidence no longer counts for this campaign: run the command again to begin the next"
Gate = Callable[[Candidate], str | None]
AgentFactory = Callable[[AgentSpec, Gate], Agent]


def lessons_of(experiments: Sequence[Experiment], remarks: Sequence[Remark] = ()) -> list[Lesson]:
    """What a spec's experiments teach, and what people said of its kernels. The statistics are imported when they are first needed."""
    from bot.evidence.lessons import learn

    return learn(over_baseline(experiments), remarks)


class Steps:
    """The steps of one spec's campaigns in this process, over the ports and the evidence that they work with."""

    def __init__(
        self,
        folder: Path,
        store: Store,
        notebook: Notebook,
        evaluation: EvaluatePort,
        publisher: PublishPort,
        watch: Watch,
        make_agent: AgentFactory,
    ) -> None:
        self.folder = folder
        self.store = store
        self.notebook = notebook
        self.evaluation = evaluation
        self.publisher = publisher
        self.watch = watch
        self.make_agent = make_agent
        self._agents: dict[str, Agent] = {}
        self._loaded: LoadedSpec | None = None
        self._journal = Journal(notebook, store, watch)

    def plan(self, order: Order) -> Plan:
        """Who takes part, from which kernels, on which device. A lineage whose agent can't work is left out and named."""
        spec = self._spec(order)
        place = self.evaluation.place(spec)
        lineages, left_out = [], []
        for agent in order.agents:
            try:
                self._agent(spec, agent)
            except FactoryError as error:
                left_out.append(LeftOut(agent=agent.name, why=str(error)))
                continue
            if agent.start == "kernel":
                start = order.champion
            else:
                start = self.store.put_candidate(read_candidate(spec.folder / agent.start, spec.spec.policy))
            lineages.append(Lineage(agent=agent, start=start))
        if order.agents and not lineages:
            raise FactoryError("no lineage can take part:\n" + "\n".join(f"  {one.agent}: {one.why}" for one in left_out))
        return Plan(lineages=tuple(lineages), left_out=tuple(left_out), device=place.device, harness=place.harness)

    def start(self, order: Order, plan: Plan) -> Count:
        """Tell the publisher that the campaign began."""
        self.publisher.started(order, plan)
        return self.count(order, -1)

    def champion(self, order: Order, plan: Plan) -> Outcome:
        """Judge the champion in full: the known point that the campaign starts from."""
        entry = Entry(
            campaign=order.campaign,
            round=0,
            agent=CHAMPION,
            first=0,
            tree=order.champion,
            kind="seed",
            parent=None,
            hypothesis="the champion as it is",
            tier="full",
        )
        self.watch.doing(0, "judging the champion")
        return self.evaluation.evaluate(self._judged(order, plan), [entry], order.budget.device_minutes * 60)[0]

    def count(self, order: Order, rounds: int) -> Count:
        """What the notebook says was spent up to this round (0 is the champion's judgement).

        Later rounds are in the notebook only when the engine's database was lost: they are then played again, without measuring again.
        """
        self._spec(order)
        return budget.count(experiment for experiment in self._mine(order) if experiment.round <= rounds)

    def propose(self, order: Order, plan: Plan, course: Course, lineage: Lineage, trials: int) -> Entries:
        """Ask a lineage's agent for candidates, and keep them in the store. What would cost more than `trials` is cut."""
        spec = self._spec(order)
        number = len(course.turns) + 1
        name = lineage.agent.name
        self.watch.doing(number, f"{name} proposes")
        policy = spec.spec.policy
        best = lineage_best(course, name)
        # Of this campaign's experiments the earlier rounds' only: so a proposal that is asked for again is the same.
        known = self.notebook.experiments(order.spec, first=order.campaign)
        experiments = over_baseline([one for one in known if one.campaign != order.campaign or one.round < number])
        # For the same reason only what people had said of this campaign by now.
        heard = {objection.review for objection in course.objections}
        remarks = [one for one in self.notebook.remarks(order.spec) if one.campaign != order.campaign or one.review in heard]
        brief = Brief(
            spec=spec,
            campaign=order.campaign,
            round=number,
            agent=name,
            champion=self.store.candidate(order.champion, policy),
            start=self.store.candidate(lineage.start, policy),
            best=self.store.candidate(best.tree, policy) if best is not None else None,
            experiments=experiments,
            lessons=lessons_of(experiments, remarks),
            trials=trials,
            seed=_seed(order, number, name),
            device=plan.device,
            remarks=remarks,
            refused=self._refused(remarks),
        )
        agent = self._agent(spec, lineage.agent)
        entries: list[Entry] = []
        for proposal in agent.propose(brief):
            entry = self._entry(order, number, name, proposal, sum(one.size for one in entries), trials)
            if entry is not None:
                entries.append(entry)
        if not entries:
            self.watch.doing(number, f"{name} proposes nothing: {agent.note}")
        return Entries(entries=tuple(entries), note=agent.note if not entries else "")

    def gate(self, order: Order, plan: Plan, entries: Sequence[Entry]) -> Gated:
        """Let through what is new, allowed and can be built. A refusal is an experiment; what is known already is dropped."""
        spec = self._judged(order, plan)
        place = Place(plan.device, plan.harness)
        # This round's own experiments may be those of an earlier try of this step.
        before = [experiment for experiment in self._mine(order) if experiment.round < entries[0].round]
        passed: list[Entry] = []
        refused = known = 0
        for entry in entries:
            self.watch.interrupted()
            candidate = self.store.candidate(entry.tree, spec.spec.policy)
            if entry.tuning is None and is_known(entry.tree, spec.spec_hash, before, normalized=normalized_hash(candidate)):
                known += 1
                continue
            self.watch.doing(entry.round, f"{entry.agent}: policy and build")
            refusal = self.evaluation.gate(spec, candidate)
            if refusal is None:
                passed.append(entry)
                continue
            self._journal.refusal(spec, place, entry, candidate, refusal)
            refused += 1
        return Gated(passed=tuple(passed), refused=refused, known=known)

    def evaluate(self, order: Order, plan: Plan, entries: Sequence[Entry], seconds: float) -> Outcomes:
        """Evaluate a batch at the port."""
        spec = self._judged(order, plan)
        self.watch.doing(entries[0].round, kind(entries[0]))
        return Outcomes(outcomes=tuple(self.evaluation.evaluate(spec, entries, seconds)))

    def report(self, order: Order, course: Course) -> Count:
        """Tell the publisher that a round ended."""
        self.publisher.progressed(order, course)
        return self.count(order, len(course.turns))

    def publish(self, order: Order, winner: Winner) -> Publication:
        """Publish the winner: exactly the judged kernel, or nothing."""
        spec = self._spec(order)
        kept = self.store.candidate_folder(winner.kernel_tree)
        if not order.publish:
            return Publication(published=False, message=f"it is kept in {kept}, and was not to be published")
        candidate = self.store.candidate(winner.kernel_tree, spec.spec.policy)
        result = self.store.result(winner.result)
        return self.publisher.published(
            Release(order, spec, winner, candidate, kept, result, over_baseline(self._mine(order)), self._lessons(order))
        )

    def end(self, order: Order, ending: Ending) -> Ending:
        """Tell the publisher how the campaign ended, and take the time."""
        seconds = (datetime.now(UTC) - datetime.fromisoformat(order.started)).total_seconds()
        timed = ending.model_copy(update={"seconds": round(seconds, 3)})
        if not order.publish:
            return timed
        try:
            spec: LoadedSpec | None = self._spec(order)
        except Changed:
            spec = None
        files = self.publisher.ended(Closing(order, spec, timed, self._lessons(order)))
        return timed.model_copy(update={"files": tuple(dict.fromkeys((*timed.files, *files)))})

    def _spec(self, order: Order) -> LoadedSpec:
        """The spec as it is now; where its hash is the one that was loaded last, it is not parsed again."""
        spec = self._loaded
        try:
            if spec is None or spec_hash(self.folder) != spec.spec_hash:
                spec = self._loaded = load_spec(self.folder)
        except FactoryError as error:
            raise Changed(StopReason.SPEC_CHANGED, f"the spec can no longer be read: {error}") from error
        if spec.spec_hash != order.spec_hash:
            raise Changed(StopReason.SPEC_CHANGED, f"the spec was changed after the campaign began; {AGAIN}")
        return spec

    def _judged(self, order: Order, plan: Plan) -> LoadedSpec:
        """The spec, to be judged where the campaign began: times of two devices or two judges can't be compared."""
        spec = self._spec(order)
        place = self.evaluation.place(spec)
        if place.device != plan.device:
            raise Changed(StopReason.JUDGE_CHANGED, f"the campaign began on {plan.device}, this is {place.device}; {AGAIN}")
        if place.harness != plan.harness:
            raise Changed(StopReason.JUDGE_CHANGED, f"the judge was changed after the campaign began; {AGAIN}")
        return spec

    def _agent(self, spec: LoadedSpec, agent: AgentSpec) -> Agent:
        if agent.name not in self._agents:
            self._agents[agent.name] = self.make_agent(agent, lambda candidate: self._objection(spec, candidate))
        return self._agents[agent.name]

    def _objection(self, spec: LoadedSpec, candidate: Candidate) -> str | None:
        refusal = self.evaluation.gate(spec, candidate)
        return f"{refusal.verdict}: {refusal.message}" if refusal is not None else None

    def _entry(self, order: Order, number: int, agent: str, proposal: Proposal, first: int, trials: int) -> Entry | None:
        left = trials - first
        if left < 1:
            return None
        tuning = None
        if proposal.tuning is not None:
            if min(proposal.tuning.trials, left) < 1:
                return None
            tuning = Tuning(
                strategy=proposal.tuning.strategy,
                trials=min(proposal.tuning.trials, left),
                seed=proposal.tuning.seed,
                prior=self.store.put_prior(proposal.tuning.prior),
            )
        return Entry(
            campaign=order.campaign,
            round=number,
            agent=agent,
            first=first,
            tree=self.store.put_candidate(proposal.candidate),
            kind=proposal.provenance.kind,
            parent=proposal.provenance.parent,
            hypothesis=proposal.provenance.hypothesis,
            tuning=tuning,
        )

    def _mine(self, order: Order) -> list[Experiment]:
        return self.notebook.experiments(order.spec, campaign=order.campaign)

    def _lessons(self, order: Order) -> list[Lesson]:
        return lessons_of(self.notebook.experiments(order.spec, first=order.campaign), self.notebook.remarks(order.spec))

    def _refused(self, remarks: Sequence[Remark]) -> dict[str, Candidate]:
        """The kernels that people asked to change, as far as they are kept."""
        trees = {remark.kernel_tree for remark in remarks}
        return {tree: self.store.candidate(tree, STORED) for tree in sorted(trees) if self.store.candidate_folder(tree).exists()}


def full_entry(order: Order, best: Outcome, first: int) -> Entry:
    """The full judgement of a round's best."""
    entry = best.entry
    return Entry(
        campaign=order.campaign,
        round=entry.round,
        agent=entry.agent,
        first=first,
        tree=best.tree,
        kind=entry.kind,
        parent=entry.parent,
        hypothesis=entry.hypothesis,
        tier="full",
    )


def confirmation_entries(judged: Outcome, over_champion: bool) -> tuple[Entry, ...]:
    """The confirmation of a judged candidate: in full, in fresh processes, over the baseline and (where that counts) the champion."""
    entry = judged.entry
    against = ("baseline", "champion") if over_champion else ("baseline",)
    return tuple(
        Entry(
            campaign=entry.campaign,
            round=entry.round,
            agent=entry.agent,
            first=entry.first + 1 + number,
            tree=judged.tree,
            kind=entry.kind,
            parent=entry.experiment(),
            hypothesis=f"confirmation of {entry.experiment()} over the {side}",
            tier="full",
            against=side,
            fresh=True,
        )
        for number, side in enumerate(against)
    )


def kind(entry: Entry) -> str:
    """What is done with an entry, in words."""
    if entry.fresh:
        return f"confirming over the {entry.against}"
    return "screening" if entry.tier == "screening" else "judging in full"


def _seed(order: Order, number: int, agent: str) -> int:
    """The seed of one proposal: it follows from the campaign's seed, the round and the agent."""
    return int.from_bytes(hashlib.sha256(f"{order.seed}/{number}/{agent}".encode()).digest()[:4], "big") >> 1


def ending(
    order: Order,
    course: Course | None,
    stop: StopReason,
    reason: str,
    winner: Winner | None = None,
    publication: Publication | None = None,
    merged: Merged | None = None,
) -> Ending:
    """How the campaign ended, before its time is taken."""
    status: Literal["accepted", "no_winner", "not_published"] = "no_winner"
    if winner is not None:
        status = "accepted" if publication is not None and (publication.published or not order.publish) else "not_published"
    return Ending(
        status=status,
        stop=stop,
        reason=reason if publication is None or publication.published else f"{reason}; {publication.message}",
        rounds=len(course.turns) if course is not None else 0,
        winner=winner,
        files=publication.files if publication is not None else (),
        seconds=0.0,
        merged=merged,
    )
