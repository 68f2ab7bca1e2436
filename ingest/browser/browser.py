"""The warm browser of a crawl worker: many threads submit pages, one Chromium renders them.

Playwright is bound to one event loop, so one thread of ours runs that loop and all other threads submit work to it.
Promises: nothing starts before the first page is requested; at most `browser_pages` pages render at a time; a browser
that crashed, grew old or has rendered enough is replaced; a browser whose sandbox is off renders nothing; after
`close` no browser process is left.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Playwright, async_playwright

from sluice.contracts.errors import InvalidInput, Overloaded, TimedOut, Unavailable
from sluice.ingest.browser.launch import Guards
from sluice.ingest.browser.page import PreRequestHook, Rendered, RenderLimits, RenderRequest, nothing
from sluice.ingest.browser.render import render_page
from sluice.ingest.browser.running_browser import CLOSE_SECONDS, LAUNCH_SECONDS, WarmBrowser, launch
from sluice.ingest.deadline import LOOK_SECONDS, CancelCheck, Deadline, never_cancelled
from sluice.ingest.settings import CrawlSettings

__all__ = ["Browser", "RenderLimits", "Rendered"]

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Browser:
    """Renders pages for any number of threads. Close it when done; a closed one cannot be used again.

    `check_cancelled` is called now and then while a page is waited for; what it raises ends the page. The browser
    cannot see inside the folders `hidden`, where the system allows it a mount namespace.
    """

    def __init__(
        self,
        settings: CrawlSettings,
        *,
        check_cancelled: CancelCheck = never_cancelled,
        guards: Guards | None = None,
        hidden: Sequence[Path] = (),
    ) -> None:
        self._settings = settings
        self._guards = guards or Guards()
        self._hidden = hidden
        self._warned = False
        self._check_cancelled = check_cancelled
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._playwright: Playwright | None = None
        self._warm: WarmBrowser | None = None
        self._every: list[WarmBrowser] = []
        self._slots = asyncio.Semaphore(settings.browser_pages)
        self._launching = asyncio.Lock()

    def render(
        self,
        url: str,
        *,
        proxy_url: str,
        user_agent: str,
        limits: RenderLimits,
        pre_request: PreRequestHook = nothing,
        screenshot: bool = False,
        run_id: str = "",
    ) -> Rendered:
        """Return the page at `url` after its scripts ran. All its traffic goes through the proxy.

        Waits at most `limits.timeout_seconds` for its turn and takes at most as long again, and both together at most
        `limits.within_seconds`; starting a browser, when there is none, comes on top.

        `pre_request` is called, on a thread of its own, before the page itself navigates to another address (a
        redirect, a script, a form, a meta refresh). It may block; what it raises ends the page and is raised here. It
        is not called for `url`. With `screenshot` the result includes a picture. Pages of one site may share cookies
        and storage if they have the same `run_id`; without one the page shares nothing with any other.

        Raises:
            InvalidInput: `url` is not an http(s) address, or leads to a download.
            InvalidSetting: there is no Chromium; the error says how to get one.
            PolicyRefused: rule `sandbox`: Chromium's sandbox is off; rule `network`: the browser cannot be isolated as
                the settings demand; rule `access`: the site requires a password; rules `memory`, `nodes`, `requests`
                and `windows`: the page exceeds that limit.
            BudgetExhausted: the HTML is larger than `limits.max_bytes`.
            Overloaded: no page became free in time.
            TimedOut: the page took longer than `limits.timeout_seconds`.
            Unavailable: the site, the way to it, or the browser failed.
        """
        if urlsplit(url).scheme not in {"http", "https"}:
            raise InvalidInput("url", f"{url} is not an http or https address")
        request = RenderRequest(url, proxy_url, user_agent, limits, pre_request, screenshot, run_id)
        patience_seconds = 2 * (limits.timeout_seconds + LAUNCH_SECONDS + CLOSE_SECONDS)
        return self.run(self._render(request), patience_seconds)

    def assert_sandboxed(self) -> Path:
        """Start the browser if necessary, prove that its renderers are confined, and return the path of its binary.

        Raises InvalidSetting without a Chromium, PolicyRefused (`sandbox`) with what is missing and how to fix it.
        """
        return self.run(self._current(), LAUNCH_SECONDS + CLOSE_SECONDS).binary

    def close(self) -> None:
        """End the browser, its processes and the thread. Pages in progress fail. May be called again."""
        with self._guard:
            self._closed, loop, thread = True, self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(self._shut_down(), loop).result(2 * CLOSE_SECONDS)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    @property
    def running(self) -> WarmBrowser | None:
        """The Chromium that serves pages now; None before the first page."""
        return self._warm

    def run(self, work: Coroutine[Any, Any, T], patience_seconds: float) -> T:
        """Run `work` on the browser's own event loop and return its result.

        Raises TimedOut if it does not end within `patience_seconds`, and Unavailable if the browser is closed.
        """
        future, deadline = self._submit(work), time.monotonic() + patience_seconds
        try:
            while not wait([future], timeout=LOOK_SECONDS).done:
                self._check_cancelled()
                if time.monotonic() > deadline:
                    raise TimedOut(f"the browser did not answer within {patience_seconds:g} s")
            return future.result()
        finally:
            future.cancel()  # no effect if it is done

    # The thread and its loop.

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        with self._guard:
            if self._closed:
                work.close()
                raise Unavailable("the browser is closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="browser", daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    # Coroutines on the loop.

    async def _render(self, request: RenderRequest) -> Rendered:
        deadline, most_seconds = Deadline(request.limits.within_seconds), request.limits.timeout_seconds
        try:
            await asyncio.wait_for(self._slots.acquire(), deadline.left_seconds(most_seconds))
        except TimeoutError as error:
            raise Overloaded(f"{request.url}: every page of the browser is busy") from error
        try:
            return await self._render_or_relaunch(request.within(deadline.left_seconds(most_seconds)))
        finally:
            self._slots.release()

    async def _render_or_relaunch(self, request: RenderRequest) -> Rendered:
        """Render the page. If the browser dies under it, render once more in a new one, in the remaining time."""
        warm = await self._current()
        deadline = Deadline(request.limits.timeout_seconds)
        try:
            return await self._render_in(warm, request)
        except TimedOut:
            raise
        except Unavailable:
            if self._closed or not warm.retired:
                raise
        return await self._render_in(await self._current(), request.within(deadline.left_seconds()))

    async def _render_in(self, warm: WarmBrowser, request: RenderRequest) -> Rendered:
        warm.pages_open += 1
        warm.pages_served += 1
        try:
            return await render_page(warm, request, self._guards)
        except Unavailable:  # the page's fault, or the browser's?
            warm.retired = warm.retired or not await warm.responds()
            raise
        finally:
            warm.pages_open -= 1
            if warm.retired and not warm.pages_open:
                await warm.end()

    async def _current(self) -> WarmBrowser:
        """Return the warm browser, or a new one if it is spent."""
        async with self._launching:
            if self._warm is not None and self._warm.is_spent(self._settings):
                await self._retire(self._warm)
                self._warm = None
            if self._warm is None:
                self._warm = await self._launch()
            return self._warm

    async def _launch(self) -> WarmBrowser:
        try:
            warm = await launch(await self._driver(), self._settings, self._guards, self._hidden)
        except Unavailable:
            await self._drop_driver()  # the driver may have died: the next attempt starts a new one
            raise
        self._every = [*(other for other in self._every if not other.ended), warm]
        self._say_what_is_missing(warm)
        return warm

    def _say_what_is_missing(self, warm: WarmBrowser) -> None:
        """Warn once if only the browser's own switches keep it off the network."""
        if self._settings.browser_network == "shared" or warm.isolation.network or self._warned:
            return
        self._warned = True
        _log.warning(
            "the browser shares the network of its worker; only its switches and the egress proxy keep it in",
            extra={"missing": "; ".join(warm.isolation.missing)},
        )

    async def _driver(self) -> Playwright:
        if self._playwright is None:
            try:
                self._playwright = await async_playwright().start()
            except Exception as error:  # Playwright raises nothing narrower when its driver does not come up
                raise Unavailable(f"Playwright's driver did not start: {error}") from error
        return self._playwright

    async def _drop_driver(self) -> None:
        playwright, self._playwright = self._playwright, None
        if playwright is not None:
            with suppress(PlaywrightError, TimeoutError):  # a dead driver cannot stop
                await asyncio.wait_for(playwright.stop(), CLOSE_SECONDS)

    async def _retire(self, warm: WarmBrowser) -> None:
        """End the browser now, or when its last page is done."""
        warm.retired = True
        if not warm.pages_open or not warm.engine.is_connected():
            await warm.end()

    async def _shut_down(self) -> None:
        for warm in self._every:
            await warm.end()
        await self._drop_driver()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
