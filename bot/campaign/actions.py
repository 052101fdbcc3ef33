"""The evaluate port over Actions runs: a round goes to the benchmark machine as one dispatched run, and comes back as experiments.

What was recorded is never asked for again, and a run that was started before a crash is found and waited for, not started a second
time: the ticket of every run is kept before the run is started. A run that is lost is tried again while the batch has time; after that
its entries are `evaluation_lost`, with the reason.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import runner
from bot.campaign.batches import Batch, Batches
from bot.campaign.bench import RunnerBench
from bot.campaign.dispatched import ROOT, Attempts, Dispatcher, Patience, Runs, Ticket
from bot.campaign.journal import Journal
from bot.campaign.outcomes import judged_outcome, no_time, tuned_outcome
from bot.campaign.ports import Place, Refusal
from bot.campaign.received import Asked, Contradictions, Lost, check_answer, contradictions, opened
from bot.campaign.state import Entry, Outcome
from bot.campaign.store import Store, write_atomically
from runner import batch_form
from runner.batch_form import Answer, Answered, Request, Search
from runner.candidate import Candidate, read_candidate
from runner.errors import FactoryError
from runner.identity import harness_hash, source_hash
from runner.spec.load import LoadedSpec
from runner.tuning import Trial

MAX_TRIES = 3
PROBE_SECONDS = 60.0


class Gate(Protocol):
    """What looks at a candidate before a run is started for it: policy and build, on the bot's own machine."""

    def gate(self, spec: LoadedSpec, candidate: Candidate) -> Refusal | None:
        """Policy, then a build of every point that the table can reach."""


class ActionsEvaluation:
    """`EvaluatePort` whose device is a benchmark machine of the forge's repository."""

    def __init__(
        self,
        runs: Runs,
        attempts: Attempts,
        journal: Journal,
        store: Store,
        *,
        login: str = "",
        gate: Gate | None = None,
        patience: Patience | None = None,
        doubts: Contradictions = contradictions,
    ) -> None:
        self.runs = runs
        self.journal = journal
        self.store = store
        self.batches = Batches(store)
        self.bench = gate or RunnerBench()
        self.dispatcher = Dispatcher(runs, attempts, login, patience)
        self.doubts = doubts

    def place(self, spec: LoadedSpec) -> Place:
        """The device that answered last for the spec's target and labels. The first time a run without entries asks for it."""
        path = self._place(spec)
        if not path.is_file():
            write_atomically(path, self._device(spec).encode())
        return Place(path.read_text(encoding="utf-8"), harness_hash())

    def _device(self, spec: LoadedSpec) -> str:
        """Ask a run without entries for its device. Where that is lost, another run is asked the next time."""
        name = f"place-{_key(spec.spec_hash, harness_hash())}"
        batch = self._running(name, self.batches.load(name), partial(self._ticket_of, spec, (), (), PROBE_SECONDS, f"{ROOT}/places/{name}"))
        ticket = batch.tickets[-1]
        try:
            answer = self._answer(ticket, spec, {})
            if answer.lost:
                raise Lost(answer.lost)
        except Lost as lost:
            self.batches.save(name, batch.with_ticket(ticket.model_copy(update={"lost": str(lost)})))
            raise FactoryError(f"no machine judges {spec.spec.id}: {lost}") from lost
        return answer.device

    def gate(self, spec: LoadedSpec, candidate: Candidate) -> Refusal | None:
        return self.bench.gate(spec, candidate)

    def evaluate(self, spec: LoadedSpec, entries: Sequence[Entry], seconds: float) -> Sequence[Outcome]:
        place = self.place(spec)
        name = _key(spec.spec_hash, place.harness, *(entry.model_dump_json() for entry in entries))
        batch = self.batches.load(name)
        while not batch.done:
            self.journal.watch.interrupted()
            asked = self._open(spec, batch, entries)
            left = seconds - self._used(entries) - sum(ticket.seconds for ticket in batch.tickets)
            if batch.current is None and (not asked or left <= 0 or len(batch.tickets) == MAX_TRIES):
                batch = self.batches.save(name, self._given_up(spec, place, batch, asked))
                continue
            batch = self._running(name, batch, partial(self._ticket_of, spec, entries, asked, left, f"{ROOT}/{entries[0].campaign}/{name}"))
            batch = self.batches.save(name, self._taken(spec, place, batch, entries))
        return [self._outcome(spec, entry) for entry in entries]

    def _running(self, name: str, batch: Batch, make: Callable[[int], Ticket]) -> Batch:
        """The batch with a run under way: the one that it has, or its next. A ticket that was kept earlier may have a run already."""
        kept = batch.current
        ticket = kept or make(len(batch.tickets) + 1)
        if kept is None:
            batch = self.batches.save(name, batch.model_copy(update={"tickets": (*batch.tickets, ticket)}))
        if ticket.run is None:
            batch = self.batches.save(name, batch.with_ticket(self.dispatcher.start(ticket, again=kept is not None)))
        return batch

    def _given_up(self, spec: LoadedSpec, place: Place, batch: Batch, asked: Sequence[Asked]) -> Batch:
        """A batch of which nothing more will come: what is still open is lost, when it was tried at all."""
        if batch.tickets:
            for one in asked:
                self.journal.lost(spec, place, one.entry, one.candidate, one.offset, batch.tickets[-1].lost)
        return batch.model_copy(update={"done": True})

    def _taken(self, spec: LoadedSpec, place: Place, batch: Batch, entries: Sequence[Entry]) -> Batch:
        """Record what the run under way gives."""
        ticket = batch.tickets[-1]
        asked = {one.entry.experiment(): one for one in self._asked(spec, entries, ticket.offsets)}
        try:
            answer = self._answer(ticket, spec, asked)
            if answer.entries and answer.device != place.device:
                # Whoever asks for the place next is told.
                write_atomically(self._place(spec), answer.device.encode())
                raise Lost(f"the run was on {answer.device}, the campaign is on {place.device}: the labels name different machines")
        except Lost as lost:
            self.journal.watch.lost(str(lost))
            return batch.with_ticket(ticket.model_copy(update={"lost": str(lost), "seconds": lost.seconds}))
        there = {entry.key: entry for entry in answer.entries}
        reasons = {key: there[key].lost if key in there else answer.lost for key in asked}
        for key, one in asked.items():
            if not reasons[key]:
                self._record(spec, place, one, there[key])
        finished = (*batch.finished, *(key for key, why in reasons.items() if not why))
        # Without a reason all came, and there is nothing left to ask for.
        reason = "; ".join(dict.fromkeys(why for why in reasons.values() if why))
        taken = batch.with_ticket(ticket.model_copy(update={"lost": reason}))
        return taken.model_copy(update={"finished": finished, "done": not reason})

    def _record(self, spec: LoadedSpec, place: Place, asked: Asked, answered: Answered) -> None:
        if answered.result is not None:
            self.journal.result(spec, place, asked.entry, asked.candidate, answered.result)
        for index, trial in enumerate(answered.trials):
            self.journal.trial(spec, place, asked.entry, asked.candidate, asked.offset + index, trial)

    def _answer(self, ticket: Ticket, spec: LoadedSpec, asked: dict[str, Asked]) -> Answer:
        """What a ticket's run answers, checked. Raises `Lost`."""

        def told(what: str) -> None:
            self.journal.watch.interrupted()
            self.journal.watch.detail(what)

        artifact, seconds = self.dispatcher.fetched(ticket, told)
        try:
            answer = opened(artifact)
            check_answer(
                answer, request=ticket.request, run=ticket.identity, harness=harness_hash(), spec=spec, asked=asked, doubts=self.doubts
            )
        except Lost as lost:
            raise Lost(f"run {ticket.run}: {lost}", seconds) from lost
        return answer

    def _ticket_of(
        self, spec: LoadedSpec, entries: Sequence[Entry], asked: Sequence[Asked], seconds: float, ref: str, number: int
    ) -> Ticket:
        """The batch's `number`th ticket: a pushed request for what is `asked`. What its other searches found is told with it."""
        keys = {one.entry.experiment() for one in asked}
        found: dict[str, list[Trial]] = defaultdict(list)
        for entry in entries:
            if entry.tuning is not None and entry.experiment() not in keys:
                found[source_hash(self.store.candidate(entry.tree, spec.spec.policy))] += self.journal.trials(entry)
        request = Request(
            version=runner.__version__,
            harness=harness_hash(),
            spec=spec.spec.id,
            spec_hash=spec.spec_hash,
            champion=read_candidate(spec.folder / "kernel", spec.spec.policy).tree,
            seconds=seconds,
            entries=tuple(self._form(one, found[source_hash(one.candidate)]) for one in asked),
        )
        return self.dispatcher.ticket(
            f"{ref}-{number}",
            request.model_dump_json(by_alias=True).encode(),
            {one.entry.tree: one.candidate for one in asked},
            _labels(spec),
            seconds,
            {one.entry.experiment(): one.offset for one in asked},
        )

    def _form(self, asked: Asked, found: Sequence[Trial]) -> batch_form.Asked:
        entry, search = asked.entry, None
        if entry.tuning is not None:
            search = Search(
                strategy=entry.tuning.strategy,
                trials=entry.tuning.trials,
                seed=entry.tuning.seed,
                prior=(*self.store.prior(entry.tuning.prior), *found),
                recorded=tuple(self.journal.trials(entry)),
            )
        return batch_form.Asked(
            key=entry.experiment(), tree=entry.tree, tier=entry.tier, against=entry.against, fresh=entry.fresh, search=search
        )

    def _open(self, spec: LoadedSpec, batch: Batch, entries: Sequence[Entry]) -> list[Asked]:
        """The entries of which something may still come."""
        offsets = {entry.experiment(): len(self.journal.kept(entry)) for entry in entries}
        wanted = [entry for entry in entries if offsets[entry.experiment()] < entry.size and entry.experiment() not in batch.finished]
        return self._asked(spec, wanted, offsets)

    def _asked(self, spec: LoadedSpec, entries: Sequence[Entry], offsets: dict[str, int]) -> list[Asked]:
        """Those entries that have an offset, in their order."""
        return [
            Asked(entry, self.store.candidate(entry.tree, spec.spec.policy), offsets[entry.experiment()])
            for entry in entries
            if entry.experiment() in offsets
        ]

    def _used(self, entries: Sequence[Entry]) -> float:
        return sum(experiment.seconds for entry in entries for experiment in self.journal.kept(entry))

    def _outcome(self, spec: LoadedSpec, entry: Entry) -> Outcome:
        experiments = self.journal.kept(entry)
        if not experiments:
            return no_time(entry)
        if entry.tuning is None:
            return judged_outcome(self.store, entry, experiments[0])
        return tuned_outcome(self.store, entry, self.store.candidate(entry.tree, spec.spec.policy), experiments)

    def _place(self, spec: LoadedSpec) -> Path:
        """Where the device is kept that a spec's target and labels name."""
        return self.store.folder / "places" / f"{_key(spec.spec.hardware.target, *_labels(spec))}.json"


def _labels(spec: LoadedSpec) -> tuple[str, ...]:
    return tuple(dict.fromkeys(("self-hosted", *spec.spec.hardware.runner_labels)))


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
