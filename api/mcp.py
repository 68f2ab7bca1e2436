"""`/mcp`: the tools of Sluice for agents over MCP (streamable HTTP, both eras of the protocol), on this process.

The door checks key and Host itself, as FastAPI's dependencies do not run here. The library is imported when the door is
first used: it costs most of a second and 23 MB. The tools are those of `sluice_client.mcp`, over a client whose
requests this application serves, as ones of the caller of the MCP request in hand.
"""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar
from functools import partial
from importlib.metadata import version
from types import SimpleNamespace

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sluice.api.access import MCP, authenticated
from sluice.api.problems import problem, request_id
from sluice.api.requests import REQUEST_ID, RUN
from sluice.contracts.errors import needed
from sluice.workers.settings import Settings
from sluice_client import AsyncSluiceClient

MOST_SESSIONS = 1_000
"""Open sessions of the older era: 18 KB each."""
IDLE_SECONDS = 86_400.0
"""A host that comes back after a night finds its session: most do not open a new one by themselves."""
LONGEST_WAIT_SECONDS = 2.0
"""Longest wait of a tool before it tries again what may be tried again; the agent is told of a longer one."""

_outer: ContextVar[Scope] = ContextVar("mcp_request")
"""The scope of the MCP request in hand."""


class Door:
    """An ASGI endpoint that serves MCP for one instance. Opens with its first request."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._opening = asyncio.Lock()
        self._closing = asyncio.Event()
        self._app: ASGIApp | None = None
        self._task: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. Raises `HTTPException` (401) or `Forbidden` as every other route does."""
        scope["route"] = ROUTE
        request = Request(scope)
        caller = scope.get("caller") or await authenticated(request)
        if self._settings.mcp.stateless and scope["method"] != "POST":
            detail = "the door keeps no sessions here: there is nothing but POST"
            refused = problem(405, "method_not_allowed", detail, headers={"Allow": "POST"})
            await refused(scope, receive, send)
            return
        app = await self._opened(request.app)
        from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
        from mcp.server.auth.provider import AccessToken

        # The library ties a session to this id: no other key may use or end it.
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=caller.owner, scopes=[]))
        token = _outer.set(scope)
        try:
            await app(scope, receive, send)
        finally:
            _outer.reset(token)

    async def close(self) -> None:
        """End all sessions."""
        self._closing.set()
        if self._task:
            await asyncio.wait([self._task], timeout=5.0)
            self._task.cancel()

    async def _opened(self, api: ASGIApp) -> ASGIApp:
        async with self._opening:
            if self._app is None:
                ready: asyncio.Future[ASGIApp] = asyncio.get_running_loop().create_future()
                self._task = asyncio.create_task(self._serve(api, ready), name="mcp")
                self._app = await ready
        return self._app

    async def _serve(self, api: ASGIApp, ready: asyncio.Future[ASGIApp]) -> None:
        """Hold the session manager open: it must be entered and left in one task."""
        try:
            modules = await run_in_threadpool(_imported)
            transport = modules.inside.Inside(partial(_served, api))
            client = AsyncSluiceClient("http://sluice", transport=transport, longest_wait_seconds=LONGEST_WAIT_SECONDS)
            server = modules.tools.make_server(client, version=version("sluice"))
            own_guard = modules.security.TransportSecuritySettings(enable_dns_rebinding_protection=False)
            server.streamable_http_app(
                stateless_http=self._settings.mcp.stateless,
                max_request_body_size=self._settings.max_request_bytes,
                session_idle_timeout=None if self._settings.mcp.stateless else IDLE_SECONDS,
                max_sessions=MOST_SESSIONS,
                transport_security=own_guard,  # ours is before it
            )
            async with client, server.session_manager.run():
                ready.set_result(modules.manager.StreamableHTTPASGIApp(server.session_manager))
                await self._closing.wait()
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)


ROUTE = Route(MCP, endpoint=lambda request: None)
"""The route as access log, metrics and spans know it."""


def _imported() -> SimpleNamespace:
    """Import the library. Raises `NotInstalled`."""
    try:
        from mcp.server import streamable_http_manager as manager
        from mcp.server import transport_security as security

        from sluice_client.mcp import inside, tools
    except ImportError as error:
        raise needed("mcp", error) from error
    for name in ("mcp", "httpx2"):  # a line for each session and call else
        logging.getLogger(name).setLevel(logging.WARNING)
    return SimpleNamespace(inside=inside, tools=tools, manager=manager, security=security)


async def _served(api: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve a tool's request as one of the MCP request's caller, under its id. It is counted there; where that was one
    too many, here."""
    outer = _outer.get()
    scope["caller"] = outer["caller"]
    if (rate := outer["rate"]) is None or not rate.retry_after_seconds:
        scope["rate"] = rate
    scope["headers"].append((REQUEST_ID.lower().encode(), (request_id.get() or "").encode()))

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            outer["run_id"] = Headers(raw=message["headers"]).get(RUN) or outer.get("run_id")
        await send(message)

    await api(scope, receive, sending)
