"""What all routes share: who asks, what the request says, pages of lists, errors in GitHub's form, and the log of writes."""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from bot.forge.forge import Forge
from bot.forge.model import Account, Refused, Repository, Write

PREFIX = "/api/v3"


@dataclass(frozen=True)
class Exchange:
    """One request to the API and its answer, for whoever listens. Bodies are JSON, None where there is none."""

    method: str
    path: str
    query: str
    body: Any
    actor: str
    status: int
    answer: Any


def forge_of(request: Request) -> Forge:
    forge: Forge = request.scope["forge"]
    return forge


# What routes depend on is coroutines: none of it waits for anything, and each plain function would be handed to another thread.
async def _forge(request: Request) -> Forge:
    return forge_of(request)


def token_of(request: Request) -> str:
    """The token of a request: `Bearer`, `token`, or the password of `Basic`. Empty without one."""
    kind, _, value = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() == "basic":
        try:
            user, _, password = base64.b64decode(value).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return ""
        return password or user
    return value.strip() if kind.lower() in ("bearer", "token") else ""


async def actor_of(request: Request) -> Account:
    """Who asks; the API answers nobody without a token."""
    token = token_of(request)
    if not token:
        raise Refused(401, "Requires authentication")
    actor = forge_of(request).whose(token)
    request.state.actor = actor.login
    return actor


async def writer_of(actor: Annotated[Account, Depends(actor_of)]) -> Account:
    """Who asks, and may write."""
    if not actor.write:
        raise Refused(403, "Resource not accessible by personal access token")
    return actor


async def bot_of(request: Request, actor: Annotated[Account, Depends(actor_of)]) -> Account:
    """The App: what only Apps may do is refused to everybody else."""
    if not actor.bot:
        raise Refused(403, "You must authenticate via a GitHub App.")
    return actor


async def app_of(request: Request) -> None:
    """The App itself, by its JSON web token."""
    forge_of(request).check_app(token_of(request))
    request.state.actor = "app"


async def repository_of(request: Request, owner: str, name: str) -> Repository:
    return forge_of(request).repository(f"{owner}/{name}")


async def body_of(request: Request) -> dict[str, Any]:
    """The request's JSON object; an empty one without a body."""
    body = await request.body()
    if not body:
        return {}
    try:
        given = json.loads(body)
    except ValueError as error:
        raise Refused(400, "Problems parsing JSON") from error
    if not isinstance(given, dict):
        raise Refused(400, "Body should be a JSON object")
    return given


TheForge = Annotated[Forge, Depends(_forge)]
Actor = Annotated[Account, Depends(actor_of)]
Writer = Annotated[Account, Depends(writer_of)]
Bot = Annotated[Account, Depends(bot_of)]
TheRepository = Annotated[Repository, Depends(repository_of)]
Given = Annotated[dict[str, Any], Depends(body_of)]


def paged(request: Request, items: Sequence[Any], key: str = "") -> JSONResponse:
    """A page of a list, with links to the others; under `key` with its total where GitHub does so."""
    try:
        size = min(max(int(request.query_params.get("per_page", 30)), 1), 100)
        if forge_of(request).faults.take("short_pages", request.url.path) is not None:
            size = 1
        page = max(int(request.query_params.get("page", 1)), 1)
    except ValueError as error:
        raise Refused(422, "page is not a number") from error
    chosen = list(items[(page - 1) * size : page * size])
    links = []
    last = max((len(items) + size - 1) // size, 1)
    for relation, number in (("prev", page - 1), ("next", page + 1), ("first", 1), ("last", last)):
        if 1 <= number <= last and (relation not in ("first", "last") or number != page) and last > 1:
            links.append(f'<{request.url.include_query_params(page=number)}>; rel="{relation}"')
    content = {"total_count": len(items), key: chosen} if key else chosen
    return JSONResponse(content, headers={"Link": ", ".join(links)} if links else {})


async def refused(request: Request, error: Exception) -> Response:
    """An error in GitHub's form."""
    assert isinstance(error, Refused)
    content: dict[str, Any] = {"message": error.message, "documentation_url": "https://docs.github.com/rest", "status": str(error.status)}
    if error.errors:
        content["errors"] = error.errors
    return JSONResponse(content, error.status, headers=error.headers)


async def watched(request: Request, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
    """Every API request: the misbehaviours that were asked for, the limits' headers, the log of writes, and who listens."""
    path, method = request.url.path, request.method
    forge = forge_of(request)
    if not path.startswith(PREFIX):
        # Git, and where artifacts are stored; people's pages are spared.
        return await _other(forge, request, proceed) if ".git/" in path or path.startswith("/storage/") else await proceed(request)
    given = _json(await request.body())
    asked = f"{path}?{request.url.query}" if request.url.query else path
    writes = method not in ("GET", "HEAD")
    error = _fault(forge, asked, method, writes)
    if error is None:
        answer = await proceed(request)
    else:
        answer = _unanswered() if error.status == 502 else await refused(request, error)
    actor = getattr(request.state, "actor", "")
    if writes:
        forge.writes.append(Write(method, path.removeprefix(PREFIX), given, actor, answer.status_code))
        if error is None and answer.status_code < 300 and forge.faults.take("error_after", asked, method) is not None:
            answer = _unanswered()
    if error is None and forge.faults.take("answer_cut", asked, method) is not None:
        answer = _Cut(bytes((await _read(answer)).body), answer.status_code)
    answer.headers.setdefault("X-RateLimit-Limit", "5000")
    answer.headers.setdefault("X-RateLimit-Remaining", "4999")
    answer.headers.setdefault("X-RateLimit-Reset", str(int(time.time()) + 3600))
    answer.headers.setdefault("X-RateLimit-Resource", "core")
    if forge.listeners:
        answer = await _read(answer)
        told = Exchange(method, path.removeprefix(PREFIX), request.url.query, given, actor, answer.status_code, _json(bytes(answer.body)))
        for listener in forge.listeners:
            listener(told)
    return answer


async def _other(forge: Forge, request: Request, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
    """A request beside the API, with the misbehaviours that are for every request."""
    path, method = f"{request.url.path}?{request.url.query}", request.method
    error = _common(forge, path, method)
    if error is not None:
        return _unanswered() if error.status == 502 else Response(error.message, 401, headers={"WWW-Authenticate": 'Basic realm="forge"'})
    answer = await proceed(request)
    if method == "POST" and answer.status_code < 300 and forge.faults.take("error_after", path, method) is not None:
        return _unanswered()
    if forge.faults.take("answer_cut", path, method) is not None:
        return _Cut(bytes((await _read(answer)).body), answer.status_code)
    return answer


def _unanswered() -> Response:
    """What stands before GitHub and could not reach it answers with a page for people."""
    return Response("<!DOCTYPE html><title>Unicorn!</title>", 502, media_type="text/html")


class _Cut(Response):
    """An answer that says how long it is and ends before that; the connection ends with it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": bytes(self.body)[: len(self.body) // 2], "more_body": True})


def _json(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return None


async def _read(answer: Response) -> Response:
    """An answer whose body has been read."""
    if not hasattr(answer, "body_iterator"):
        return answer
    parts = [part async for part in answer.body_iterator]
    read = Response(b"".join(parts), answer.status_code)
    read.raw_headers = answer.raw_headers
    return read


def _fault(forge: Forge, path: str, method: str, writes: bool) -> Refused | None:
    """The misbehaviour that this request meets instead of an answer."""
    take = forge.faults.take
    if "/access_tokens" in path:
        return None
    error = _common(forge, path, method)
    if error is not None:
        return error
    seconds = take("primary_limit", path, method)
    if seconds is not None:
        reset = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(time.time() + seconds))}
        return Refused(403, "API rate limit exceeded for installation ID 1.", headers=reset)
    if writes:
        seconds = take("secondary_limit", path, method)
        if seconds is not None:
            told = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
            return Refused(403, told, headers={"Retry-After": str(max(int(seconds), 1))})
    elif take("not_found", path, method) is not None:
        return Refused(404, "Not Found")
    return None


def _common(forge: Forge, path: str, method: str) -> Refused | None:
    """The misbehaviours that are for every request."""
    take = forge.faults.take
    if take("revoke_tokens", path, method) is not None:
        forge.revoke_installation_tokens()
    if take("expired_token", path, method) is not None:
        return Refused(401, "Bad credentials")
    if take("server_error", path, method) is not None:
        return Refused(502, "Server Error")
    return None
