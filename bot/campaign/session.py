"""One command's part in a campaign: begins the next one, or continues the one that an earlier process left, and reports its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from pydantic import ValidationError

from bot.agents.registry import make_agent
from bot.campaign.engine import Engine
from bot.campaign.journal import Journal
from bot.campaign.local import Bench, LocalEvaluation
from bot.campaign.orders import DEFAULT_AGENTS, order_of
from bot.campaign.ports import Watch
from bot.campaign.state import Ending, LeftOut, Order
from bot.campaign.steps import Steps, lessons_of
from bot.campaign.store import Store, write_atomically
from bot.campaign.workflow import CampaignWorkflow
from bot.campaign.worktree import WorkingTree
from bot.evidence.experiment import Experiment
from bot.evidence.notebook import Notebook
from bot.settings import Settings
from runner.errors import FactoryError
from runner.spec.load import LoadedSpec, load_spec
from runner.spec.models import AgentSpec

if TYPE_CHECKING:
    from bot.evidence.lessons import Lesson


@dataclass(frozen=True)
class Asked:
    """What the person asked for. `agents` are names of the spec's lineages, empty for all; None is the spec's or the next value."""

    folder: Path
    state: Path
    seed: int | None = None
    agents: tuple[str, ...] = ()
    candidates: int | None = None
    publish: bool = True


@dataclass(frozen=True)
class Report:
    """A finished campaign and everything that its story needs. `experiments` are the campaign's own, `lessons` the spec's."""

    order: Order
    ending: Ending
    spec: LoadedSpec
    left_out: Sequence[LeftOut]
    experiments: Sequence[Experiment]
    lessons: Sequence[Lesson]
    store: Store


class Session:
    """A process's hold on a spec's campaigns, from `__enter__` on. `close` forgets the campaign once its report was given out."""

    def __init__(self, asked: Asked, settings: Settings, bench: Bench, watch: Watch) -> None:
        self.asked = asked
        self.watch = watch
        self.spec = load_spec(asked.folder)
        self.store = Store(asked.state)
        self.notebook = Notebook(asked.state / "notebook.sqlite")
        evaluation = LocalEvaluation(bench, Journal(self.notebook, self.store, watch), self.store)
        steps = Steps(
            asked.folder,
            self.store,
            self.notebook,
            evaluation,
            WorkingTree(),
            watch,
            lambda agent, gate: make_agent(agent, settings, gate),
        )
        self.workflow = CampaignWorkflow(lambda _: steps)
        self.engine = Engine(asked.state / "campaigns" / self.spec.spec.id, self.workflow)
        self.resumed = False

    @property
    def _current(self) -> Path:
        return self.engine.folder / "current.json"

    def __enter__(self) -> Session:
        self.engine.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.engine.__exit__(kind, error, trace)
        self.notebook.close()

    def order(self) -> Order:
        """The campaign to run: the one that was begun and not reported yet, or else the next."""
        if self._current.is_file():
            self.resumed = True
            try:
                return Order.model_validate_json(self._current.read_bytes())
            except ValidationError as error:
                raise FactoryError(f"{self._current} can't be read; remove it to begin another campaign") from error
        order = self._next()
        write_atomically(self._current, order.model_dump_json().encode())
        return order

    def run(self, order: Order) -> Report:
        """Run a campaign to its end."""
        self.engine.start(order)
        ending = self.engine.wait(order)
        plan = self.workflow.plans.get(order.campaign)
        return Report(
            order=order,
            ending=ending,
            spec=self.spec,
            left_out=plan.left_out if plan is not None else (),
            experiments=self.notebook.experiments(order.spec, campaign=order.campaign),
            lessons=lessons_of(self.notebook.experiments(order.spec, first=order.campaign)),
            store=self.store,
        )

    def close(self) -> None:
        """The campaign was reported: the next run begins the next one."""
        self._current.unlink(missing_ok=True)

    def _next(self) -> Order:
        spec, asked = self.spec.spec, self.asked
        return order_of(
            self.spec,
            self.store,
            self.engine.known() + 1,
            seed=asked.seed,
            budget=spec.budget if asked.candidates is None else spec.budget.model_copy(update={"candidates": asked.candidates}),
            agents=_chosen(spec.agents or DEFAULT_AGENTS, asked.agents),
            publish=asked.publish,
        )


def _chosen(agents: tuple[AgentSpec, ...], names: tuple[str, ...]) -> tuple[AgentSpec, ...]:
    there = {agent.name: agent for agent in agents}
    unknown = [name for name in names if name not in there]
    if unknown:
        raise FactoryError(f"no agent is called {', '.join(unknown)}; the spec has: {', '.join(there)}")
    return tuple(there[name] for name in dict.fromkeys(names)) if names else agents
