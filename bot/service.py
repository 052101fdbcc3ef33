"""The bot as a running service: one durable engine for the campaigns of all specs of one repository, its deliveries, and its timer."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from dbos import DBOS, DBOSConfiguredInstance, SetWorkflowID

from bot.agents.registry import make_agent
from bot.campaign.branches import Branches, folder_of
from bot.campaign.engine import UNFINISHED, Engine
from bot.campaign.hosted import HostedSteps
from bot.campaign.journal import Journal
from bot.campaign.ports import EvaluatePort, Suspended, Watch
from bot.campaign.pulls import PullRequests
from bot.campaign.state import Ending, Order
from bot.campaign.store import Store
from bot.campaign.workflow import MAILBOX, RECOVERY_ATTEMPTS, CampaignWorkflow
from bot.dispatch import Dispatch, Known
from bot.events import EVENT, Event
from bot.evidence.notebook import Notebook
from bot.hosting import Clone, Repository, TryLater
from bot.outcome import hosted_summary
from bot.settings import Settings
from bot.specs import Trees
from runner.errors import FactoryError

LOG = logging.getLogger("kernel-factory")
# A campaign that could not go on is tried again after so many seconds, ever more seldom.
AGAIN_SECONDS, AGAIN_SECONDS_MAX = 5.0, 300.0
MakeEvaluation = Callable[[Journal, Store], EvaluatePort]


@DBOS.dbos_class()
class Deliveries(DBOSConfiguredInstance):
    """Handles each delivery in a workflow under its GUID, so that one that was taken is handled, and handled once."""

    def __init__(self, handle: Callable[[Event], None]) -> None:
        self.handle = handle
        super().__init__("deliveries")

    @DBOS.workflow(name="handle_delivery", max_recovery_attempts=RECOVERY_ATTEMPTS)
    def run(self, event: dict[str, Any]) -> None:
        """Handle one. What can't be done now is told, and found again by the timer."""
        DBOS.run_step({"name": "handle"}, self._handled, event)

    def _handled(self, event: dict[str, Any]) -> None:
        try:
            self.handle(EVENT.validate_python(event))
        except FactoryError as error:
            LOG.warning("a delivery could not be handled, the timer looks again: %s", error)


class HostedEngine(Engine):
    """The engine of a service: a campaign that could not go on is tried again by itself."""

    def __init__(self, folder: Path, workflow: CampaignWorkflow) -> None:
        super().__init__(folder, workflow)
        # Why each campaign that waits to go on could not.
        self.held: dict[str, str] = {}
        self._failures: dict[str, tuple[int, float]] = {}
        self._timers: list[threading.Timer] = []

    def _suspend(self, campaign: str, cause: Suspended) -> None:
        if cause.cause is None:
            return
        failures, last = self._failures.get(campaign, (0, 0.0))
        # What went well for so long begins anew.
        failures = 0 if time.monotonic() - last > 2 * AGAIN_SECONDS_MAX else failures
        self._failures[campaign] = failures + 1, time.monotonic()
        wait = min(AGAIN_SECONDS * 2 ** min(failures, 10), AGAIN_SECONDS_MAX)
        if isinstance(cause.cause, TryLater):
            wait = max(wait, cause.cause.seconds)
        self.held[campaign] = str(cause.cause)
        expected = isinstance(cause.cause, FactoryError)
        LOG.warning("%s can't go on, tried again in %g s: %s", campaign, wait, cause.cause, exc_info=None if expected else cause.cause)
        timer = threading.Timer(wait, self._resume, (campaign,))
        timer.daemon = True
        timer.start()
        self._timers.append(timer)

    def _resume(self, campaign: str) -> None:
        try:
            DBOS.resume_workflow(campaign)
        except Exception as error:  # noqa: BLE001 - told and tried again, whatever it is
            # The database can't be written now either.
            self._suspend(campaign, Suspended(error))
            return
        self.held.pop(campaign, None)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for timer in self._timers:
            timer.cancel()
        super().__exit__(kind, error, trace)


class Heeding:
    """A campaign's watch for its evaluations, which also heeds what was pushed: what they are about may be changed meanwhile."""

    def __init__(self, watch: Watch, changed: Callable[[], None]) -> None:
        self._watch = watch
        self._changed = changed
        self.opened, self.doing, self.detail, self.lost, self.recorded = watch.opened, watch.doing, watch.detail, watch.lost, watch.recorded

    def interrupted(self) -> None:
        """Raises `Suspended` as the watch does, and `Changed` where the ground moved."""
        self._watch.interrupted()
        self._changed()


class Service:
    """Everything that the bot is, for one repository and one state folder. Use as a context manager."""

    def __init__(
        self,
        state: Path,
        repository: Repository,
        clone: Clone,
        bot: str,
        settings: Settings,
        make_evaluation: MakeEvaluation,
        make_watch: Callable[[Order], Watch],
        reconcile_seconds: float = 60.0,
    ) -> None:
        self.settings = settings
        self.make_evaluation = make_evaluation
        self.make_watch = make_watch
        self.reconcile_seconds = reconcile_seconds
        self.repository = repository
        self.store = Store(state)
        self.notebook = Notebook(state / "notebook.sqlite")
        self.branches = Branches(clone)
        self.trees = Trees(clone, state / "trees")
        self.workflow = CampaignWorkflow(self._steps)
        self.engine = HostedEngine(state / "campaigns", self.workflow)
        self.publisher = PullRequests(repository, self.branches, self.store, self.notebook, bot)
        self.dispatch = Dispatch(repository, self.branches, self.trees, self.store, self.notebook, self, bot)
        self.deliveries = Deliveries(self.dispatch.handle)
        self._watches: dict[str, Watch] = {}
        # Campaigns whose spec was seen to have changed, and which have not looked for themselves yet.
        self._overtaken: set[str] = set()
        self._beginning = threading.Lock()
        self._stop = threading.Event()
        self._timer = threading.Thread(target=self._reconcile, name="reconcile", daemon=True)

    def __enter__(self) -> Service:
        self.engine.__enter__()
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._timer.join()
        self.engine.__exit__(kind, error, trace)
        self.notebook.close()

    def claim(self, delivery: str, event: Event) -> bool:
        """Keep an event under its delivery's GUID, and handle it in the background; False when it was kept before."""
        name = f"delivery-{delivery}"
        if DBOS.get_workflow_status(name) is not None:
            return False
        with SetWorkflowID(name):
            DBOS.start_workflow(self.deliveries.run, EVENT.dump_python(event, mode="json"))
        return True

    def known(self) -> Sequence[Known]:
        """All campaigns that were begun, oldest first."""
        found = []
        for status in DBOS.list_workflows(name="campaign", load_input=True, load_output=True):
            if status.input is None:
                continue
            order = Order.model_validate(status.input["args"][-1])
            running = status.status in UNFINISHED
            ending = Ending.model_validate(status.output) if status.status == "SUCCESS" else None
            found.append(Known(order, running, ending.stop if ending else None, ending.merged if ending else None))
        return found

    def begin(self, order: Order) -> None:
        """Begin a campaign, once, whoever asks for it at the same time. Its watch says that it begins."""
        with self._beginning:
            if DBOS.get_workflow_status(order.campaign) is None:
                self.engine.start(order)

    def wake(self, campaign: str) -> None:
        """Tell a campaign that something happened."""
        status = DBOS.get_workflow_status(campaign)
        if status is not None and status.status in UNFINISHED:
            DBOS.send(campaign, "look", MAILBOX)

    def overtake(self, campaign: str) -> None:
        """Tell a campaign that what it is about was changed: at its next look within an evaluation, or where it waits."""
        self._overtaken.add(campaign)
        self.wake(campaign)

    def campaigns(self) -> list[dict[str, Any]]:
        """All campaigns for whoever looks on: whether each has ended, the pull request that waits for people, the end's summary."""
        return [self.told(known) for known in self.known()]

    def told(self, known: Known) -> dict[str, Any]:
        """One campaign for whoever looks on."""
        order = known.order
        waiting = self.publisher.waiting.get(order.campaign) if known.running else None
        ending = self.ending(order.campaign)
        return {
            "campaign": order.campaign,
            "spec": order.spec,
            "ended": ending is not None,
            "pull": waiting.model_dump() if waiting is not None else None,
            "held": self.engine.held.get(order.campaign) if known.running else None,
            "summary": hosted_summary(self.repository, self.notebook, self.store, order, ending) if ending is not None else None,
        }

    def ending(self, campaign: str) -> Ending | None:
        """How a campaign ended, or None while it runs."""
        status = DBOS.get_workflow_status(campaign)
        return Ending.model_validate(status.output) if status is not None and status.status == "SUCCESS" else None

    def _steps(self, order: Order) -> HostedSteps:
        # A campaign that is tried again is shown by the watch that has it already.
        if order.campaign not in self._watches:
            self._watches[order.campaign] = self.make_watch(order)
        watch = self._watches[order.campaign]
        heeding = Heeding(watch, lambda: self._heed(order))
        return HostedSteps(
            self.trees.specs(order.commit) / folder_of(order.spec).rpartition("/")[2],
            self.store,
            self.notebook,
            self.make_evaluation(Journal(self.notebook, self.store, heeding), self.store),
            self.publisher,
            watch,
            lambda agent, gate: make_agent(agent, self.settings, gate),
        )

    def _heed(self, order: Order) -> None:
        """Look whether a campaign that was overtaken really is: `Changed` says so."""
        if order.campaign in self._overtaken:
            self._overtaken.discard(order.campaign)
            self.publisher.unchanged(order)

    def _reconcile(self) -> None:
        """Look at everything there is, now and then: this finds what was never delivered."""
        while True:
            try:
                self.dispatch.look()
                self.repository.redeliver_failed()
            except Exception as error:
                # Nothing else finds what was never delivered, so the timer goes on whatever happens.
                expected = isinstance(error, FactoryError)
                LOG.warning("the forge could not be looked at: %s", error, exc_info=None if expected else error)
            if self._stop.wait(self.reconcile_seconds):
                return
