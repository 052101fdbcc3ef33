"""The forge as a web application: the API, git, and the pages for people."""

from __future__ import annotations

import functools
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from bot.forge import api_pulls, api_repository, api_runs, git_http, pages
from bot.forge.forge import Forge
from bot.forge.model import Refused
from bot.forge.web import PREFIX, refused, watched


def create_app(forge: Forge) -> ASGIApp:
    """The application that serves `forge`."""

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        await application()({**scope, "forge": forge}, receive, send)

    return served


@functools.cache
def application() -> FastAPI:
    """What serves every forge of this process; setting up its routes takes a while. The forge is told with each request."""
    app = FastAPI(title="forge", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_exception_handler(Refused, _told)
    app.add_exception_handler(RequestValidationError, _unknown)
    app.add_exception_handler(404, _unknown)
    app.middleware("http")(watched)
    for router in (api_pulls.router, api_runs.router, api_runs.storage, api_repository.router, git_http.router, pages.router):
        app.include_router(router)

    @app.get(f"{PREFIX}/rate_limit")
    def rate_limit() -> dict[str, Any]:
        limit = {"limit": 5000, "used": 0, "remaining": 5000, "reset": 4070908800}
        return {"resources": {"core": limit, "search": limit}, "rate": limit}

    return app


async def _told(request: Request, error: Exception) -> Response:
    if request.url.path.startswith(PREFIX) or not isinstance(error, Refused):
        return await refused(request, error)
    return pages.told(error)


async def _unknown(request: Request, error: Exception) -> Response:
    return JSONResponse({"message": "Not Found", "documentation_url": "https://docs.github.com/rest", "status": "404"}, 404)
