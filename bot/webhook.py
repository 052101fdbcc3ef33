"""The webhook: takes a signed delivery once, answers at once, and leaves the work to others."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
from collections.abc import Callable

from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

from bot.events import Event, Unreadable, parse

# GitHub sends no larger ones.
MAX_BYTES = 25 << 20
# A forge waits ten seconds for its answer.
CLAIM_SECONDS = 8.0
_GUID = re.compile(r"[A-Za-z0-9-]{1,64}")
# Keeps an event under its delivery's GUID. True when it is new. `TimeoutError` where that takes too long.
Claim = Callable[[str, Event], bool]


def create_app(secret: bytes, claim: Claim) -> FastAPI:
    """The web application: `POST /webhook` for deliveries, `GET /healthz` for whoever asks whether the bot lives.

    202 a delivery was kept (or was known, or is of no use), 401 it is not signed with `secret`, 413 too large, 400 not readable,
    503 it could not be kept now: the forge may send it again.
    """
    if not secret:
        raise ValueError("a webhook without a secret would believe anybody")
    app = FastAPI(title="Kernel Factory", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/healthz")
    def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/webhook")
    async def webhook(request: Request) -> Response:
        body = await _body(request)
        if body is None:
            return _told(413, "a delivery this large is not taken")
        if not _signed(secret, body, request.headers.get("X-Hub-Signature-256", "")):
            return _told(401, "not signed with the webhook's secret")
        delivery = request.headers.get("X-GitHub-Delivery", "")
        if not _GUID.fullmatch(delivery):
            return _told(400, "X-GitHub-Delivery is missing, or no GUID")
        try:
            event = parse(request.headers.get("X-GitHub-Event", ""), body)
        except Unreadable as error:
            return _told(400, str(error))
        if event is None:
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


def _signed(secret: bytes, body: bytes, given: str) -> bool:
    return hmac.compare_digest(signature(secret, body).encode(), given.encode("utf-8", "replace"))


async def _body(request: Request) -> bytes | None:
    """The raw body, or None as soon as it is larger than allowed, whatever its length was said to be."""
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
