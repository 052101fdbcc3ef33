"""The evaluate port over Actions runs: a round goes to the benchmark machine as one dispatched run, and comes back as experiments.

What was recorded is never asked for again, and a run that was started before a crash is waited for, not started a second time. A run
that is lost is tried again while the batch has time; after that its entries are `evaluation_lost`, with the reason.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

from pydantic import ValidationError

import runner
from bot.campaign.bench import RunnerBench
from bot.campaign.dispatched import Attempts, Dispatcher, Patience, Runs, Ticket
from bot.campaign.journal import Journal
from bot.campaign.outcomes import judged_outcome, no_time, tuned_outcome
from bot.campaign.ports import Place, Refusal
from bot.campaign.received import Asked, Contradictions, Lost, check_answer, contradictions, opened
from bot.campaign.state import Entry, Outcome, State
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
ROOT = "refs/factory"


class Gate(Protocol):
    """What looks at a candidate before a run is started for it: policy and build, on the bot's own machine."""

    def gate(self, spec: LoadedSpec, candidate: Candidate) -> Refusal | None:
        """Policy, then a build of every point that the table can reach."""


class _Batch(State):
    """What was tried for a batch so far; `finished` are the keys of entries of which nothing more will come."""

    tickets: tuple[Ticket, ...] = ()
    finished: tuple[str, ...] = ()
    done: bool = False


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
        self.bench = gate or RunnerBench()
        self.dispatcher = Dispatcher(runs, attempts, login, patience)
        self.doubts = doubts

    def place(self, spec: LoadedSpec) -> Place:
        """The device that answered last for the spec's target and labels. The first time a run without entries asks for it."""
        path = self.store.folder / "places" / f"{_key(spec.spec.hardware.target, *_labels(spec))}.json"
        if path.is_file():
            return Place(path.read_text(encoding="utf-8"), harness_hash())
        try:
            ticket = self._pushed(spec, f"{ROOT}/places/{spec.spec.id}", [], PROBE_SECONDS)
            answer = self._answer(self.dispatcher.start(ticket), spec, {})
        except Lost as lost:
            raise FactoryError(f"no machine judges {spec.spec.id}: {lost}") from lost
        if answer.lost:
            raise FactoryError(f"the benchmark machine can't judge {spec.spec.id}: {answer.lost}")
        write_atomically(path, answer.device.encode())
        return Place(answer.device, harness_hash())

    def gate(self, spec: LoadedSpec, candidate: Candidate) -> Refusal | None:
        return self.bench.gate(spec, candidate)

    def evaluate(self, spec: LoadedSpec, entries: Sequence[Entry], seconds: float) -> Sequence[Outcome]:
        place = self.place(spec)
        name = _key(spec.spec_hash, place.harness, *(entry.model_dump_json() for entry in entries))
        batch = self._load(name)
        while not batch.done:
            batch = self._save(name, self._step(spec, place, name, batch, entries, seconds))
        return [self._outcome(spec, entry) for entry in entries]

    def _step(self, spec: LoadedSpec, place: Place, name: str, batch: _Batch, entries: Sequence[Entry], seconds: float) -> _Batch:
        """One step of a batch: start a run, or take what a run gives, or end with what there is."""
        self.journal.watch.interrupted()
        asked = self._open(spec, batch, entries)
        current = batch.tickets[-1] if batch.tickets and not batch.tickets[-1].lost else None
        if current is not None and current.run is not None:
            return self._taken(spec, place, batch, current, entries)
        if current is not None:
            return _with(batch, self.dispatcher.start(current))
        left = seconds - self._used(entries) - sum(ticket.seconds for ticket in batch.tickets)
        if not asked or left <= 0 or len(batch.tickets) == MAX_TRIES:
            if batch.tickets:
                for one in asked:
                    self.journal.lost(spec, place, one.entry, one.candidate, one.offset, batch.tickets[-1].lost)
            return batch.model_copy(update={"done": True})
        number = len(batch.tickets) + 1
        complete = [entry for entry in entries if entry.experiment() not in {one.entry.experiment() for one in asked}]
        ticket = self._pushed(spec, f"{ROOT}/{entries[0].campaign}/{name}-{number}", asked, left, complete)
        return batch.model_copy(update={"tickets": (*batch.tickets, ticket)})

    def _taken(self, spec: LoadedSpec, place: Place, batch: _Batch, ticket: Ticket, entries: Sequence[Entry]) -> _Batch:
        """Record what a ticket's run gives."""
        asked = {one.entry.experiment(): one for one in self._asked(spec, entries, ticket.offsets)}
        try:
            answer = self._answer(ticket, spec, asked)
            if answer.entries and answer.device != place.device:
                self._moved(spec, answer.device)
                raise Lost(f"the run was on {answer.device}, the campaign is on {place.device}: the labels name different machines")
        except Lost as lost:
            self.journal.watch.detail(f"lost: {lost}")
            return _with(batch, ticket.model_copy(update={"lost": str(lost), "seconds": lost.seconds}))
        there = {entry.key: entry for entry in answer.entries}
        reasons = {key: there[key].lost if key in there else answer.lost for key in asked}
        for key, one in asked.items():
            if not reasons[key]:
                self._record(spec, place, one, there[key])
        finished = (*batch.finished, *(key for key, why in reasons.items() if not why))
        # Without a reason all came, and there is nothing left to ask for.
        reason = "; ".join(dict.fromkeys(why for why in reasons.values() if why))
        taken = _with(batch, ticket.model_copy(update={"lost": reason}))
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

    def _pushed(self, spec: LoadedSpec, ref: str, asked: Sequence[Asked], seconds: float, complete: Sequence[Entry] = ()) -> Ticket:
        """Push a request; returns its ticket, without a run yet. What the batch's `complete` searches found is known to the others."""
        found: dict[str, list[Trial]] = defaultdict(list)
        for entry in complete:
            if entry.tuning is not None:
                found[source_hash(self.store.candidate(entry.tree, spec.spec.policy))] += self.journal.trials(entry)
        champion = read_candidate(spec.folder / "kernel", spec.spec.policy).tree
        request = Request(
            version=runner.__version__,
            harness=harness_hash(),
            spec=spec.spec.id,
            spec_hash=spec.spec_hash,
            champion=champion,
            seconds=seconds,
            entries=tuple(self._form(one, found[source_hash(one.candidate)]) for one in asked),
        )
        data = request.model_dump_json(by_alias=True).encode()
        commit = self.dispatcher.push(ref, data, {one.entry.tree: one.candidate for one in asked})
        return Ticket(
            ref=ref,
            commit=commit,
            request=hashlib.sha256(data).hexdigest(),
            branch=self.runs.default_branch().name,
            labels=_labels(spec),
            seconds_allowed=seconds,
            offsets={one.entry.experiment(): one.offset for one in asked},
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

    def _open(self, spec: LoadedSpec, batch: _Batch, entries: Sequence[Entry]) -> list[Asked]:
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

    def _moved(self, spec: LoadedSpec, device: str) -> None:
        """Another machine answers now: whoever asks for the place next is told."""
        path = self.store.folder / "places" / f"{_key(spec.spec.hardware.target, *_labels(spec))}.json"
        write_atomically(path, device.encode())

    def _load(self, name: str) -> _Batch:
        path = self.store.folder / "batches" / f"{name}.json"
        try:
            return _Batch.model_validate_json(path.read_bytes()) if path.is_file() else _Batch()
        except (OSError, ValidationError) as error:
            raise FactoryError(f"{path} can't be read; remove it to have its batch evaluated again") from error

    def _save(self, name: str, batch: _Batch) -> _Batch:
        write_atomically(self.store.folder / "batches" / f"{name}.json", batch.model_dump_json().encode())
        return batch


def _with(batch: _Batch, ticket: Ticket) -> _Batch:
    """The batch with its last ticket replaced."""
    return batch.model_copy(update={"tickets": (*batch.tickets[:-1], ticket)})


def _labels(spec: LoadedSpec) -> tuple[str, ...]:
    return tuple(dict.fromkeys(("self-hosted", *spec.spec.hardware.runner_labels)))


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
