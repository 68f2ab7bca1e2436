"""The HTTP application: its routes and middleware, and its start; and `/docs`, without the internet.

The files of `/docs` come from the package `fastapi-swagger`, which carries Swagger UI (Apache-2.0) as it is published;
the rest of that package is not used. A strict content security policy keeps the page to this origin.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import fastapi_swagger.resources
import uvicorn
from fastapi import APIRouter, FastAPI, Request, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sluice.api import dead_letters, documents, graph, memory, operations, problems, runs
from sluice.api.access import WritingDoor
from sluice.api.connections import BoundedConnection
from sluice.contracts.errors import NotFound
from sluice.otel import metrics
from sluice.otel.start import shutdown as stop_telemetry
from sluice.otel.start import start as start_telemetry
from sluice.workers.processes.kernel import die_with_parent, give_signs_of_life
from sluice.workers.service.callers import LocalKey, require_key_beyond_loopback
from sluice.workers.service.instance import Instance
from sluice.workers.settings import Settings
from sluice.workers.supervisor.checks import require_free_port

SERVED_BY: dict[str, Any] = {
    "http": BoundedConnection,
    "ws": "none",
    "log_config": None,
    "access_log": False,
    "log_level": "warning",
    "timeout_graceful_shutdown": 10,
}
"""Options of the HTTP server."""
DESCRIPTION = "Search-gated retrieval for AI agents: ask, and get cited context with the reason for every step."


def make_api(settings: Settings) -> FastAPI:
    """Build the application for one instance. Opens nothing before it is started."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        start_telemetry("sluice-api", settings.telemetry, data_dir=settings.data_dir, instance=settings.instance)
        instance = app.state.instance = Instance(settings)
        LocalKey(settings.data_dir).renew(settings.http_host, settings.http_port)
        if settings.telemetry.metrics_address:
            metrics.serve_metrics(settings.telemetry.metrics_address)
        yield
        await instance.close()
        stop_telemetry()

    app = FastAPI(
        title="Sluice",
        version=version("sluice"),
        description=DESCRIPTION,
        lifespan=lifespan,
        redirect_slashes=False,
        docs_url=None,  # FastAPI's own page loads its scripts from elsewhere
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    problems.install(app)
    app.add_middleware(Measured)
    app.include_router(docs)
    for module in (runs, documents, memory, graph, dead_letters, operations):
        for router in module.ROUTERS:
            app.include_router(router)
    app.router.middleware_stack = WritingDoor(app.router.middleware_stack, settings.max_request_bytes)
    return app


def serve(settings: Settings) -> None:
    """Serve until a signal. Raises `InvalidSetting` without a key beyond loopback, or if the port is taken."""
    die_with_parent()
    give_signs_of_life()
    require_free_port(settings.http_host, settings.http_port)
    require_key_beyond_loopback(settings)
    uvicorn.run(make_api(settings), host=settings.http_host, port=settings.http_port, **SERVED_BY)


class Measured:
    """Counts and times every request by its route. Plain ASGI, so that streams are not buffered."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, measured = time.perf_counter(), False

        def measure(status: int) -> None:
            nonlocal measured
            if measured:
                return
            measured = True
            labels = (getattr(scope.get("route"), "path", "unmatched"), scope["method"], str(status))
            metrics.HTTP_REQUESTS.labels(*labels).inc()
            metrics.HTTP_REQUEST_SECONDS.labels(*labels).observe(time.perf_counter() - started)

        async def observed(message: Message) -> None:
            if message["type"] == "http.response.start":
                measure(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, observed)
        except Exception:
            measure(500)
            raise


docs = APIRouter(include_in_schema=False)

DOCS_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
"""Swagger UI draws its icons from `data:` addresses; it needs nothing else from outside its files."""
ASSETS = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript", "favicon-32x32.png": "image/png"}
DOCS_SCRIPT = "start.js"


@docs.get("/docs")
def page() -> Response:
    """Return the page; the files that it loads are below `/docs/`."""
    content = files(__package__).joinpath("docs.html").read_text("utf-8")
    return Response(content, media_type="text/html", headers=DOCS_HEADERS)


@docs.get("/docs/{name}")
def asset(request: Request, name: str) -> Response:
    """Return one of the page's files."""
    if name == DOCS_SCRIPT:
        script = files(__package__).joinpath("docs.js").read_text("utf-8")
        script = script.replace("OPENAPI_URL", json.dumps(request.app.openapi_url))
        return Response(script, media_type="text/javascript", headers=DOCS_HEADERS)
    if name not in ASSETS:
        raise NotFound(f"/docs has no file {name!r}")
    content = files(fastapi_swagger.resources).joinpath(name).read_bytes()
    return Response(content, media_type=ASSETS[name], headers={**DOCS_HEADERS, "Cache-Control": "max-age=3600"})
