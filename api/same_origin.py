"""Refuses what a web page of another origin makes a browser send: cross-site request forgery.

A browser lets any page post to any address, this machine's own included, and names the page in `Origin`
(RFC 6454, section 7) and `Sec-Fetch-Site` (W3C Fetch Metadata). Programs send neither header, so they are not affected.
Reading needs no such check: without CORS headers, of which there are none, a page cannot see a response.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from sluice.api.problems import problem
from sluice.contracts.api import Problem

READING = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
OWN_SITES = frozenset({"same-origin", "none"})
"""`Sec-Fetch-Site` of a page of this very origin, and of a person who typed the address."""
DEFAULT_PORTS = {"http": 80, "https": 443}


class SameOriginOnly:
    """Answers 403 to a request that changes something and comes from a page of another origin, body or not."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] == "http" and scope["method"] not in READING and not is_own(Headers(scope=scope)):
            message = "a web page of another origin may not change anything here"
            body = Problem(code="forbidden", message=message, remedy="send it from a program, without an Origin header")
            await problem(403, body)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def is_own(headers: Headers) -> bool:
    """Whether no page of another origin sent it. Schemes are not compared: a proxy before us may speak TLS."""
    site = headers.get("sec-fetch-site")
    if site is not None and site not in OWN_SITES:
        return False
    origin = headers.get("origin")
    return origin is None or _is_same_host(origin, headers.get("host", ""))


def _is_same_host(origin: str, host: str) -> bool:
    try:
        page, own = urlsplit(origin), urlsplit(f"{urlsplit(origin).scheme}://{host}")
        default = DEFAULT_PORTS.get(page.scheme)
        return (page.hostname, page.port or default) == (own.hostname, own.port or default) and bool(page.hostname)
    except ValueError:  # no origin at all
        return False
