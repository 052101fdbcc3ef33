"""Experiments as JSON lines: how a notebook travels to another machine, and how data is kept beside a test."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from bot.evidence.experiment import Experiment
from runner.errors import FactoryError

HEADER = {"schema": "kernel-notebook/v1"}


def write(path: Path, experiments: Iterable[Experiment]) -> None:
    """Write a header line and one line an experiment; `path` is replaced only when all of it is on the disk."""
    path = path.resolve()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(json.dumps(HEADER) + "\n")
                file.writelines(experiment.model_dump_json() + "\n" for experiment in experiments)
                file.flush()
                os.fsync(file.fileno())
            temporary.chmod(0o644)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise FactoryError(f"{path}: the experiments can't be written: {error.strerror or error}") from error


def read(path: Path) -> list[Experiment]:
    """Read an exported file, in its order. `FactoryError` names the line that is not an experiment."""
    try:
        # Not splitlines(): a message may hold other line separators.
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise FactoryError(f"{path}: the experiments can't be read: {error}") from error
    if _object(path, 1, lines[0]) != HEADER:
        raise FactoryError(f'{path}:1:1: the first line must be {json.dumps(HEADER)}, as "export" writes it')
    experiments = []
    for number, line in enumerate(lines[1:], start=2):
        try:
            experiments.append(Experiment.model_validate_json(line))
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in fault["loc"]) or "line"
            raise FactoryError(f"{path}:{number}:1: not an experiment: {place}: {fault['msg']}") from error
    return experiments


def _object(path: Path, number: int, line: str) -> object:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise FactoryError(f"{path}:{number}:{error.colno}: not JSON: {error.msg}") from error
