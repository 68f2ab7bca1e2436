"""One page in a real browser: navigate, wait until it has settled, take its HTML.

Promises: never longer than the time given, never more HTML than asked for, nothing kept afterwards.
A page counts as settled once no script or data request of its is under way and its tree has been
still for a moment; a page that never rests is taken as it stands at the ceiling. What runs inside the page runs
in an isolated world, where the page's own scripts have changed nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from playwright.async_api import Browser as PlaywrightBrowser
from playwright.async_api import BrowserContext, CDPSession, Page, ProxySettings, Request, Response
from playwright.async_api import Error as PlaywrightError

from contracts.errors import BudgetExhausted, InvalidInput, PolicyRefused, SluiceError, TimedOut, Unavailable

QUIET_SECONDS = 0.15
"""How long the tree must be still. A framework's re-renders follow one another within a few frames (16 ms)."""
SETTLE_CEILING_SECONDS = 5.0
"""How long a page may take to settle: its tickers and polls may go on for ever."""
CLOSE_SECONDS = 5.0
"""How long a healthy browser may take to drop a context; it needs milliseconds."""
CONTENT_KINDS = frozenset({"document", "script", "xhr", "fetch", "stylesheet"})
"""Requests that text may depend on; images, media and fonts are not waited for."""

_UNTIL_QUIET = """
(async () => {{
  const still = new Promise(done => {{
    let timer = setTimeout(done, {quiet_ms});
    new MutationObserver(() => {{ clearTimeout(timer); timer = setTimeout(done, {quiet_ms}); }})
      .observe(document, {{ subtree: true, childList: true, characterData: true }});
  }});
  await Promise.race([still, new Promise(done => setTimeout(done, {ceiling_ms}))]);
}})()
"""
_OUTER_HTML = "'<!doctype html>' + document.documentElement.outerHTML.slice(0, {limit})"


@dataclass(frozen=True, slots=True)
class Rendered:
    """A page after its scripts ran. `status` and `headers` (as in `Fetched`) are those of the last response."""

    html: str
    final_url: str
    status: int
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class RenderRequest:
    """What to render and the limits that hold for it."""

    url: str
    proxy_url: str
    user_agent: str
    timeout_seconds: float
    max_bytes: int


async def render_page(browser: PlaywrightBrowser, request: RenderRequest) -> Rendered:
    """The page of `request` in a context of its own, which is gone afterwards.

    Raises:
        InvalidInput: the address leads to a download and not to a page.
        PolicyRefused: rule `access`: the site wants a password.
        BudgetExhausted: the HTML is larger than `max_bytes`.
        TimedOut: the page took longer than `timeout_seconds`.
        Unavailable: the site or the way to it failed, or the browser did.
    """
    try:
        async with asyncio.timeout(request.timeout_seconds), _fresh_page(browser, request) as page:
            return await _visit(page, request)
    except TimeoutError as error:
        raise TimedOut(f"{request.url}: not rendered within {request.timeout_seconds:g} s") from error
    except PlaywrightError as error:
        raise _named(error, request.url) from error


@asynccontextmanager
async def _fresh_page(browser: PlaywrightBrowser, request: RenderRequest) -> AsyncIterator[Page]:
    context = await _fresh_context(browser, request)
    try:
        page = await context.new_page()
        context.on("page", _close_popup)
        yield page
    finally:
        # A page that loops is closed from outside its process; only a sick browser takes long over it.
        await asyncio.wait_for(context.close(), CLOSE_SECONDS)


async def _fresh_context(browser: PlaywrightBrowser, request: RenderRequest) -> BrowserContext:
    return await browser.new_context(
        proxy=proxy_settings(request.proxy_url),
        user_agent=request.user_agent,
        service_workers="block",
        accept_downloads=False,
        permissions=[],
    )


def proxy_settings(proxy_url: str) -> ProxySettings:
    """`http://user:password@host:port` as the browser wants it; `<-loopback>` sends loopback to it as well.

    Raises:
        InvalidInput: there is no host or port in it.
    """
    parts = urlsplit(proxy_url)
    if not parts.hostname or not parts.port:
        raise InvalidInput("proxy_url", "has no host and port", "for instance http://user:password@127.0.0.1:8888")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    settings = ProxySettings(server=f"{parts.scheme}://{host}:{parts.port}", bypass="<-loopback>")
    if parts.username:
        settings |= ProxySettings(
            server=settings["server"], username=unquote(parts.username), password=unquote(parts.password or "")
        )
    return settings


async def _close_popup(page: Page) -> None:
    await page.close()


async def _visit(page: Page, request: RenderRequest) -> Rendered:
    clock = asyncio.get_running_loop().time
    deadline = clock() + request.timeout_seconds
    pending = _PendingRequests(page)
    devtools = await page.context.new_cdp_session(page)
    response = await page.goto(request.url, wait_until="domcontentloaded", timeout=0)  # the caller's clock runs
    if response is None:
        raise Unavailable(f"{request.url}: the browser got no response")
    await _settle(devtools, pending, min(SETTLE_CEILING_SECONDS, (deadline - clock()) / 2))
    html = await _html(devtools, request)
    last = pending.last_document or response
    return Rendered(html, page.url, last.status, await _headers(last))


async def _headers(response: Response) -> dict[str, str]:
    """The headers of `response`, the proxy's marks only where no site can have set them.

    It strips them from what it carries in the clear, and cannot look into a tunnel.
    """
    headers = await response.all_headers()
    if "x-robots-tag" in headers:  # line by line, since each may speak to another robot
        headers["x-robots-tag"] = "\n".join(await response.header_values("x-robots-tag"))
    if urlsplit(response.url).scheme == "http":
        return headers
    return {name: value for name, value in headers.items() if not name.startswith("x-sluice-")}


class _PendingRequests:
    """The requests under way that the page's text may depend on, and its main frame's last response."""

    def __init__(self, page: Page) -> None:
        self._open: set[Request] = set()
        self._page = page
        self.last_document: Response | None = None
        self.none_open = asyncio.Event()
        self.none_open.set()
        page.on("request", self._started)
        page.on("requestfinished", self._ended)
        page.on("requestfailed", self._ended)
        page.on("response", self._responded)

    def _started(self, request: Request) -> None:
        if request.resource_type in CONTENT_KINDS:
            self._open.add(request)
            self.none_open.clear()

    def _ended(self, request: Request) -> None:
        self._open.discard(request)
        if not self._open:
            self.none_open.set()

    def _responded(self, response: Response) -> None:
        request = response.request
        if request.is_navigation_request() and request.frame == self._page.main_frame:
            self.last_document = response


async def _settle(devtools: CDPSession, pending: _PendingRequests, ceiling_seconds: float) -> None:
    """Return once the page is at rest, or at the ceiling."""
    script = _UNTIL_QUIET.format(quiet_ms=QUIET_SECONDS * 1_000, ceiling_ms=ceiling_seconds * 1_000)
    try:
        async with asyncio.timeout(ceiling_seconds):
            while True:
                await pending.none_open.wait()
                await _evaluate(devtools, script)
                if pending.none_open.is_set():
                    return
    except TimeoutError:
        return


async def _html(devtools: CDPSession, request: RenderRequest) -> str:
    # One character is at least one byte, so a longer page is recognised without fetching all of it.
    html = await _evaluate(devtools, _OUTER_HTML.format(limit=request.max_bytes + 1))
    if not isinstance(html, str):
        raise Unavailable(f"{request.url}: the page went away while it was read")
    if len(html.encode(errors="replace")) > request.max_bytes:
        raise BudgetExhausted(f"{request.url}: the rendered page is larger than {request.max_bytes} bytes")
    return html


async def _evaluate(devtools: CDPSession, script: str) -> Any:
    """What `script` gives in an isolated world of the main frame; None when a navigation took the frame away."""
    try:
        tree = await devtools.send("Page.getFrameTree")
        world = await devtools.send("Page.createIsolatedWorld", {"frameId": tree["frameTree"]["frame"]["id"]})
        answer = await devtools.send(
            "Runtime.evaluate",
            {
                "expression": script,
                "contextId": world["executionContextId"],
                "awaitPromise": True,
                "returnByValue": True,
            },
        )
    except PlaywrightError as error:
        if "context" in error.message.lower() or "navigated" in error.message.lower():
            return None
        raise
    return answer["result"].get("value")


def _named(error: PlaywrightError, url: str) -> SluiceError:
    reason = error.message.splitlines()[0].removeprefix("Page.goto: ")
    if "ERR_INVALID_AUTH_CREDENTIALS" in reason:  # the browser shows no page that comes with a 401
        return PolicyRefused("access", f"{url} asks for a password", "the site's owner")
    if "Download is starting" in reason:
        return InvalidInput("url", f"{url} is a download and not a page", "fetch it over HTTP, without rendering")
    return Unavailable(f"{url}: {reason}")
