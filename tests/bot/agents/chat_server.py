"""A server on loopback that speaks OpenAI's chat completions and answers what a test has written down for it."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response


@dataclass
class Answer:
    """What the server sends back for one request, after `delay` seconds."""

    status: int = 200
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0


@dataclass
class Asked:
    """One request as the server got it."""

    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def system(self) -> str:
        return str(self.body["messages"][0]["content"])

    @property
    def user(self) -> str:
        return str(self.body["messages"][-1]["content"])


def says(content: Any, *, prompt_tokens: int = 1000, completion_tokens: int = 100, finish_reason: str = "stop") -> Answer:
    """A well-formed completion; what is not text is sent as JSON in the message."""
    text = content if isinstance(content, str) else json.dumps(content)
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens, "total_tokens": prompt_tokens + completion_tokens}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish_reason, "logprobs": None}
    return completion({"choices": [choice], "usage": usage})


def completion(parts: dict[str, Any]) -> Answer:
    """A completion with these parts, whatever they are."""
    return Answer(body=json.dumps({"id": "chatcmpl-1", "object": "chat.completion", "created": 1764500000, "model": "a-model", **parts}))


def fails(status: int, message: str, **headers: str) -> Answer:
    """An error in OpenAI's form."""
    error = {"error": {"message": message, "type": "server_error", "param": None, "code": None}}
    return Answer(status, json.dumps(error), {name.replace("_", "-"): value for name, value in headers.items()})


@dataclass
class ChatServer:
    """The running server: its base URL, what it will answer (in order), and what it was asked."""

    url: str = ""
    answers: list[Answer] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)

    def will(self, *answers: Answer) -> None:
        self.answers += answers


@contextmanager
def chat_server() -> Iterator[ChatServer]:
    """Run the server in a thread until the block ends."""
    state = ChatServer()
    app = FastAPI()

    @app.post("/v1/chat/completions")
    async def complete(request: Request) -> Response:
        body = await request.json()
        state.asked.append(Asked(dict(request.headers), body))
        faulty = not body.get("model") or body.get("stream") or not body.get("messages")
        answer = fails(400, "not a request that this server understands") if faulty else state.answers.pop(0)
        if answer.delay:
            await asyncio.sleep(answer.delay)
        kind = "application/json" if answer.body.startswith("{") else "text/html"
        return Response(answer.body, answer.status, answer.headers, media_type=kind)

    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", ws="none", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        state.url = f"http://127.0.0.1:{port}/v1"
        yield state
    finally:
        server.should_exit = True
        thread.join()
