"""What came of an entry, told from the experiments that the notebook has of it."""

from __future__ import annotations

from collections.abc import Sequence

from bot.campaign.state import Entry, Outcome
from bot.campaign.store import Store
from bot.evidence import space
from bot.evidence.experiment import Experiment
from runner.candidate import Candidate, with_knobs
from runner.errors import FactoryError


def judged_outcome(store: Store, entry: Entry, experiment: Experiment) -> Outcome:
    """The outcome of an entry that was judged as it is."""
    return _outcome(entry, experiment, 1, store.result_of(experiment.id))


def tuned_outcome(store: Store, entry: Entry, candidate: Candidate, experiments: Sequence[Experiment]) -> Outcome:
    """The outcome of a search: its best point, kept in the store as a kernel; or, where none could be timed, its last failure."""
    best = space.best(experiments)
    if best is None:
        return _untimed(entry, experiments)
    frozen = with_knobs(candidate, best.knobs)
    if frozen.tree != best.kernel_tree:
        raise FactoryError(f"{best.id} was measured as {best.kernel_tree}, but its knobs make {frozen.tree}: the harness was changed")
    store.put_candidate(frozen)
    return _outcome(entry, best, len(experiments), None)


def no_time(entry: Entry) -> Outcome:
    """The outcome of an entry of which nothing was evaluated."""
    return Outcome(entry=entry, experiments=0, tree=entry.tree, verdict=None, message="no time of the device was left")


def _outcome(entry: Entry, experiment: Experiment, count: int, result: str | None) -> Outcome:
    return Outcome(
        entry=entry,
        experiments=count,
        tree=experiment.kernel_tree,
        verdict=experiment.verdict,
        message=experiment.message[:500],
        speedup=experiment.speedup,
        interval=experiment.interval,
        knobs=(dict(experiment.knobs),) if experiment.knobs else (),
        seconds=experiment.seconds,
        result=result,
    )


def _untimed(entry: Entry, experiments: Sequence[Experiment]) -> Outcome:
    """A search none of whose points could be timed: told by its last one."""
    if not experiments:
        return no_time(entry)
    last = experiments[-1]
    return Outcome(entry=entry, experiments=len(experiments), tree=entry.tree, verdict=last.verdict, message=last.message[:500])
