"""The ledger of what models cost: a SQLite file to which every call is written before it is made, so that no crash forgets one."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runner.errors import FactoryError

BUSY_SECONDS = 30.0
SCHEMA_VERSION = 1

_TABLE = """CREATE TABLE IF NOT EXISTS calls (
    id INTEGER PRIMARY KEY,
    campaign TEXT NOT NULL,
    agent TEXT NOT NULL,
    model TEXT NOT NULL,
    reserved_usd REAL NOT NULL,
    usd REAL,
    input_tokens INTEGER,
    output_tokens INTEGER
) STRICT"""


@dataclass(frozen=True)
class Prices:
    """Dollars for a million tokens read and written; both 0 for a server of one's own."""

    input: float = 0.0
    output: float = 0.0

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        """What a call costs, in dollars."""
        return (self.input * input_tokens + self.output * output_tokens) / 1e6


class OverBudget(FactoryError):
    """A call could cost more than the campaign has left."""


class Ledger:
    """Every model call of every campaign of this machine, in one file that several processes may use."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self._lock = threading.RLock()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise FactoryError(f"{self.path}: the ledger of model calls can't be opened: {error}") from error
        try:
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        with self._using() as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > SCHEMA_VERSION:
                raise FactoryError(f"{self.path}: the ledger was written by a newer version; update kernel-factory")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(_TABLE)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def reserve(self, campaign: str, agent: str, model: str, usd: float, budget: float) -> int:
        """Write down a call that may cost up to `usd`, and return its number. `OverBudget` when the campaign has less left."""
        with self._using() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                left = budget - _spent(connection, campaign)
                if usd > max(0.0, left):
                    raise OverBudget(f"a call may cost {usd:.4f} dollars, and {max(0.0, left):.4f} of the campaign's {budget:g} are left")
                columns = "(campaign, agent, model, reserved_usd)"
                cursor = connection.execute(f"INSERT INTO calls {columns} VALUES (?, ?, ?, ?)", (campaign, agent, model, usd))
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def settle(self, call: int, input_tokens: int, output_tokens: int, usd: float) -> None:
        """Write down what a call really took. A call that is never settled counts with what was reserved for it."""
        with self._using() as connection:
            query = "UPDATE calls SET input_tokens = ?, output_tokens = ?, usd = ? WHERE id = ?"
            connection.execute(query, (input_tokens, output_tokens, usd, call))

    def spent(self, campaign: str) -> float:
        """What a campaign's calls cost so far, in dollars."""
        with self._using() as connection:
            return _spent(connection, campaign)

    def tokens(self, campaign: str) -> tuple[int, int]:
        """How many tokens a campaign's calls read and wrote."""
        query = "SELECT coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0) FROM calls WHERE campaign = ?"
        with self._using() as connection:
            read, written = connection.execute(query, (campaign,)).fetchone()
        return int(read), int(written)

    def close(self) -> None:
        """Close the file; safe to call twice."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._connection
            except sqlite3.Error as error:
                raise FactoryError(f"{self.path}: the ledger of model calls can't be used: {error}; move it aside") from error


def _spent(connection: sqlite3.Connection, campaign: str) -> float:
    query = "SELECT coalesce(sum(coalesce(usd, reserved_usd)), 0.0) FROM calls WHERE campaign = ?"
    return float(connection.execute(query, (campaign,)).fetchone()[0])
