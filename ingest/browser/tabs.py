"""The tabs of a browser: a fresh context for each run and site, kept a short while for the next page of both.

A new context and its processes cost several times as much as a page of text, and a run reads a site page by page.
Promises: no two runs and no two origins ever share a context; a page without a run gets its own; between two
pages the tab is empty and its relay is closed; the context is dropped after a page that was ended, opened windows,
went to another origin or does not let go of the tab. Open and kept tabs together never exceed the
pages that the browser may show at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from playwright.async_api import Browser as PlaywrightBrowser
from playwright.async_api import BrowserContext, CDPSession, Page, ProxySettings
from playwright.async_api import Error as PlaywrightError

from sluice.ingest.browser.launch import Guards
from sluice.ingest.browser.page import RenderRequest
from sluice.ingest.browser.relay import EgressGrant
from sluice.ingest.url import ProxyAddress, origin_of

CLOSE_SECONDS = 5.0
"""Longest time for a healthy browser to drop a context; it needs milliseconds."""
LEAVE_SECONDS = 1.0
"""Longest time for a page to let go of its tab; an honest one needs milliseconds."""
KEPT_SECONDS = 10.0
"""Time that an empty tab waits for the next page of its run and site: several turns of a host at the usual rate."""

_EMPTY = "about:blank"


@dataclass(frozen=True, slots=True)
class Owner:
    """The run, origin and user agent that a tab belongs to."""

    run_id: str
    origin: str
    """Scheme, host and port; narrower than a site, so that neighbours below one domain do not share a tab either."""
    user_agent: str

    @classmethod
    def of(cls, request: RenderRequest) -> Owner:
        """Return the owner of the tab for `request`."""
        return cls(request.run_id, origin_of(request.url), request.user_agent)


@dataclass(eq=False, slots=True)
class Tab:
    """A context with one page in it."""

    owner: Owner
    context: BrowserContext
    page: Page
    devtools: CDPSession
    frame_id: str
    address: str | None
    """Relay address; None if the browser shares our network and its context knows the proxy itself."""
    spoiled: bool = False
    """Whether the tab must not serve another page."""
    expiry: asyncio.TimerHandle | None = field(default=None, repr=False)


class Tabs:
    """The tabs of one browser, all used on one event loop. `stuck` is called when a context cannot be dropped."""

    def __init__(
        self, engine: PlaywrightBrowser, egress_grant: EgressGrant | None, *, most: int, stuck: Callable[[], None]
    ) -> None:
        self._engine = engine
        self.egress_grant = egress_grant
        self._most = most
        self._stuck = stuck
        self._open = 0
        self._kept: dict[Owner, Tab] = {}
        self._dropping: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def tab(self, request: RenderRequest, guards: Guards) -> AsyncIterator[Tab]:
        """Yield a tab for the page of `request`, which leads to its proxy until the block ends.

        Raises InvalidInput if the proxy's address lacks a host or port, Overloaded if more pages are open than the
        relay can tell apart, and PlaywrightError if the browser is gone.
        """
        self._open += 1
        try:
            tab = await self._taken(request, guards)
            try:
                with self._carried(tab, request.proxy_url):
                    yield tab
                    keeps = await self._left(tab, request)
            except BaseException:
                await self._drop(tab)
                raise
            await self._give_back(tab, keeps=keeps)
        finally:
            self._open -= 1

    @property
    def kept(self) -> tuple[Tab, ...]:
        """The tabs that wait for another page of their run and site."""
        return tuple(self._kept.values())

    def stop(self) -> None:
        """Forget the kept tabs; the browser, which ends now, takes them with it."""
        for tab in self._kept.values():
            _stop_waiting(tab)
        self._kept.clear()

    # Taking a tab.

    async def _taken(self, request: RenderRequest, guards: Guards) -> Tab:
        owner = Owner.of(request)
        if (tab := self._kept.pop(owner, None)) is not None:
            _stop_waiting(tab)
            return tab
        while self._kept and self._open + len(self._kept) > self._most:
            await self._drop(self._removed(next(iter(self._kept.values()))))
        return await self._new(owner, request, guards)

    async def _new(self, owner: Owner, request: RenderRequest, guards: Guards) -> Tab:
        address = self.egress_grant.reserve() if self.egress_grant is not None else None
        try:
            context = await self._engine.new_context(
                proxy=self._proxy(address, request),
                user_agent=request.user_agent,
                service_workers=guards.service_workers,
                accept_downloads=False,
                permissions=[],
            )
        except BaseException:
            self._release(address)
            raise
        try:
            page = await context.new_page()
            devtools = await context.new_cdp_session(page)
            tree = await devtools.send("Page.getFrameTree")
        except BaseException:
            await self._close(context)
            self._release(address)
            raise
        tab = Tab(owner, context, page, devtools, tree["frameTree"]["frame"]["id"], address)
        page.on("crash", lambda _: self._died(tab))
        page.on("close", lambda _: self._died(tab))
        return tab

    def _proxy(self, address: str | None, request: RenderRequest) -> ProxySettings:
        if self.egress_grant is None or address is None:
            return proxy_settings(request.proxy_url)
        return ProxySettings(server=self.egress_grant.url(address), bypass="<-loopback>")

    @contextmanager
    def _carried(self, tab: Tab, proxy_url: str) -> Iterator[None]:
        if self.egress_grant is None or tab.address is None:
            yield
            return
        with self.egress_grant.carried(tab.address, proxy_url):
            yield

    # Giving it back.

    async def _left(self, tab: Tab, request: RenderRequest) -> bool:
        """Empty the tab and return whether it may be kept: its page behaved well and has let go of it."""
        if tab.spoiled or not request.run_id or tab.address is None or origin_of(tab.page.url) != tab.owner.origin:
            return False
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await tab.page.goto(_EMPTY, wait_until="commit", timeout=0)
        except (PlaywrightError, TimeoutError):
            return False
        return not tab.spoiled and tab.page.url == _EMPTY

    async def _give_back(self, tab: Tab, *, keeps: bool) -> None:
        if not keeps or tab.owner in self._kept:  # after two pages of a run in parallel, one tab is enough for the next
            await self._drop(tab)
            return
        self._kept[tab.owner] = tab
        tab.expiry = asyncio.get_running_loop().call_later(KEPT_SECONDS, self._forget, tab)

    def _died(self, tab: Tab) -> None:
        tab.spoiled = True
        self._forget(tab)

    def _forget(self, tab: Tab) -> None:
        if self._kept.get(tab.owner) is tab:
            task = asyncio.ensure_future(self._drop(self._removed(tab)))
            self._dropping.add(task)
            task.add_done_callback(self._dropping.discard)

    def _removed(self, tab: Tab) -> Tab:
        _stop_waiting(tab)
        return self._kept.pop(tab.owner)

    async def _drop(self, tab: Tab) -> None:
        await self._close(tab.context)
        self._release(tab.address)

    async def _close(self, context: BrowserContext) -> None:
        """Close the context. A looping page is closed from outside its process; only a sick browser is slow."""
        try:
            await asyncio.wait_for(context.close(), CLOSE_SECONDS)
        except (PlaywrightError, TimeoutError):
            self._stuck()

    def _release(self, address: str | None) -> None:
        if self.egress_grant is not None and address is not None:
            self.egress_grant.release(address)


def proxy_settings(proxy_url: str) -> ProxySettings:
    """Return `http://user:password@host:port` as browser settings; `<-loopback>` proxies loopback as well.

    Raises InvalidInput if the address lacks a host or port.
    """
    proxy = ProxyAddress.at(proxy_url)
    host = f"[{proxy.host}]" if ":" in proxy.host else proxy.host
    settings = ProxySettings(server=f"http://{host}:{proxy.port}", bypass="<-loopback>")
    if proxy.username:
        settings |= ProxySettings(server=settings["server"], username=proxy.username, password=proxy.password)
    return settings


def _stop_waiting(tab: Tab) -> None:
    if tab.expiry is not None:
        tab.expiry.cancel()
        tab.expiry = None
