"""One model behind any server that speaks OpenAI's chat completions: asks, counts what it costs, and says clearly what went wrong."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field, ValidationError

from bot.agents.ledger import Ledger, Prices
from runner.errors import FactoryError

if TYPE_CHECKING:
    from openai import OpenAI

# The roles and the server's own template add tokens that no text of ours shows.
TEMPLATE_TOKENS = 1000
RETRIES = 2
LONGEST_WAIT_SECONDS = 60.0
MAX_ANSWER_CHARACTERS = 4_000_000
LEVELS = 3  # how many ways of asking `_options` knows


class ChatError(FactoryError):
    """The model gave no usable answer: the server failed, refused, or cut it."""


@dataclass(frozen=True)
class Message:
    """One turn of a conversation."""

    role: str
    content: str


@dataclass(frozen=True)
class Purse:
    """On whose account a call is made: a campaign's lineage, and the dollars that the whole campaign may spend."""

    campaign: str
    agent: str
    budget_usd: float


class ChatModel:
    """A model by name behind a base URL (with its `/v1`). Nothing is sent before the first question."""

    def __init__(
        self, url: str, name: str, key: str | None, ledger: Ledger, *, prices: Prices, timeout_seconds: float, max_tokens: int
    ) -> None:
        self.url = url
        self.name = name
        self.max_tokens = max_tokens
        self.ledger = ledger
        self.prices = prices
        self._client = _client(url, key, timeout_seconds)
        # How much of the protocol the server understands, learnt from its refusals: see `_options`.
        self._level = 0

    def ask(self, messages: Sequence[Message], schema: Mapping[str, Any], purse: Purse, *, seed: int) -> str:
        """The model's answer as text, asked to be JSON of `schema`. Raises `ChatError`, or `OverBudget` before anything is sent.

        Overload and dropped connections are tried again twice, after the time that the server asks for.
        """
        # No tokenizer makes more tokens of a text than it has bytes, so the reservation is never too small.
        most = sum(len(message.content.encode()) for message in messages) + TEMPLATE_TOKENS
        reserved = self.prices.cost(most, self.max_tokens)
        call = self.ledger.reserve(purse.campaign, purse.agent, self.name, reserved, purse.budget_usd)
        reply = self._reply(self._complete(messages, schema, seed, call))
        if reply.usage is not None:
            read, written = reply.usage.prompt_tokens, reply.usage.completion_tokens
            self.ledger.settle(call, read, written, self.prices.cost(read, written))
        return _text(reply)

    def _complete(self, messages: Sequence[Message], schema: Mapping[str, Any], seed: int, call: int) -> object:
        """One answered call. Where the server answered with an error, nothing is billed; after a timeout something may be."""
        import openai

        conversation: Any = [{"role": message.role, "content": message.content} for message in messages]
        refusal, failures = "", 0
        while True:
            options = _options(self._level, schema, seed, self.max_tokens)
            try:
                return self._client.chat.completions.create(model=self.name, messages=conversation, stream=False, **options)
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                refusal = refusal or _said(error)
                self._level += 1
                if self._level == LEVELS:
                    self._level = 0
                    self.ledger.settle(call, 0, 0, 0.0)
                    raise ChatError(f"{self._where} refused the request: {refusal}") from error
            except openai.APITimeoutError as error:
                raise ChatError(f"{self._where} gave no answer in time") from error
            except (openai.RateLimitError, openai.InternalServerError, openai.APIConnectionError) as error:
                failures += 1
                if failures > RETRIES:
                    self.ledger.settle(call, 0, 0, 0.0)
                    raise ChatError(f"{self._where} {_failure(error)}") from error
                time.sleep(_wait(error, failures))
            except openai.APIStatusError as error:
                self.ledger.settle(call, 0, 0, 0.0)
                raise ChatError(f"{self._where} {_failure(error)}") from error
            except (openai.OpenAIError, ValueError) as error:
                raise ChatError(f"{self._where} answered with what is not a chat completion: {_said(error)}") from error

    def _reply(self, completion: object) -> _Reply:
        # The client hands on whatever the server sent, and text where it was no JSON.
        data = completion.model_dump(warnings=False) if isinstance(completion, BaseModel) else completion
        try:
            return _Reply.model_validate(data)
        except ValidationError as error:
            place = ".".join(str(part) for part in error.errors()[0]["loc"]) or "body"
            raise ChatError(f"{self._where} answered with what is not a chat completion: {place}") from error

    @property
    def _where(self) -> str:
        return f"the model server {self.url}"


def _options(level: int, schema: Mapping[str, Any], seed: int, max_tokens: int) -> dict[str, Any]:
    """What is asked besides the messages. Servers understand different parts of the protocol: all of it; without a schema for
    the answer; or with the newer name of the length limit and nothing else."""
    if level == 2:
        return {"max_completion_tokens": max_tokens}
    options: dict[str, Any] = {"max_tokens": max_tokens, "seed": seed}
    if level == 0:
        answer = {"name": "answer", "schema": dict(schema), "strict": False}
        options["response_format"] = {"type": "json_schema", "json_schema": answer}
    return options


def _client(url: str, key: str | None, timeout_seconds: float) -> OpenAI:
    try:
        import openai
    except ImportError as error:
        raise FactoryError("a model server is configured, but `openai` is not installed: pip install 'kernel-factory[models]'") from error
    # A server without keys still gets the header; without `key` the client would look for one in the environment and refuse.
    client = openai.OpenAI(base_url=url, api_key=key or "none", timeout=timeout_seconds, max_retries=0)
    # What the environment says about OpenAI's own service is not for another server.
    client.organization = None
    client.project = None
    return client


class _Usage(BaseModel):
    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)


class _Content(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Content
    finish_reason: str | None = None


class _Reply(BaseModel):
    """The part of a chat completion that is used."""

    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None


def _text(reply: _Reply) -> str:
    choice = reply.choices[0]
    if choice.finish_reason == "length":
        raise ChatError("the model's answer was cut at the limit of tokens; raise KERNEL_FACTORY_MODEL_MAX_TOKENS")
    # A lone surrogate, which JSON can carry, is no text that could be written anywhere.
    text = (choice.message.content or "").encode("utf-8", "replace").decode()
    if not text.strip():
        raise ChatError("the model's answer is empty")
    if len(text) > MAX_ANSWER_CHARACTERS:
        raise ChatError(f"the model's answer is longer than {MAX_ANSWER_CHARACTERS} characters")
    return text


def _failure(error: Any) -> str:
    status = getattr(error, "status_code", None)
    return f"answered {status}: {_said(error)}" if status is not None else f"can't be reached: {_said(error.__cause__ or error)}"


def _wait(error: Any, failures: int) -> float:
    """Seconds before the next try: what the server asks for, within bounds, else half a second, doubled each time."""
    response = getattr(error, "response", None)
    asked = response.headers.get("retry-after", "") if response is not None else ""
    if asked.isdecimal():
        return min(float(asked), LONGEST_WAIT_SECONDS)
    return 0.5 * 2.0 ** (failures - 1)


def _said(error: Any) -> str:
    """What the server said, on one line and cut."""
    return " ".join(str(getattr(error, "message", error)).split())[:300]
