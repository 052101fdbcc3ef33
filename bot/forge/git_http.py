"""Git over smart HTTP: `git http-backend` as a CGI program, with tokens. Everybody may read; a push needs a token that may write."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from bot.forge.bare import Bare, environment
from bot.forge.model import Account, Refused, Repository
from bot.forge.web import forge_of, token_of

router = APIRouter()
PUSH = "git-receive-pack"


@router.get("/{owner}/{name}.git/info/refs")
@router.post("/{owner}/{name}.git/git-upload-pack")
@router.post("/{owner}/{name}.git/git-receive-pack")
async def git(request: Request, owner: str, name: str) -> Response:
    forge = forge_of(request)
    repository = forge.repository(f"{owner}/{name}")
    push = PUSH in request.url.path or request.query_params.get("service") == PUSH
    try:
        actor = forge.whose(token_of(request)) if token_of(request) else None
    except Refused:
        actor = None
    if (push or "Authorization" in request.headers) and actor is None:
        return Response("Authentication failed", 401, headers={"WWW-Authenticate": 'Basic realm="forge"'})
    if push and (actor is None or not (actor.write or actor.login == owner)):
        return Response("Permission denied", 403)
    body = await request.body()
    return await run_in_threadpool(_answered, request, repository, actor, push, body)


def _answered(request: Request, repository: Repository, actor: Account | None, push: bool, body: bytes) -> Response:
    """One request, and what follows from a push. Nothing else changes the repository while something is pushed."""
    if request.method != "POST" or not push or actor is None:
        return _backend(request, repository, actor, body)
    forge, bare = forge_of(request), Bare(repository.folder)
    with forge.lock:
        before = bare.refs()
        refuses = forge.faults.take("push_refused", request.url.path) is not None
        answer = _backend(request, repository, actor, body, {"GIT_CONFIG_VALUE_1": str(_rule(forge.folder))} if refuses else {})
        forge.pushed(repository, actor, before, bare.refs())
    return answer


@functools.cache
def _program() -> tuple[str, ...]:
    """`git http-backend`, at its own place where it is there: else git only starts it as another process."""
    folder = subprocess.run(["git", "--exec-path"], env=environment(), stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
    place = Path(folder) / "git-http-backend"
    return (str(place),) if place.is_file() else ("git", "http-backend")


def _rule(folder: Path) -> Path:
    """A folder of hooks that refuse whatever is pushed."""
    hook = folder / "rule" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'GH013: Repository rule violations found' >&2\nexit 1\n")
    hook.chmod(0o755)
    return hook.parent


def _backend(
    request: Request, repository: Repository, actor: Account | None, body: bytes, more: Mapping[str, str] | None = None
) -> Response:
    """One request, answered by git's own program."""
    variables = {
        **environment(),
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_1": "core.hooksPath",
        "GIT_CONFIG_VALUE_1": os.devnull,
        **(more or {}),
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_PROJECT_ROOT": str(repository.folder),
        "PATH_INFO": request.url.path.partition(".git")[2],
        "QUERY_STRING": request.url.query,
        "REQUEST_METHOD": request.method,
        "CONTENT_TYPE": request.headers.get("Content-Type", ""),
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
        "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
        "REMOTE_ADDR": "127.0.0.1",
        **({"REMOTE_USER": actor.login} if actor is not None else {}),
    }
    out = subprocess.run(_program(), input=body, env=variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
    head, _, content = out.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode("latin-1").split("\r\n") if ": " in line)
    status = int(headers.pop("Status", "200").split()[0])
    return Response(content, status, headers=headers)
