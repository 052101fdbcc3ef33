"""What was tried for each batch of dispatched runs, kept in the state folder: `batches/<name>.json`."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from bot.campaign.dispatched import ROOT, Ticket
from bot.campaign.state import State
from bot.campaign.store import Store, write_atomically
from runner.errors import FactoryError


class Batch(State):
    """What was tried for a batch so far; `finished` are the keys of entries of which nothing more will come."""

    tickets: tuple[Ticket, ...] = ()
    finished: tuple[str, ...] = ()
    done: bool = False

    @property
    def current(self) -> Ticket | None:
        """The ticket of which something may still come."""
        return self.tickets[-1] if self.tickets and not self.tickets[-1].lost else None

    def with_ticket(self, ticket: Ticket) -> Batch:
        """The batch with its last ticket replaced."""
        return self.model_copy(update={"tickets": (*self.tickets[:-1], ticket)})


class Batches:
    """The batches of one store."""

    def __init__(self, store: Store) -> None:
        self.folder = store.folder / "batches"

    def load(self, name: str) -> Batch:
        """A batch as it was kept; an empty one where it is new."""
        path = self.folder / f"{name}.json"
        return _read(path) if path.is_file() else Batch()

    def save(self, name: str, batch: Batch) -> Batch:
        """Keep a batch; returns it."""
        write_atomically(self.folder / f"{name}.json", batch.model_dump_json().encode())
        return batch


def tickets_of(store: Store, campaign: str) -> list[Ticket]:
    """The tickets of a campaign's runs, in the order in which these were started; those without a run last."""
    tickets = [ticket for path in Batches(store).folder.glob("*.json") for ticket in _read(path).tickets]
    mine = [ticket for ticket in tickets if ticket.ref.startswith(f"{ROOT}/{campaign}/")]
    return sorted(mine, key=lambda ticket: (ticket.run is None, ticket.run or 0))


def _read(path: Path) -> Batch:
    try:
        return Batch.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise FactoryError(f"{path} can't be read; remove it to have its batch evaluated again") from error
