"""Fetch one page politely: HTTP first, the browser when the page needs it.

Life of a page: normalise its address → is its host left alone? → ask robots.txt → wait for the host's turn → fetch
→ judge status, media type and robots directives → render where there is evidence for it (or the directive says so)
→ read its links. Every address on the way, redirects included, is judged by robots.txt and waits its turn; one
deadline covers all of it.

`directions_from` turns links into further directives whose allowances never add up to more than was given,
so a ceiling on pages, bytes or time holds without a counter that workers would have to share.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial

from contracts.budget import Spend, shares
from contracts.errors import (
    BudgetExhausted,
    InvalidInput,
    Overloaded,
    PolicyRefused,
    TimedOut,
    Unavailable,
)
from contracts.ingest import CrawlDirected
from ingest.breaker import HostBreakers, LeftAlone
from ingest.charset import decode
from ingest.crawled import CrawledPage, RenderedPage, Renderer
from ingest.deadline import Deadline
from ingest.fetch import EGRESS_REMEDY, Fetched, Fetcher, FetchLimits, NotModified
from ingest.media import HTML
from ingest.meter import Meter
from ingest.page import PageFacts, header_directives, read_page
from ingest.rate import HostRate
from ingest.robots import RobotsCache, RobotsFetch, product_token
from ingest.settings import CrawlSettings
from ingest.url import host_of, normalise_url
from ingest.verdict import judge_media_type, judge_status
from ingest.visit import Visit
from ingest.wanted import Wanted, always

__all__ = ["CrawledPage", "Crawler", "RenderedPage", "Renderer", "directions_from", "robots_fetch"]

_HTML_TYPES = frozenset({HTML, "application/xhtml+xml"})


class Crawler:
    """Crawls one page at a time for each of any number of threads. `clock` gives times with their zone.

    `wanted` is called before anything is asked of a site; what it raises ends the crawl.
    """

    def __init__(
        self,
        settings: CrawlSettings,
        *,
        proxy_url: str,
        fetcher: Fetcher,
        robots: RobotsCache,
        rate: HostRate,
        breakers: HostBreakers,
        browser: Renderer | None,
        clock: Callable[[], datetime],
        wanted: Wanted = always,
    ) -> None:
        self._settings = settings
        self._proxy_url = proxy_url
        self._fetcher = fetcher
        self._robots = robots
        self._rate = rate
        self._breakers = breakers
        self._browser = browser
        self._clock = clock
        self._wanted = wanted
        self._token = product_token(settings.user_agent)

    def crawl(self, directed: CrawlDirected, meter: Meter | None = None) -> CrawledPage:
        """The page that `directed` names. `meter` counts what it takes of the allowance, also where it fails.

        Raises:
            InvalidInput: its address cannot be used.
            PolicyRefused: rules `crawl` (switched off), `robots`, `egress`, `redirects`, `bytes`, `encoding`,
                `media_type`, `noindex`, `access` (the site wants to know us), `render` (no browser to be had).
            NotFound: the site has no such page.
            BudgetExhausted: nothing of the allowance is left, or the page is larger or slower than that.
            HostUnavailable: the host kept failing and is left alone for a while.
            Overloaded: the site or its rate says later. TimedOut, Unavailable: the site failed.
            TimedOut also: the deadline passed, whatever the page waited for.
        """
        if not self._settings.enabled:
            raise PolicyRefused("crawl", "crawling is switched off", "crawl.enabled = true")
        meter = meter or Meter(directed.allowance)
        deadline = Deadline(self._settings.page_deadline_seconds)
        page = self._page(normalise_url(directed.url), directed, meter, deadline)
        meter.pages = 1
        return page

    def _page(self, url: str, directed: CrawlDirected, meter: Meter, deadline: Deadline) -> CrawledPage:
        if directed.render == "always":
            with contextlib.suppress(InvalidInput):  # a download, which HTTP alone can read
                return self._render(url, directed, meter, deadline, "the directive asks for it")
        page, facts = self._fetch(url, directed, meter, deadline)
        if directed.render == "never" or facts.browser_reason is None:
            return page
        if self._browser is None or meter.is_used_up:
            return replace(page, render_reason=facts.browser_reason)
        return self._render(page.final_url, directed, meter, deadline, facts.browser_reason)

    def _fetch(
        self, url: str, directed: CrawlDirected, meter: Meter, deadline: Deadline
    ) -> tuple[CrawledPage, PageFacts]:
        answer = self._answer(url, meter, deadline)
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

    def _answer(self, url: str, meter: Meter, deadline: Deadline) -> Fetched:
        """What the site answers, whatever it is, within what is left of the allowance."""
        limits = FetchLimits(
            timeout_seconds=meter.seconds_left(self._settings.page_timeout_seconds),
            max_bytes=meter.bytes_left(self._settings.max_page_bytes),
            max_redirects=self._settings.max_redirects,
        )
        visit, started = self._visit(deadline), self._clock()
        try:
            answer = self._fetcher.fetch(url, limits=limits, approach=visit.approach, deadline=deadline)
        except (Overloaded, LeftAlone):
            raise  # we are busy, or asked nobody
        except TimedOut as error:
            site_seconds = self._seconds_since(started) - visit.waited_seconds
            if not deadline.has_passed or site_seconds > deadline.seconds / 2:  # else the way there took the time
                self._require_patience(error, url, limits.timeout_seconds)
                visit.ended(failed=True)
            raise
        except Unavailable:
            visit.ended(failed=True)
            raise
        except PolicyRefused as error:
            raise self._too_large(error, url, limits.max_bytes, meter) from error
        finally:
            meter.took(self._seconds_since(started) - visit.waited_seconds, at_most=limits.timeout_seconds)
        if isinstance(answer, NotModified):
            raise Unavailable(f"{url} answers 304 to a request without conditions")
        meter.bytes += len(answer.body)
        visit.ended(failed=answer.status >= 500)
        return answer

    def _render(self, url: str, directed: CrawlDirected, meter: Meter, deadline: Deadline, reason: str) -> CrawledPage:
        if self._browser is None:
            raise PolicyRefused("render", f"{url} needs a browser: {reason}", "a Chromium; see `sluice doctor`")
        before_ms, rendered = meter.milliseconds, self._rendered(self._browser, url, meter, deadline)
        headers = {name.lower(): value for name, value in rendered.headers.items()}
        fetched_at = self._clock()
        if rule := headers.get("x-sluice-refused"):  # the browser was sent on to where nobody may go
            raise PolicyRefused("egress", f"{rule}: {rendered.final_url}", EGRESS_REMEDY)
        judge_status(rendered.status, headers.get("retry-after"), url, fetched_at)
        final_url = self._where_it_ended(url, rendered.final_url, deadline)
        facts = self._judged_facts(rendered.html, final_url, headers.get("x-robots-tag"))
        return CrawledPage(
            body=rendered.html.encode("utf-8", "replace"),
            url=normalise_url(directed.url),
            final_url=final_url,
            status=rendered.status,
            media_type=HTML,
            charset="utf-8",
            fetched_at=fetched_at,
            elapsed_ms=meter.milliseconds - before_ms,
            directed=directed,
            rendered=True,
            render_reason=reason,
            etag=headers.get("etag"),
            last_modified=headers.get("last-modified"),
            links=facts.links,
        )

    def _rendered(self, browser: Renderer, url: str, meter: Meter, deadline: Deadline) -> RenderedPage:
        """The page in the browser, within what is left. A browser's own trouble says nothing about the host."""
        most_seconds = meter.seconds_left(self._settings.page_timeout_seconds)
        most_bytes = meter.bytes_left(self._settings.max_page_bytes)
        visit = self._visit(deadline)
        visit.approach(url)
        started = self._clock()
        try:
            rendered = browser.render(
                url,
                proxy_url=self._proxy_url,
                user_agent=self._settings.user_agent,
                timeout_seconds=most_seconds,
                max_bytes=most_bytes,
                within_seconds=deadline.left_seconds(),
            )
        except BudgetExhausted:
            meter.bytes += most_bytes
            raise
        except TimedOut as error:
            if not deadline.has_passed:
                self._require_patience(error, url, most_seconds)
            raise
        finally:
            meter.took(self._seconds_since(started), at_most=most_seconds)
        meter.bytes += len(rendered.html.encode("utf-8", "replace"))
        visit.ended(failed=rendered.status >= 500)
        return rendered

    def _visit(self, deadline: Deadline) -> Visit:
        return Visit(self._breakers, partial(self._approach, deadline), self._clock)

    def _approach(self, deadline: Deadline, url: str) -> None:
        """Robots first, then the host's turn: what is disallowed costs nobody a turn."""
        self._wanted()
        self._robots.check(url, deadline)
        interval_seconds = self._robots.crawl_delay_seconds(url)
        left_seconds = deadline.left_seconds()
        self._rate.wait_turn(host_of(url), interval_seconds=interval_seconds, at_most_seconds=left_seconds)

    def _where_it_ended(self, url: str, final_url: str, deadline: Deadline) -> str:
        """The browser follows redirects by itself: what robots.txt keeps for itself is not kept by us."""
        ended = normalise_url(final_url, field="final_url")
        if ended != url:
            self._robots.check(ended, deadline)
        return ended

    def _too_large(
        self, error: PolicyRefused, url: str, max_bytes: int, meter: Meter
    ) -> PolicyRefused | BudgetExhausted:
        """A page too large for what its run has left is a matter of budget, not of policy."""
        if error.rule != "bytes":
            return error
        meter.bytes += max_bytes
        if max_bytes < self._settings.max_page_bytes:
            return BudgetExhausted(f"{url} is larger than the {max_bytes} bytes that are left")
        return error

    def _require_patience(self, error: TimedOut, url: str, limit_seconds: float) -> None:
        """A page too slow for what its run has left is a matter of budget, and its site is not at fault."""
        if limit_seconds < self._settings.page_timeout_seconds:
            limit_ms = limit_seconds * 1_000
            raise BudgetExhausted(f"{url} takes longer than the {limit_ms:g} milliseconds that are left") from error

    def _seconds_since(self, started: datetime) -> float:
        return (self._clock() - started).total_seconds()

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

    def fetch(url: str, limits: FetchLimits, deadline: Deadline) -> Fetched:
        def wait(address: str) -> None:
            rate.wait_turn(host_of(address), at_most_seconds=deadline.left_seconds())

        answer = fetcher.fetch(url, limits=limits, approach=wait, deadline=deadline)
        if isinstance(answer, NotModified):
            raise Unavailable(f"{url} answers 304 to a request without conditions")
        return answer

    return fetch


def directions_from(links: tuple[str, ...], directed: CrawlDirected, spent: Spend) -> tuple[CrawlDirected, ...]:
    """Directives for the pages behind `links`, one level deeper, in order.

    What the page behind `directed` has `spent` is taken from its allowance; what is left is divided, the first links
    getting what does not divide evenly. Where the children may lead nowhere further each gets one page.
    """
    left = directed.allowance.less(spent)
    fitting = left.pages_that_fit()
    count = min(len(links), fitting)
    if count <= 0 or directed.depth >= directed.max_depth:
        return ()
    is_last = directed.depth + 1 >= directed.max_depth
    pages = [1] * count if is_last else shares(fitting, count)
    return tuple(
        directed.model_copy(update={"url": link, "depth": directed.depth + 1}).with_allowance(share)
        for link, share in zip(links, left.shared(pages), strict=False)
    )
