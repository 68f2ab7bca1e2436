"""Where a browser begins: it is led here, signs in by an API key, and out again; an address that no page has."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException

from sluice.api.access import CONSOLE, counted, instance_of
from sluice.api.console.frame import (
    COOKIE,
    COOKIES,
    ConsoleRoute,
    Visiting,
    form_of,
    own_address,
    pages,
    sign_in,
    visitor_of,
)
from sluice.contracts.errors import NotFound
from sluice.workers.service.callers import Caller

SESSION = f"{CONSOLE}/session"
TRIES_PER_MINUTE = 20
"""How often an address may try to sign in. A key cannot be guessed; this is for the ledger's sake."""

unknown = APIRouter(prefix=CONSOLE, include_in_schema=False, route_class=ConsoleRoute)
known, root, rest = pages(), APIRouter(include_in_schema=False), pages()


@root.get("/")
def lead(request: Request) -> Response:
    """Lead a browser to the console; a program finds nothing here."""
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(CONSOLE, 303)
    raise HTTPException(404)


@rest.get("/{path:path}")
def nothing(path: str) -> Response:
    """Say that there is no such page."""
    raise NotFound(f"the console has no page {path[:200]!r}")


@unknown.post("/session")
async def begin(request: Request) -> Response:
    """Sign in. The key comes once, in the form; the browser gets the id of a session."""
    form = await form_of(request)
    host = request.client.host if request.client else ""
    await counted(request, Caller(f"sign-in:{host}", "agent", frozenset(), TRIES_PER_MINUTE))
    session_id = await run_in_threadpool(instance_of(request).console.begin, form.get("key", "").strip())
    to = own_address(form.get("to"))
    if session_id is None:
        return sign_in(request, "This key is not known, was revoked or has expired.", to=to)
    response = RedirectResponse(f"{SESSION}?to={to}" if to != CONSOLE else SESSION, 303)
    response.set_cookie(COOKIE, session_id, **COOKIES)
    return response


@unknown.get("/session")
async def kept(request: Request, to: str = CONSOLE) -> Response:
    """Go on to the page that was wanted, if the browser kept the session."""
    if await run_in_threadpool(visitor_of, request):
        return RedirectResponse(own_address(to), 303)
    problem = (
        ""
        if request.url.scheme == "https"
        else "If you have just signed in: your browser kept no cookie, as it does without HTTPS."
    )
    return sign_in(request, problem, to=to)


@known.post("/session/end")
def end(visit: Visiting) -> Response:
    """Sign out."""
    visit.instance.console.end(visit.visitor)
    response = RedirectResponse(SESSION, 303)
    response.delete_cookie(COOKIE, **COOKIES)
    return response


ROUTERS = (root, unknown, known)
LAST = rest
"""After the routers of all modules: it takes every address."""
