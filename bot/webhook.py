"""The webhook: takes a signed delivery once, answers at once, and leaves the work to others."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from bot.events import Event, Unreadable, parse

# GitHub sends no larger ones.
MAX_BYTES = 25 << 20
# A forge waits ten seconds for its answer.
READ_SECONDS, CLAIM_SECONDS = 5.0, 4.0
JSON = "application/json"
_GUID = re.compile(r"[A-Za-z0-9-]{1,64}")
# Keeps an event under its delivery's GUID. True when it is new. `TimeoutError` where that takes too long.
Claim = Callable[[str, Event], bool]


def create_app(
    secret: bytes, claim: Claim, repository: str | None = None, campaigns: Callable[[], Sequence[dict[str, Any]]] | None = None
) -> FastAPI:
    """The web application: `POST /webhook` for deliveries, `GET /healthz` for whoever asks whether the bot lives, and where there are
    `campaigns`, `GET /campaigns` for whoever brings `reading` as a bearer token: what it tells is the repository's, and costs requests.

    202 a delivery was kept (or was known, or is of no use), 401 it is not signed with `secret`, 413 too large, 408 it came too slowly,
    415 not sent as JSON, 400 not readable, 503 it could not be kept now: the forge may send it again. Nothing of a delivery is looked at
    before its signature. With a `repository` (`owner/name`) those about others, where the App is installed too, are of no use.
    """
    if not secret:
        raise ValueError("a webhook without a secret would believe anybody")
    app = FastAPI(title="Kernel Factory", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/healthz")
    def healthz() -> dict[str, str]:
        return {"status": "ok"}

    if campaigns is not None:

        @app.get("/campaigns")
        def told(request: Request) -> Any:
            bearer = f"Bearer {reading(secret)}".encode()
            if not hmac.compare_digest(bearer, request.headers.get("Authorization", "").encode("utf-8", "replace")):
                return _told(401, "the token is missing, or not made with the webhook's secret")
            return campaigns()

    @app.post("/webhook")
    async def webhook(request: Request) -> Response:
        try:
            body = await asyncio.wait_for(_body(request), READ_SECONDS)
        except TimeoutError:
            return _told(408, "the delivery did not come to its end in time")
        except ClientDisconnect:
            return _told(400, "the delivery was broken off")
        if body is None:
            return _told(413, "a delivery this large is not taken")
        if not _signed(secret, body, request.headers.get("X-Hub-Signature-256", "")):
            return _told(401, "X-Hub-Signature-256 is missing, or not made with the webhook's secret")
        if request.headers.get("Content-Type", "").partition(";")[0].strip().lower() != JSON:
            return _told(415, f"set the webhook's content type to {JSON}")
        delivery, name = request.headers.get("X-GitHub-Delivery", ""), request.headers.get("X-GitHub-Event", "")
        if not _GUID.fullmatch(delivery):
            return _told(400, "X-GitHub-Delivery is missing, or no GUID")
        if not name:
            return _told(400, "X-GitHub-Event is missing")
        try:
            event = parse(name, body)
        except Unreadable as error:
            return _told(400, str(error))
        if event is None or (repository is not None and event.repository.lower() != repository.lower()):
            return _told(202, "of no use here")
        try:
            new = await asyncio.wait_for(run_in_threadpool(claim, delivery, event), CLAIM_SECONDS)
        except TimeoutError:
            return _told(503, "busy; send it again")
        return _told(202, "kept" if new else "known already")

    return app


def signature(secret: bytes, body: bytes) -> str:
    """The value of `X-Hub-Signature-256` for a body."""
    return "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()


def reading(secret: bytes) -> str:
    """The token with which campaigns may be read, for whoever knows the webhook's secret. No delivery is signed so."""
    return hmac.new(secret, b"GET /campaigns", hashlib.sha256).hexdigest()


def _signed(secret: bytes, body: bytes, given: str) -> bool:
    return hmac.compare_digest(signature(secret, body).encode(), given.encode("utf-8", "replace"))


async def _body(request: Request) -> bytes | None:
    """The raw body, or None as soon as it is larger than allowed, or says that it will be."""
    said = request.headers.get("Content-Length", "0")
    if said.isdigit() and int(said) > MAX_BYTES:
        return None
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BYTES:
            return None
        parts.append(part)
    return b"".join(parts)


def _told(status: int, text: str) -> Response:
    return Response(text + "\n", status_code=status, media_type="text/plain")
