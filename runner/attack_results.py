"""Edits a true result, as one who wants to look better would, and sees whether the judge still takes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from runner.attack_cases import CaseFile, Edit
from runner.candidate import read_candidate
from runner.decision import decide
from runner.inputs import derive
from runner.measure import geomean_of
from runner.reproduce import identity_differences, own_differences, spec_differences
from runner.result import Result
from runner.spec.load import LoadedSpec


def outcome_of_edit(honest: Result, case: CaseFile, loaded: LoadedSpec, kernel: Path) -> tuple[str, str]:
    """The outcome and message for a copy of `honest`, a result about the candidate in `kernel`, that is edited as the case says:
    `refused` when it is seen to be no result, or not to agree with itself, the spec or the kernel; else the verdict that it claims."""
    data = honest.model_dump(mode="json", by_alias=True)
    for edit in case.edit:
        _apply(data, edit)
    try:
        edited = Result.model_validate(data)
        if case.recompute:
            accept = loaded.spec.accept
            geomean = geomean_of(edited.rows, accept.confidence, derive(edited.seed, "bootstrap"))
            verdict = decide(accept, edited.rows, geomean)[0]
            edited = edited.model_copy(update={"geomean": geomean, "verdict": verdict})
    except ValidationError as error:
        return "refused", f"not a result: {error.errors()[0]['msg']}"
    candidate = read_candidate(kernel, loaded.spec.policy)
    differences = identity_differences(edited, loaded, candidate) or own_differences(edited, loaded.spec.accept)
    differences = differences or spec_differences(edited, loaded, candidate)
    if differences:
        return "refused", "; ".join(differences)
    return edited.verdict.value, "taken for true"


def _apply(data: Any, edit: Edit) -> None:
    """Change `data` in place."""
    *path, last = edit.at
    holder = _at(data, path)
    if edit.drop:
        del holder[last]
    else:
        holder[last] = _at(data, edit.copy_) if edit.copy_ else edit.value


def _at(data: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        data = data[step]
    return data
