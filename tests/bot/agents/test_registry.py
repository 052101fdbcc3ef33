"""A spec's `agents` entry becomes the agent that works on that lineage, or says what is missing for it."""

from __future__ import annotations

import pytest

from bot.agents.author import AuthorAgent
from bot.agents.registry import LEDGER, make_agent
from bot.agents.search import SearchAgent
from bot.settings import Settings
from runner.errors import FactoryError
from runner.spec.models import AgentSpec


def gate(candidate):
    return None


@pytest.mark.parametrize("strategy", ["tpe", "local", "random"])
def test_search_needs_nothing(strategy):
    agent = make_agent(AgentSpec(name="one", kind="search", strategy=strategy), Settings(), gate)
    assert isinstance(agent, SearchAgent)
    assert (agent.name, agent.strategy, agent.note) == ("one", strategy, "")


@pytest.mark.parametrize("missing", ["KERNEL_FACTORY_MODEL_URL", "KERNEL_FACTORY_MODEL_NAME"])
def test_an_author_without_a_server_is_off(missing, monkeypatch, tmp_path):
    for name in ("KERNEL_FACTORY_MODEL_URL", "KERNEL_FACTORY_MODEL_NAME"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/v1")
    monkeypatch.delenv(missing)
    with pytest.raises(FactoryError, match="no model server is configured; set KERNEL_FACTORY_MODEL_URL"):
        make_agent(AgentSpec(name="writer", kind="author"), Settings(state=tmp_path), gate)
    assert list(tmp_path.iterdir()) == []


def test_an_author_is_set_up_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("KERNEL_FACTORY_MODEL_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("KERNEL_FACTORY_MODEL_NAME", "a-model")
    monkeypatch.setenv("KERNEL_FACTORY_MODEL_KEY", "secret")
    monkeypatch.setenv("KERNEL_FACTORY_MODEL_USD_OUTPUT", "12.5")
    agent = make_agent(AgentSpec(name="writer", kind="author"), Settings(state=tmp_path), gate)
    assert isinstance(agent, AuthorAgent)
    assert (agent.name, agent.model.name, agent.model.url) == ("writer", "a-model", "http://127.0.0.1:9/v1")
    assert agent.model.prices.output == 12.5
    assert (tmp_path / LEDGER).exists()
    assert "secret" not in repr(vars(agent.model))
    agent.model.ledger.close()
