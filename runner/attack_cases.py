"""The folders of the adversarial suite: what a case and a control are, and how they are read.

A case is a folder with `case.yaml` and, but for results, `kernel/` (a candidate). A control is a folder with `control.yaml`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from runner.errors import FactoryError, FaultsError
from runner.spec.models import Model
from runner.validation import validate
from runner.yaml_source import read_yaml

Outcome = Literal[
    "policy_violation",
    "build_error",
    "launch_error",
    "timeout",
    "incorrect",
    "implausible",
    "slower",
    "accepted",
    "evaluation_lost",
    "refused",
]
"""A verdict, or `refused`: the spec, or the result, is not taken at all."""

FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.{}-]+(/[A-Za-z0-9_.-]+)?$")]


Choices = Annotated[tuple[str | int | float, ...], Field(min_length=1, strict=False)]


class Plant(Model):
    """What can't be kept in git, made in the copy of `kernel/`: a `link` to a place, a `pipe`, a file to `fill` with `bytes` of
    comment, `many` files by a pattern with `{}` and a `count`, or a YAML file that `nest`s `depth` deep."""

    link: FileName | None = None
    to: str = ""
    pipe: FileName | None = None
    fill: FileName | None = None
    bytes: Annotated[int, Field(ge=0, le=100_000_000)] = 0
    many: FileName | None = None
    count: Annotated[int, Field(ge=0, le=100_000)] = 0
    nest: FileName | None = None
    depth: Annotated[int, Field(ge=0, le=1_000_000)] = 0


class Edit(Model):
    """A change to a true result: the place `at` gets a `value`, or a copy of what is at the place `copy`, or is dropped."""

    at: tuple[str | int, ...] = Field(min_length=1, strict=False)
    value: Any = None
    copy_: tuple[str | int, ...] = Field(default=(), alias="copy", strict=False)
    drop: bool = False


class CaseFile(Model):
    """`case.yaml`. `spec` is the suite's `rmsnorm-small-…` where none is named. `expected` are the outcomes that count as caught; `says`
    is a pattern that the message must then match.

    `vary` maps a text with `{}`, which stands for what is written there now, to a range of integers (`"2..9"`) or a list of
    replacements; a variant draws one for each. `recompute` makes geomean and verdict of an edited result follow from its rows again.
    """

    class_: Annotated[int, Field(ge=1, le=42)] = Field(alias="class")
    title: str
    kind: Literal["candidate", "baseline", "spec", "result"] = "candidate"
    expected: tuple[Outcome, ...] = Field(min_length=1, strict=False)
    says: str = ""
    spec: str = ""
    tier: Literal["screening", "full"] = "full"
    vary: dict[str, str | Choices] = Field(default={})
    plant: tuple[Plant, ...] = Field(default=(), strict=False)
    edit: tuple[Edit, ...] = Field(default=(), strict=False)
    recompute: bool = False


class ControlFile(Model):
    """`control.yaml`: an honest candidate in `kernel/`, or in the folder that `kernel` names from the repository's root."""

    title: str
    spec: str = ""
    tier: Literal["screening", "full"] = "full"
    kernel: str = ""


@dataclass(frozen=True)
class Case:
    """One case: `number` of its class, `name` of its folder, and what `case.yaml` says."""

    folder: Path
    file: CaseFile

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def number(self) -> int:
        return self.file.class_


@dataclass(frozen=True)
class Control:
    """One honest control."""

    folder: Path
    file: ControlFile

    @property
    def name(self) -> str:
        return self.folder.name


def read_cases(suite: Path) -> tuple[Case, ...]:
    """All cases of a suite by name. Raises `FaultsError`, or `FactoryError` when there are none."""
    cases = tuple(Case(path.parent, _read(CaseFile, path)) for path in sorted(suite.glob("*/case.yaml")))
    if not cases:
        raise FactoryError(f"{suite}: no cases (folders with a case.yaml); the suite is part of the project's repository")
    for case in cases:
        if not case.name.startswith(f"{case.number:02d}-"):
            raise FactoryError(f"{case.folder}: the folder of a case of class {case.number} must begin with `{case.number:02d}-`")
    return cases


def read_controls(suite: Path) -> tuple[Control, ...]:
    """All controls of a suite by name. Raises `FaultsError`."""
    return tuple(Control(path.parent, _read(ControlFile, path)) for path in sorted((suite / "controls").glob("*/control.yaml")))


F = TypeVar("F", bound=Model)


def _read(model: type[F], path: Path) -> F:
    source = read_yaml(path.read_bytes(), str(path))
    found, faults = validate(model, source)
    if found is None or source.faults or faults:
        raise FaultsError((*source.faults, *faults))
    return found
