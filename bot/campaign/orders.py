"""Makes a campaign's order: what is asked for, fixed when the campaign begins."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime

from bot.campaign.state import Order
from bot.campaign.store import Store
from runner.candidate import read_candidate
from runner.spec.load import LoadedSpec
from runner.spec.models import AgentSpec, Budget

# What works on a spec that names no agents.
DEFAULT_AGENTS = (
    AgentSpec(name="tpe", kind="search", strategy="tpe"),
    AgentSpec(name="local", kind="search", strategy="local"),
)


def hosted_order(spec: LoadedSpec, store: Store, number: int, commit: str, submission: int | None = None) -> Order:
    """The `number`th campaign on a spec of this commit of the default branch; with a `submission` it is about that pull request alone."""
    if submission is None:
        return order_of(spec, store, number, commit=commit)
    budget = spec.spec.budget.model_copy(update={"rounds": 1})
    return order_of(spec, store, number, commit=commit, submission=submission, agents=(), budget=budget)


def order_of(
    spec: LoadedSpec,
    store: Store,
    number: int,
    *,
    seed: int | None = None,
    budget: Budget | None = None,
    agents: Sequence[AgentSpec] | None = None,
    publish: bool = True,
    commit: str = "",
    submission: int | None = None,
) -> Order:
    """The `number`th campaign on a spec, whose champion is kept in the store. What is not given is the spec's own.

    Raises `FactoryError` where the spec's kernel can't be read.
    """
    champion = read_candidate(spec.folder / "kernel", spec.spec.policy)
    drawn = seed if seed is not None else number
    name = f"{spec.spec.id}/{spec.spec_hash}/{champion.tree}/{number}/{drawn}"
    return Order(
        campaign=f"{spec.spec.id}-{number}-{hashlib.sha256(name.encode()).hexdigest()[:8]}",
        number=number,
        spec=spec.spec.id,
        spec_hash=spec.spec_hash,
        champion=store.put_candidate(champion),
        seed=drawn,
        accept=spec.spec.accept,
        budget=budget if budget is not None else spec.spec.budget,
        agents=tuple(agents if agents is not None else spec.spec.agents or DEFAULT_AGENTS),
        publish=publish,
        started=datetime.now(UTC).isoformat(timespec="milliseconds"),
        commit=commit,
        submission=submission,
    )
