"""One page in a real browser: navigate, wait until it has settled, take its HTML.

Promises: it never exceeds the time, HTML size, elements or requests allowed, and leaves nothing to any other run or
site (`ingest.browser.tabs`). A page is identified by the address of the response that its document came from
(`ingest.browser.page_content`), never by the address that its scripts show. A page that must end early ends with an
error that names the reason. Our scripts run in an isolated world, where the page's own scripts have changed nothing.

The wait ends when the page no longer changes: when two looks are equal, never after a fixed time. A look counts the
elements and the text of the tree. A page has settled once it is parsed, two looks in a row agree, and no request that
its text may depend on is in progress or was made between them. A page with little text is watched for longer: it may
be a shell whose script only begins. A page that has text and polls for ever is not waited for, and one that never
rests is taken as it stands at the ceiling.

A consent wall keeps a page from being drawn and loaded, so one attempt is made to dismiss it: only if something that
looks like one lies over the page, only by a button that is known or says so, refusing before accepting, and never by
a form: nothing is sent that a reader would have to answer for.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Error as PlaywrightError

from sluice.contracts.errors import BudgetExhausted, InvalidInput, PolicyRefused, SluiceError, TimedOut, Unavailable
from sluice.ingest.browser.launch import Guards
from sluice.ingest.browser.page import Rendered, RenderLimits, RenderRequest
from sluice.ingest.browser.page_content import (
    SCRIPTS,
    DocumentResponse,
    DocumentResponses,
    IsolatedWorld,
    page_as_shown,
    take_screenshot,
)
from sluice.ingest.browser.page_guard import PageGuard
from sluice.ingest.browser.running_browser import WarmBrowser
from sluice.ingest.browser.tabs import Tab

__all__ = ["RenderLimits", "RenderRequest", "Rendered", "render_page"]

SECOND_CEILING_SECONDS = 2.0
"""Longest time for a page to settle after a consent wall was dismissed: its text is there already."""

READ_ATTEMPTS = 3
"""Attempts to read a page, each of which a navigation may spoil."""

_MALFORMED = re.compile(
    r"ERR_(INVALID_HTTP_RESPONSE|INVALID_CHUNKED_ENCODING|RESPONSE_HEADERS_(MULTIPLE_\w+|TOO_BIG)|CONTENT_DECODING_FAILED)"
)
"""Chromium's error names for a response that is not HTTP, or is ambiguous (net/base/net_error_list.h)."""


async def render_page(warm: WarmBrowser, request: RenderRequest, guards: Guards) -> Rendered:
    """Render the page of `request` in a tab of its run and site.

    Raises:
        InvalidInput: the address leads to a download and not to a page.
        PolicyRefused: rule `access`: the site requires a password; rule `malformed_response`: the response is not HTTP;
            rule `redirects`: the site redirects without end; rules `memory`, `nodes`, `requests`, `windows`: the page
            exceeds that limit; rule `sandbox`: a renderer came without one.
        BudgetExhausted: the HTML is larger than `max_bytes`.
        TimedOut: the page took longer than `timeout_seconds`.
        Unavailable: the site or the way to it failed, or the browser did.
        SluiceError: whatever `pre_request` raises.
    """
    try:
        async with asyncio.timeout(request.limits.timeout_seconds):
            with warm.watch.page():
                async with warm.tabs.tab(request, guards) as tab:
                    return await _guarded(warm, tab, request, guards)
    except TimeoutError as error:
        raise TimedOut(f"{request.url}: not rendered within {request.limits.timeout_seconds:g} s") from error
    except PlaywrightError as error:
        raise _named(error, request.url) from error


async def _guarded(warm: WarmBrowser, tab: Tab, request: RenderRequest, guards: Guards) -> Rendered:
    """Visit the page; raise the guard's error if that comes first."""
    guard = PageGuard(
        tab,
        url=request.url,
        max_requests=request.limits.max_requests,
        watch=warm.watch,
        pre_request=request.pre_request,
    )
    documents = DocumentResponses(tab.devtools, tab.frame_id)
    attempt = asyncio.ensure_future(_attempt(tab, guard, documents, request, guards))
    try:
        waited_for: set[asyncio.Future[Any]] = {attempt, guard.broken}
        await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
        if guard.broken.done():
            guard.broken.result()
        return attempt.result()
    except PlaywrightError as error:
        if (reason := guard.why_it_died()) is not None:  # the page's last call fails before its death is reported
            raise reason from error
        raise
    finally:
        attempt.cancel()
        await asyncio.gather(attempt, return_exceptions=True)
        documents.stop()
        guard.close()


async def _attempt(
    tab: Tab, guard: PageGuard, documents: DocumentResponses, request: RenderRequest, guards: Guards
) -> Rendered:
    clock = asyncio.get_running_loop().time
    deadline = clock() + request.limits.timeout_seconds
    page, max_nodes = tab.page, request.limits.max_nodes
    await documents.start()
    if guards.judges_navigations:
        await guard.ask_before_navigations()
    response = await page.goto(request.url, wait_until="domcontentloaded", timeout=0)  # the caller's clock runs
    if response is None:
        raise Unavailable(f"{request.url}: the browser got no response")
    world = IsolatedWorld(tab.devtools, tab.frame_id)
    await settle(world, guard, max_nodes, min(CEILING_SECONDS, (deadline - clock()) / 2))
    if await dismiss_consent(world):
        await settle(world, guard, max_nodes, min(SECOND_CEILING_SECONDS, (deadline - clock()) / 2))
    document, html = await _read(world, documents, request)
    picture = await take_screenshot(page, within_seconds=(deadline - clock()) / 2) if request.screenshot else None
    return Rendered(html, document.url, document.status, _trusted_headers(document), guard.requests, picture)


def _trusted_headers(document: DocumentResponse) -> dict[str, str]:
    """Return the headers of `document`, with the proxy's marks only where no site can have set them.

    The proxy strips such headers from what it carries in the clear, but cannot look into a tunnel.
    """
    if urlsplit(document.url).scheme == "http":
        return document.headers
    return {name: value for name, value in document.headers.items() if not name.startswith("x-sluice-")}


async def _read(
    world: IsolatedWorld, documents: DocumentResponses, request: RenderRequest
) -> tuple[DocumentResponse, str]:
    """Return the response that the shown document came from, and its HTML.

    A page may navigate while it is read: the HTML counts only if the document is the same before and after.
    """
    for _ in range(READ_ATTEMPTS):
        loader = await documents.current_loader()
        html = await _read_html(world, request)
        if html is None or await documents.current_loader() != loader:
            continue
        document = documents.of_loader(loader)
        if document is None:
            raise Unavailable(f"{request.url}: the page shows a document that no site sent")
        return document, html
    raise Unavailable(f"{request.url}: the page went away while it was read")


async def _read_html(world: IsolatedWorld, request: RenderRequest) -> str | None:
    """Return the HTML shown; None if the page went away. Raises PolicyRefused (`nodes`) and BudgetExhausted (size)."""
    await require_small(world, request.limits.max_nodes)
    # One character is at least one byte, so a longer page is recognised without fetching all of it.
    html = await world.evaluate(page_as_shown(request.limits.max_bytes + 1))
    if not isinstance(html, str):
        return None
    if len(html.encode(errors="replace")) > request.limits.max_bytes:
        raise BudgetExhausted(f"{request.url}: the rendered page is larger than {request.limits.max_bytes} bytes")
    return html


def _named(error: PlaywrightError, url: str) -> SluiceError:
    reason = error.message.splitlines()[0].removeprefix("Page.goto: ")
    if "ERR_INVALID_AUTH_CREDENTIALS" in reason:  # the browser shows no page that comes with a 401
        return PolicyRefused("access", f"{url} asks for a password", "the site's owner")
    if "Download is starting" in reason:
        return InvalidInput("url", f"{url} is a download and not a page", "fetch it over HTTP, without rendering")
    if _MALFORMED.search(reason):
        return PolicyRefused("malformed_response", f"{url}: {reason}", "the site's owner")
    if "ERR_TOO_MANY_REDIRECTS" in reason:
        return PolicyRefused("redirects", f"{url}: {reason}")
    return Unavailable(f"{url}: {reason}")


LOOK_SECONDS = 0.1
"""Pause between two looks. A framework's re-renders follow one another within a few frames (16 ms)."""
THIN_CHARACTERS = 200
"""A page with fewer is a shell, or has hardly any content."""
THIN_SECONDS = 0.6
"""Time that a thin page must be still; timers that fill one are set to half a second at most."""
POLL_SECONDS = 2.0
"""Time that a page with text must be still before it is taken although one of its requests is in progress."""
CEILING_SECONDS = 5.0
"""Longest time for a page to settle: its tickers and polls may go on for ever."""

_LOOK = """
(() => {{
  const nodes = document.getElementsByTagName("*").length;
  const text = nodes > {most} || !document.body ? 0 : document.body.textContent.length;
  return [document.readyState !== "loading", nodes, text];
}})()
"""


@dataclass(frozen=True, slots=True)
class Look:
    """One observation of the page."""

    parsed: bool
    nodes: int
    characters: int
    requests: int

    @property
    def is_thin(self) -> bool:
        """Whether there is too little text to be sure that this is the page."""
        return self.characters < THIN_CHARACTERS


async def settle(world: IsolatedWorld, guard: PageGuard, max_nodes: int, ceiling_seconds: float) -> None:
    """Return once the page is at rest, or at the ceiling. Raises PolicyRefused (`nodes`) above `max_nodes` elements."""

    async def look() -> Look | None:
        return await _look(world, guard, max_nodes)

    try:
        async with asyncio.timeout(ceiling_seconds):
            await _watch(look, guard)
    except TimeoutError:
        await require_small(world, max_nodes)


async def require_small(world: IsolatedWorld, max_nodes: int) -> None:
    """Refuse a tree of more than `max_nodes` elements before its HTML is built: PolicyRefused, rule `nodes`."""
    nodes = await world.evaluate('document.getElementsByTagName("*").length')
    if isinstance(nodes, int):
        _require_few(nodes, max_nodes)


async def _watch(look: Callable[[], Awaitable[Look | None]], guard: PageGuard) -> None:
    clock = asyncio.get_running_loop().time
    seen, still_since = await look(), clock()
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        now = await look()
        if now is None or now != seen:
            seen, still_since = now, clock()
        elif now.parsed and clock() - still_since >= _stillness_seconds(now, guard):
            return


def _stillness_seconds(look: Look, guard: PageGuard) -> float:
    """Return how long the page must have been unchanged."""
    if guard.is_quiet:
        return THIN_SECONDS if look.is_thin else 0.0
    return CEILING_SECONDS if look.is_thin else POLL_SECONDS


async def _look(world: IsolatedWorld, guard: PageGuard, max_nodes: int) -> Look | None:
    seen = await world.evaluate(_LOOK.format(most=max_nodes))
    if not isinstance(seen, list):
        return None
    parsed, nodes, characters = seen
    _require_few(nodes, max_nodes)
    return Look(bool(parsed), int(nodes), int(characters), guard.made)


def _require_few(nodes: int, max_nodes: int) -> None:
    if nodes > max_nodes:
        raise PolicyRefused("nodes", f"a page of {nodes} elements; {max_nodes} are allowed")


async def dismiss_consent(world: IsolatedWorld) -> bool:
    """Press the button of a consent wall that lies over the page; return whether there was one."""
    return await world.evaluate(SCRIPTS.joinpath("dismiss_consent.js").read_text("utf-8")) is True
