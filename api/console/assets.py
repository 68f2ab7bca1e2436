"""The files that pages load: one script, one style sheet, one icon. The address of each names its content, so that a
browser keeps it for good, and has a new one as soon as there is one."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

from fastapi import APIRouter, Response

from sluice.api.access import CONSOLE
from sluice.contracts.errors import NotFound

STATIC = f"{CONSOLE}/static"
ASSETS = {
    "console.js": ("text/javascript", ("htmx.js", "console.js")),
    "console.css": ("text/css", ("console.css", "pages.css")),
    "icon.svg": ("image/svg+xml", ("icon.svg",)),
}
"""Each file's media type, and the files that it is made of. The script is one, as the guard must be there when htmx
begins: files that are loaded one by one begin in no order that is promised."""
HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

assets = APIRouter(include_in_schema=False)


@cache
def content_of(name: str) -> bytes:
    """Return a file's content."""
    folder = files(__package__).joinpath("static")
    return b"\n".join(folder.joinpath(part).read_bytes() for part in ASSETS[name][1])


@cache
def address_of(name: str) -> str:
    """Return the address that a page loads a file from."""
    return f"{STATIC}/{hashlib.sha256(content_of(name)).hexdigest()[:16]}/{name}"


@assets.get(STATIC + "/{digest}/{name}")
def asset(digest: str, name: str) -> Response:
    """Return a file, by its content's hash."""
    if name not in ASSETS or address_of(name) != f"{STATIC}/{digest}/{name}":
        raise NotFound(f"the console has no file {name[:100]!r} of that content: load the page again")
    return Response(content_of(name), media_type=ASSETS[name][0], headers=HEADERS)
