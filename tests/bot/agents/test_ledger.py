"""The ledger never lets a campaign spend more than its budget, whoever asks at the same time and whatever dies between."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress

import pytest

from bot.agents.ledger import Ledger, OverBudget, Prices
from runner.errors import FactoryError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "models.sqlite3"


def test_prices_are_for_a_million_tokens():
    assert Prices(2.0, 10.0).cost(1_000_000, 100_000) == 3.0
    assert Prices().cost(1_000_000, 1_000_000) == 0.0


def test_a_reservation_counts_until_the_call_is_settled(path):
    ledger = Ledger(path)
    call = ledger.reserve("c1", "writer", "m", 0.6, 1.0)
    with pytest.raises(OverBudget, match=r"may cost 0\.5000 dollars, and 0\.4000 of the campaign's 1 are left"):
        ledger.reserve("c1", "writer", "m", 0.5, 1.0)
    ledger.reserve("c2", "writer", "m", 0.5, 1.0)
    ledger.settle(call, 100, 10, 0.1)
    assert ledger.spent("c1") == pytest.approx(0.1)
    ledger.reserve("c1", "writer", "m", 0.5, 1.0)
    ledger.close()
    # As after a crash: what was reserved and never settled still counts.
    again = Ledger(path)
    assert again.spent("c1") == pytest.approx(0.6)
    again.close()


def test_lineages_that_ask_at_the_same_time_never_exceed_the_budget(path):
    got = []

    def spend() -> None:
        ledger = Ledger(path)
        for _ in range(20):
            with suppress(OverBudget):
                got.append(ledger.reserve("c1", "writer", "m", 0.125, 1.0))
        ledger.close()

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8
    ledger = Ledger(path)
    assert ledger.spent("c1") == 1.0
    ledger.close()


def test_a_newer_or_damaged_ledger_is_told_and_left_alone(path):
    Ledger(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    with pytest.raises(FactoryError, match="newer version"):
        Ledger(path)
    path.write_bytes(b"no database at all, only some text" * 100)
    with pytest.raises(FactoryError, match="can't be used"):
        Ledger(path)
    assert path.read_bytes().startswith(b"no database")
