"""Edits a true result, as one who wants to look better would, and sees whether the judge still takes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from runner.attack_cases import Edit
from runner.candidate import read_candidate
from runner.reproduce import identity_differences, own_differences
from runner.result import Result
from runner.spec.load import LoadedSpec


def outcome_of_edit(honest: Result, edits: Sequence[Edit], loaded: LoadedSpec, kernel: Path) -> tuple[str, str]:
    """The outcome and message for an edited copy of `honest`, a result about the candidate in `kernel`: `refused` when it is seen
    to be no result, or not to agree with itself or the kernel; else the verdict that it claims."""
    data = honest.model_dump(mode="json", by_alias=True)
    for edit in edits:
        _apply(data, edit)
    try:
        edited = Result.model_validate(data)
    except ValidationError as error:
        return "refused", f"not a result: {error.errors()[0]['msg']}"
    candidate = read_candidate(kernel, loaded.spec.policy)
    differences = (*identity_differences(edited, loaded, candidate), *own_differences(edited, loaded.spec.accept))
    if differences:
        return "refused", "; ".join(differences)
    return edited.verdict.value, "taken for true"


def _apply(data: Any, edit: Edit) -> None:
    """Change `data` in place."""
    *path, last = edit.at
    for step in path:
        data = data[step]
    if edit.drop:
        del data[last]
    else:
        data[last] = edit.value
