"""Fetch one page politely: HTTP first, the browser when the page needs it.

Life of a page: normalise its address → ask robots.txt → wait for the host's turn → fetch → judge status,
media type and robots directives → render where there is evidence for it (or the directive says so) → read
its links. Every address on the way, redirects included, is judged by robots.txt and waits its turn.

`directions_from` turns links into further directives whose allowances never add up to more than was given,
so a page cap holds without a counter that workers would have to share.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from contracts.errors import (
    BudgetExhausted,
    InvalidInput,
    PolicyRefused,
    Unavailable,
)
from contracts.ingest import CrawlDirected
from ingest.charset import decode
from ingest.crawled import CrawledPage, RenderedPage, Renderer
from ingest.fetch import EGRESS_REMEDY, Fetched, Fetcher, FetchLimits, NotModified
from ingest.media import HTML
from ingest.page import PageFacts, header_directives, read_page
from ingest.rate import HostRate
from ingest.robots import RobotsCache, RobotsFetch, product_token
from ingest.settings import CrawlSettings
from ingest.url import host_of, normalise_url
from ingest.verdict import judge_media_type, judge_status

__all__ = ["CrawledPage", "Crawler", "RenderedPage", "Renderer", "directions_from", "robots_fetch"]

_HTML_TYPES = frozenset({HTML, "application/xhtml+xml"})


class Crawler:
    """Crawls one page at a time for each of any number of threads. `clock` gives times with their zone."""

    def __init__(
        self,
        settings: CrawlSettings,
        *,
        proxy_url: str,
        fetcher: Fetcher,
        robots: RobotsCache,
        rate: HostRate,
        browser: Renderer | None,
        clock: Callable[[], datetime],
    ) -> None:
        self._settings = settings
        self._proxy_url = proxy_url
        self._fetcher = fetcher
        self._robots = robots
        self._rate = rate
        self._browser = browser
        self._clock = clock
        self._token = product_token(settings.user_agent)

    def crawl(self, directed: CrawlDirected) -> CrawledPage:
        """The page that `directed` names.

        Raises:
            InvalidInput: its address cannot be used.
            PolicyRefused: rules `crawl` (switched off), `robots`, `egress`, `redirects`, `bytes`, `encoding`,
                `media_type`, `noindex`, `access` (the site wants to know us), `render` (no browser to be had).
            NotFound: the site has no such page.
            BudgetExhausted: nothing of the byte allowance is left, or the page is larger than that.
            Overloaded: the site or its rate says later. TimedOut, Unavailable: the site failed.
        """
        if not self._settings.enabled:
            raise PolicyRefused("crawl", "crawling is switched off", "crawl.enabled = true")
        url = normalise_url(directed.url)
        if directed.render == "always":
            with contextlib.suppress(InvalidInput):  # a download, which HTTP alone can read
                return self._render(url, directed, "the directive asks for it")
        page, facts = self._fetch(url, directed)
        if directed.render == "never" or facts.browser_reason is None:
            return page
        if self._browser is None:
            return replace(page, render_reason=facts.browser_reason)
        return self._render(page.final_url, directed, facts.browser_reason)

    def _fetch(self, url: str, directed: CrawlDirected) -> tuple[CrawledPage, PageFacts]:
        limits = FetchLimits(
            timeout_seconds=self._settings.page_timeout_seconds,
            max_bytes=self._byte_limit(directed),
            max_redirects=self._settings.max_redirects,
        )
        try:
            answer = self._fetcher.fetch(url, limits=limits, approach=self._approach)
        except PolicyRefused as error:
            raise self._over_allowance(error, directed) from error
        if isinstance(answer, NotModified):
            raise Unavailable(f"{url} answers 304 to a request without conditions")
        judge_status(answer.status, answer.headers.get("retry-after"), url, self._clock())
        media_type = judge_media_type(answer)
        facts = self._facts(answer, media_type)
        page = CrawledPage(
            body=answer.body,
            url=url,
            final_url=answer.final_url,
            status=answer.status,
            media_type=media_type,
            charset=answer.charset,
            fetched_at=self._clock(),
            elapsed_ms=answer.elapsed_ms,
            directed=directed,
            etag=answer.headers.get("etag"),
            last_modified=answer.headers.get("last-modified"),
            links=facts.links,
        )
        return page, facts

    def _render(self, url: str, directed: CrawlDirected, reason: str) -> CrawledPage:
        if self._browser is None:
            raise PolicyRefused("render", f"{url} needs a browser: {reason}", "a Chromium; see `sluice doctor`")
        self._approach(url)
        started = self._clock()
        rendered = self._browser.render(
            url,
            proxy_url=self._proxy_url,
            user_agent=self._settings.user_agent,
            timeout_seconds=self._settings.page_timeout_seconds,
            max_bytes=self._byte_limit(directed),
        )
        headers = {name.lower(): value for name, value in rendered.headers.items()}
        fetched_at = self._clock()
        if rule := headers.get("x-sluice-refused"):  # the browser was sent on to where nobody may go
            raise PolicyRefused("egress", f"{rule}: {rendered.final_url}", EGRESS_REMEDY)
        judge_status(rendered.status, headers.get("retry-after"), url, fetched_at)
        final_url = self._where_it_ended(url, rendered.final_url)
        facts = self._judged_facts(rendered.html, final_url, headers.get("x-robots-tag"))
        return CrawledPage(
            body=rendered.html.encode("utf-8", "replace"),
            url=normalise_url(directed.url),
            final_url=final_url,
            status=rendered.status,
            media_type=HTML,
            charset="utf-8",
            fetched_at=fetched_at,
            elapsed_ms=(fetched_at - started).total_seconds() * 1_000,
            directed=directed,
            rendered=True,
            render_reason=reason,
            etag=headers.get("etag"),
            last_modified=headers.get("last-modified"),
            links=facts.links,
        )

    def _approach(self, url: str) -> None:
        """Robots first, then the host's turn: what is disallowed costs nobody a turn."""
        self._robots.check(url)
        self._rate.wait_turn(host_of(url), interval_seconds=self._robots.crawl_delay_seconds(url))

    def _where_it_ended(self, url: str, final_url: str) -> str:
        """The browser follows redirects by itself: what robots.txt keeps for itself is not kept by us."""
        ended = normalise_url(final_url, field="final_url")
        if ended != url:
            self._robots.check(ended)
        return ended

    def _byte_limit(self, directed: CrawlDirected) -> int:
        allowance = directed.byte_allowance
        if allowance == 0:
            raise BudgetExhausted(f"no bytes are left for {directed.url}")
        return min(self._settings.max_page_bytes, allowance or self._settings.max_page_bytes)

    def _over_allowance(self, error: PolicyRefused, directed: CrawlDirected) -> PolicyRefused | BudgetExhausted:
        """A page too large for what its run has left is a matter of budget, not of policy."""
        allowance = directed.byte_allowance
        if error.rule == "bytes" and allowance is not None and allowance < self._settings.max_page_bytes:
            return BudgetExhausted(f"{directed.url} is larger than the {allowance} bytes that are left")
        return error

    def _facts(self, answer: Fetched, media_type: str) -> PageFacts:
        text = decode(answer.body, answer.charset) if media_type in _HTML_TYPES else ""
        return self._judged_facts(text, answer.final_url, answer.headers.get("x-robots-tag"))

    def _judged_facts(self, html: str, url: str, robots_tag: str | None) -> PageFacts:
        facts = read_page(html, url, self._token)
        directives = header_directives(robots_tag, self._token)
        if facts.noindex or not directives.isdisjoint({"noindex", "none"}):
            raise PolicyRefused("noindex", f"{url} asks not to be indexed", "the site's owner")
        if directives.isdisjoint({"nofollow", "none"}):
            return facts
        return PageFacts(nofollow=True, browser_reason=facts.browser_reason)


def robots_fetch(fetcher: Fetcher, rate: HostRate) -> RobotsFetch:
    """How a crawler gets a robots.txt: through the proxy, at the host's rate."""

    def fetch(url: str, limits: FetchLimits) -> Fetched:
        answer = fetcher.fetch(url, limits=limits, approach=wait)
        if isinstance(answer, NotModified):
            raise Unavailable(f"{url} answers 304 to a request without conditions")
        return answer

    def wait(address: str) -> None:
        rate.wait_turn(host_of(address))

    return fetch


def directions_from(
    links: tuple[str, ...], directed: CrawlDirected, *, spent_bytes: int = 0
) -> tuple[CrawlDirected, ...]:
    """Directives for the pages behind `links`, one level deeper, in order.

    The page behind `directed` has used one page of its allowance and `spent_bytes`; what is left is divided,
    the first links getting what does not divide evenly. Where the children may lead nowhere further each
    gets one page.
    """
    pages_left = directed.page_allowance - 1
    count = min(len(links), pages_left)
    if count <= 0 or directed.depth >= directed.max_depth:
        return ()
    if directed.byte_allowance is not None and directed.byte_allowance - spent_bytes < count:
        return ()
    is_last = directed.depth + 1 >= directed.max_depth
    share, rest = (1, 0) if is_last else divmod(pages_left, count)
    byte_share = None if directed.byte_allowance is None else (directed.byte_allowance - spent_bytes) // count
    return tuple(
        directed.model_copy(
            update={
                "url": link,
                "depth": directed.depth + 1,
                "page_allowance": share + (1 if position < rest else 0),
                "byte_allowance": byte_share,
            }
        )
        for position, link in enumerate(links[:count])
    )
