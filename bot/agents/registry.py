"""Which agents there are: from a spec's `agents` entry to the agent that works on that lineage."""

from __future__ import annotations

from collections.abc import Callable

from bot.agents.protocol import Agent
from bot.agents.search import SearchAgent
from bot.settings import Settings
from runner.candidate import Candidate
from runner.errors import FactoryError
from runner.spec.models import AgentSpec

Gate = Callable[[Candidate], str | None]


def make_agent(agent: AgentSpec, settings: Settings, gate: Gate | None = None) -> Agent:
    """The agent for one lineage. `gate` says what policy or build have against a candidate, or None; only `author` asks it."""
    if agent.kind == "search":
        return SearchAgent(agent.name, agent.strategy)
    raise FactoryError(f"agent {agent.name}: no model server is configured")
