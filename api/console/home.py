"""Where a browser begins, and where an address leads that no page has."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException

from sluice.api.access import CONSOLE
from sluice.api.console.frame import pages
from sluice.contracts.errors import NotFound

root, rest = APIRouter(include_in_schema=False), pages()


@root.get("/")
def begin(request: Request) -> Response:
    """Lead a browser to the console; a program finds nothing here."""
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(CONSOLE, 303)
    raise HTTPException(404)


@rest.get("/{path:path}")
def nothing(path: str) -> Response:
    """Say that there is no such page."""
    raise NotFound(f"the console has no page {path[:200]!r}")


ROUTERS = (root, rest)
"""After all others: the second takes every address."""
