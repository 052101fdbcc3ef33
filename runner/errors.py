"""Expected failures: what a person can mend. Anything else that is raised is a defect of this project."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Fault:
    """One thing wrong in one file, at a place (both counted from 1) and with what is allowed instead."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}"


class FactoryError(Exception):
    """An expected failure, told to the person in one message; the commands print it and exit with status 2."""


class FaultsError(FactoryError):
    """A file that a person wrote has faults; all of them are carried, in the order of their places."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(sorted(faults))
        super().__init__("\n".join(str(fault) for fault in self.faults))
