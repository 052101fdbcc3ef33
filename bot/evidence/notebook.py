"""The notebook: a SQLite file that keeps every experiment of every campaign on a machine, failed ones too, and what people said.

Experiments and remarks are only ever added. Several processes and threads may use one file at a time (write-ahead log, short
transactions). Whatever is wrong with the file is told as a `FactoryError`; the file itself is then left as it was found.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from bot.evidence import jsonlines
from bot.evidence.experiment import Experiment
from bot.evidence.remark import Remark
from bot.evidence.space import comparable, trial_of
from runner.errors import FactoryError
from runner.tuning import Trial

KeptT = TypeVar("KeptT", bound=BaseModel)
SCHEMA_VERSION = 1
APPLICATION_ID = 0x4B464E42  # "KFNB": tells the notebook from any other SQLite file.
BUSY_SECONDS = 30.0
_REMEDY = "Move the file aside (keep its -wal file beside it) to start a new notebook, or restore a copy"

_TABLES = (
    """CREATE TABLE experiments (
        id TEXT PRIMARY KEY,
        campaign TEXT NOT NULL,
        spec TEXT NOT NULL,
        round INTEGER NOT NULL,
        agent TEXT NOT NULL,
        idx INTEGER NOT NULL,
        body TEXT NOT NULL
    ) STRICT""",
    "CREATE INDEX by_spec ON experiments (spec, campaign, round, agent, idx)",
    "CREATE INDEX by_campaign ON experiments (campaign)",
)
# Added later: a notebook from before gets it when it is opened.
_REMARKS = """CREATE TABLE IF NOT EXISTS remarks (
    campaign TEXT NOT NULL,
    review INTEGER NOT NULL,
    spec TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (campaign, review)
) STRICT"""
_ORDER = "campaign, round, agent, idx, id"


class Notebook:
    """Every experiment by its id. Opening creates the file; `FactoryError` when the file is damaged, newer, or another program's."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self._lock = threading.RLock()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise FactoryError(f"{self.path}: the notebook can't be opened: {error}") from error
        try:
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def record(self, experiment: Experiment) -> bool:
        """Add an experiment. Returns False when exactly this one is there already; `FactoryError` when another one has its id."""
        with self._transaction() as connection:
            return self._insert(connection, experiment)

    def get(self, identifier: str) -> Experiment | None:
        """The experiment with this id, or None."""
        rows = self._rows("SELECT body FROM experiments WHERE id = ?", (identifier,))
        return rows[0] if rows else None

    def experiments(self, spec: str, *, campaign: str | None = None, first: str | None = None) -> list[Experiment]:
        """The experiments on a spec (its id), ordered by campaign, round, agent and index whatever order they were recorded in.

        `campaign` keeps this campaign's only; `first` puts this campaign's before all others.
        """
        if campaign is not None:
            return self._rows(f"SELECT body FROM experiments WHERE spec = ? AND campaign = ? ORDER BY {_ORDER}", (spec, campaign))
        return self._rows(f"SELECT body FROM experiments WHERE spec = ? ORDER BY campaign != ?, {_ORDER}", (spec, first or ""))

    def count(self, campaign: str) -> int:
        """How many experiments a campaign has recorded, of either tier."""
        with self._reading() as connection:
            (number,) = connection.execute("SELECT count(*) FROM experiments WHERE campaign = ?", (campaign,)).fetchone()
        return int(number)

    def trials(self, spec: str, spec_hash: str, device: str, source: str) -> list[Trial]:
        """The screened points of one search space on one device, over all campaigns: what a tuner may be warm-started with."""
        return [trial_of(experiment) for experiment in comparable(self.experiments(spec), spec_hash, device, source)]

    def remark(self, remark: Remark) -> None:
        """Add what a person said; the first text of a review counts, however often it is read."""
        values = (remark.campaign, remark.review, remark.spec, remark.model_dump_json())
        with self._transaction() as connection:
            connection.execute("INSERT INTO remarks VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", values)

    def remarks(self, spec: str) -> list[Remark]:
        """What people said of a spec's kernels, oldest first."""
        with self._reading() as connection:
            rows = connection.execute("SELECT body FROM remarks WHERE spec = ? ORDER BY rowid", (spec,)).fetchall()
        return [self._parse(body, Remark) for (body,) in rows]

    def export(self, path: Path) -> int:
        """Write every experiment to `path` as JSON lines (replacing the file only when all is written). Returns how many."""
        experiments = self._rows(f"SELECT body FROM experiments ORDER BY {_ORDER}", ())
        jsonlines.write(path, experiments)
        return len(experiments)

    def import_(self, path: Path) -> int:
        """Add the experiments of an exported file, all or none. Returns how many were new; `FactoryError` names the faulty line."""
        experiments = jsonlines.read(path)
        with self._transaction() as connection:
            return sum(self._insert(connection, experiment) for experiment in experiments)

    def close(self) -> None:
        """Close the file; safe to call twice."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Notebook:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _insert(self, connection: sqlite3.Connection, experiment: Experiment) -> bool:
        body = experiment.model_dump_json()
        values = (
            experiment.id,
            experiment.campaign,
            experiment.spec,
            experiment.round,
            experiment.agent,
            experiment.index,
            body,
        )
        cursor = connection.execute("INSERT INTO experiments VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING", values)
        if cursor.rowcount == 1:
            return True
        (kept,) = connection.execute("SELECT body FROM experiments WHERE id = ?", (experiment.id,)).fetchone()
        if self._parse(kept, Experiment) != experiment:
            raise FactoryError(f"{self.path}: another experiment is already recorded as {experiment.id}; it was kept")
        return False

    def _prepare(self) -> None:
        with self._reading() as connection:
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
        if tables and application != APPLICATION_ID:
            raise FactoryError(f"{self.path}: this SQLite file is not a notebook; it was left alone. Name another state folder")
        if version > SCHEMA_VERSION:
            raise FactoryError(
                f"{self.path}: the notebook was written by a newer version (schema {version}, this one knows {SCHEMA_VERSION}); "
                "it was left alone. Update kernel-factory, or name another state folder"
            )
        with self._reading() as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            # FULL: an experiment that was reported as recorded survives a power cut too.
            connection.execute("PRAGMA synchronous = FULL")
            damage = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if damage != "ok":
            raise FactoryError(f"{self.path}: the notebook is damaged ({damage}); it was left alone. {_REMEDY}")
        with self._transaction() as connection:
            # Read again inside the transaction: another process may have made the tables meanwhile.
            if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                for statement in _TABLES:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            connection.execute(_REMARKS)

    def _rows(self, query: str, values: Sequence[str]) -> list[Experiment]:
        with self._reading() as connection:
            bodies = [row[0] for row in connection.execute(query, values)]
        return [self._parse(body, Experiment) for body in bodies]

    def _parse(self, body: str, kind: type[KeptT]) -> KeptT:
        try:
            return kind.model_validate_json(body)
        except ValidationError as error:
            told = f"{self.path}: an entry of the notebook can't be read as {kind.__name__.lower()} ({error.error_count()} faults)"
            raise FactoryError(f"{told}. {_REMEDY}") from error

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._connection
            except sqlite3.Error as error:
                raise FactoryError(f"{self.path}: the notebook can't be used: {error}. {_REMEDY}") from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._reading() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
