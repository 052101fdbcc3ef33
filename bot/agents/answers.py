"""What a model answers, read strictly: JSON of a known shape, and nothing is guessed. A code fence around it is forgiven."""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runner.errors import FactoryError


class AnswerError(FactoryError):
    """The answer is not the JSON that was asked for; the message says where, so that the model can mend it."""


class Idea(BaseModel):
    """The strategist's answer."""

    model_config = ConfigDict(extra="forbid", strict=True)

    hypothesis: str = Field(min_length=1, max_length=2000)


class Draft(BaseModel):
    """The author's and the repairer's answer: files by name, and why they should be faster."""

    model_config = ConfigDict(extra="forbid", strict=True)

    hypothesis: str = Field(min_length=1, max_length=2000)
    files: dict[str, str] = Field(min_length=1, max_length=64)


AnswerT = TypeVar("AnswerT", bound=BaseModel)
# Reasoning models on local servers put their thoughts before the answer.
_THOUGHTS = re.compile(r"^\s*<think>.*?</think>", re.DOTALL)
_FENCED = re.compile(r"^```[A-Za-z0-9]*[ \t]*\n(.*?)\n[ \t]*```$", re.DOTALL)


def parse(text: str, model: type[AnswerT]) -> AnswerT:
    """The answer as `model`. Raises `AnswerError` with the place of the first fault."""
    body = _THOUGHTS.sub("", text, count=1).strip()
    fenced = _FENCED.match(body)
    if fenced:
        body = fenced.group(1).strip()
    try:
        data = json.loads(body, object_pairs_hook=_unique, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise AnswerError(f"not JSON: line {error.lineno}, column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise AnswerError("not JSON of this shape: it is nested too deeply") from error
    try:
        return model.model_validate(data)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in fault["loc"])[:120] or "the answer"
        raise AnswerError(f"{place}: {fault['msg']}") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise AnswerError(f"the key {key[:80]!r} stands there twice")
        found[key] = value
    return found


def _refuse(constant: str) -> Any:
    raise AnswerError(f"{constant} is not JSON")
