"""A guard over one page: it ends pages that exceed a limit, and calls a hook before the page navigates elsewhere.

It counts the requests of the page and its frames, and the windows that it opens. Before the page itself navigates to
another address, by redirect, script, form or refresh, the guard calls `pre_request` in a thread of its own, since it
may have to wait for the turn of a host; the page waits meanwhile. Frames within the page navigate freely: they are
parts of it, and the egress proxy counts them to its account.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page, Request, WebSocket

from sluice.contracts.errors import PolicyRefused, SluiceError, Unavailable
from sluice.ingest.browser.processes import BrowserWatch, not_sandboxed
from sluice.ingest.browser.tabs import Tab

CONTENT_KINDS = frozenset({"document", "script", "xhr", "fetch", "stylesheet"})
"""Kinds of request that the text may depend on; images, media and fonts are not waited for."""
MAX_WINDOWS = 5
"""Windows that a page may try to open before it is ended; an honest one opens none by itself."""


class PageGuard:
    """Guards one page; create it before the page navigates. `broken` ends with the page's fatal error."""

    def __init__(
        self, tab: Tab, *, url: str, max_requests: int, watch: BrowserWatch, pre_request: Callable[[str], None]
    ) -> None:
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.requests = 0
        """Requests of all kinds, those of frames included."""
        self.made = 0
        """Requests that the text may depend on."""
        self._tab = tab
        self._page = tab.page
        self._url = url
        self._max_requests = max_requests
        self._watch = watch
        self._pre_request = pre_request
        self._open: set[Request] = set()
        self._windows = 0
        self._has_set_out = False
        self._tasks: set[asyncio.Task[None]] = set()
        for source, event, listener in self._listeners():
            source.on(event, listener)

    @property
    def is_quiet(self) -> bool:
        """Whether no request that the text may depend on is in progress."""
        return not self._open

    async def ask_before_navigations(self) -> None:
        """Have `pre_request` judge every further address of the page."""
        documents = {"urlPattern": "*", "resourceType": "Document", "requestStage": "Request"}
        await self._tab.devtools.send("Fetch.enable", {"patterns": [documents]})

    def end(self, error: SluiceError) -> None:
        """End the page with `error`; only the first error counts."""
        if not self.broken.done():
            self.broken.set_exception(error)

    def close(self) -> None:
        """Remove the listeners and cancel the tasks in progress."""
        for source, event, listener in self._listeners():
            source.remove_listener(event, listener)
        for task in self._tasks:
            task.cancel()
        if not self.broken.cancel():
            self.broken.exception()  # retrieved, so that asyncio does not warn of it

    # Browser events.

    def _listeners(self) -> tuple[tuple[Any, str, Callable[[Any], None]], ...]:
        page, context, devtools = self._tab.page, self._tab.context, self._tab.devtools
        return (
            (page, "request", self._started),
            (page, "requestfinished", self._ended),
            (page, "requestfailed", self._ended),
            (page, "websocket", self._web_socket_opened),
            (page, "crash", self._crashed),
            (context, "page", self._window_opened),
            (devtools, "Fetch.requestPaused", self._navigation_paused),
        )

    def _started(self, request: Request) -> None:
        if request.url.startswith(("data:", "blob:")):
            return
        self._count_request()
        if request.resource_type in CONTENT_KINDS:
            self.made += 1
            self._open.add(request)

    def _ended(self, request: Request) -> None:
        self._open.discard(request)

    def _web_socket_opened(self, _: WebSocket) -> None:
        self._count_request()

    def _count_request(self) -> None:
        self.requests += 1
        if self.requests > self._max_requests:
            self.end(
                PolicyRefused(
                    "requests",
                    f"{self._url}: the page makes more than {self._max_requests} requests",
                    "crawl.max_requests_per_page",
                )
            )

    def _window_opened(self, window: Page) -> None:
        if window == self._page:
            return
        self._windows += 1
        self._tab.spoiled = True
        if self._windows > MAX_WINDOWS:
            self.end(PolicyRefused("windows", f"{self._url}: the page keeps opening windows", "nobody; it is hostile"))
        else:
            self._do(_close(window))

    def _crashed(self, _: Page) -> None:
        self.end(self.why_it_died() or Unavailable(f"{self._url}: the page crashed"))

    def why_it_died(self) -> SluiceError | None:
        """Return the reason for which our watch ended the page or the browser; None if it did not."""
        if self._watch.weakness is not None:
            return not_sandboxed(self._watch.weakness)
        if (excess := self._watch.recent_excess()) is None:
            return None
        limit, took = self._watch.limit_bytes >> 20, excess.took_bytes >> 20
        reason = f"{self._url}: the browser took {took} MiB with it; {limit} MiB are allowed"
        return PolicyRefused("memory", reason, "crawl.browser_memory_bytes")

    # Asynchronous work.

    def _do(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _navigation_paused(self, event: dict[str, Any]) -> None:
        self._do(self._judge_navigation(event))

    async def _judge_navigation(self, event: dict[str, Any]) -> None:
        is_first, devtools = not self._has_set_out, self._tab.devtools
        with suppress(PlaywrightError):  # the page went away while its next address was judged
            if event["frameId"] == self._tab.frame_id:
                self._has_set_out = True
                if not is_first and not await self._may_request(event["request"]["url"]):
                    await devtools.send(
                        "Fetch.failRequest", {"requestId": event["requestId"], "errorReason": "BlockedByClient"}
                    )
                    return
            await devtools.send("Fetch.continueRequest", {"requestId": event["requestId"]})

    async def _may_request(self, url: str) -> bool:
        try:
            await asyncio.to_thread(self._pre_request, url)
        except SluiceError as error:
            self.end(error)
            return False
        return not self.broken.done()


async def _close(window: Page) -> None:
    with suppress(PlaywrightError):
        await window.close()
