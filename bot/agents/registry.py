"""Which agents there are: from a spec's `agents` entry to the agent that works on that lineage."""

from __future__ import annotations

from bot.agents.author import AuthorAgent, Gate
from bot.agents.chat import ChatModel
from bot.agents.ledger import Ledger, Prices
from bot.agents.protocol import Agent
from bot.agents.search import SearchAgent
from bot.settings import Settings
from runner.errors import FactoryError
from runner.spec.models import AgentSpec
from runner.state import state_folder

LEDGER = "models.sqlite3"


def make_agent(agent: AgentSpec, settings: Settings, gate: Gate) -> Agent:
    """The agent for one lineage. `gate` says what policy or build have against a candidate, or None; only `author` asks it.

    `FactoryError` when the agent can't work here: an `author` without a model server.
    """
    if agent.kind == "search":
        return SearchAgent(agent.name, agent.strategy)
    if settings.model_url is None or settings.model_name is None:
        raise FactoryError(
            "no model server is configured; set KERNEL_FACTORY_MODEL_URL (a base URL with its /v1) and KERNEL_FACTORY_MODEL_NAME"
        )
    model = ChatModel(
        settings.model_url,
        settings.model_name,
        settings.model_key.get_secret_value() if settings.model_key is not None else None,
        Ledger((settings.state or state_folder()) / LEDGER),
        prices=Prices(settings.model_usd_input, settings.model_usd_output),
        timeout_seconds=settings.model_timeout_seconds,
        max_tokens=settings.model_max_tokens,
    )
    return AuthorAgent(agent.name, model, gate)
