"""Crawl one page politely: HTTP first, the browser when the page needs it.

Life of a page: normalise its address → open an egress grant of its own → check the circuit of its host
→ check robots.txt → wait for the host's turn → fetch, conditionally if it was read before → judge
status, media type and robots directives → render if there is evidence for it (or the directive says so) → rank
its links. Every address on the way, redirects and further navigations included, is judged by robots.txt and waits its
turn; one deadline covers all of it. `ingest.crawl.page_crawl` carries it out.

`directions_from` turns links into further directives whose allowances never add up to more than the given one,
so a ceiling on pages, bytes or time holds without a counter shared between workers.
"""

from __future__ import annotations

from sluice.contracts.budget import Spend, shares
from sluice.contracts.errors import PolicyRefused, Unavailable
from sluice.contracts.ingest import CrawlDirected
from sluice.ingest.crawl.crawled_page import CrawledPage, Note, UnchangedPage, silent
from sluice.ingest.crawl.page_crawl import crawl_page
from sluice.ingest.crawl.page_visit import BudgetMeter, CrawlContext, PageVisit
from sluice.ingest.deadline import Deadline
from sluice.ingest.egress.crawl_account import current_egress_grant, egress_context
from sluice.ingest.http.fetch import Fetched, Fetcher, FetchLimits, NotModified
from sluice.ingest.politeness.rate_limit import HostRateLimit
from sluice.ingest.politeness.robots import RobotsFetch
from sluice.ingest.url import host_of, normalise_url

__all__ = ["CrawlContext", "CrawledPage", "Crawler", "UnchangedPage", "directions_from", "robots_fetch"]


TUNNEL_SHARE = 2
"""Factor from a page's byte allowance to that of its egress grant: bodies are metered as they are read, and heads,
handshakes and a browser's parallel requests come on top."""
TUNNEL_BYTES = 1_000_000
"""Added to that, so that the smallest page gets through."""


class Crawler:
    """Crawls one page at a time per thread, in any number of threads."""

    def __init__(self, context: CrawlContext) -> None:
        self._context = context

    def crawl(
        self,
        directed: CrawlDirected,
        meter: BudgetMeter | None = None,
        *,
        corpus: str = "default",
        run_id: str = "",
        note: Note = silent,
    ) -> CrawledPage | UnchangedPage:
        """Crawl the page that `directed` names, for `corpus`.

        `meter` counts the consumed allowance and the refusals on the way, also on failure. `note` gets each decision.

        Raises:
            InvalidInput: the page's address cannot be used.
            PolicyRefused: rules `crawl` (switched off), `robots`, `egress`, `redirects`, `bytes`, `encoding`,
                `malformed_response`, `media_type`, `noindex`, `access` (the site requires a password), `render` (there
                is no browser), and those of the browser: see `ingest.browser.browser.Browser.render`.
            NotFound: the site has no such page.
            BudgetExhausted: the allowance is used up, or the page is larger or slower than the rest of it.
            HostUnavailable: the host kept failing and gets no requests for a while.
            Overloaded: the site or its rate limit says later. Unavailable: the site failed.
            TimedOut: the site failed to answer in time, or the deadline passed, whatever the page waited for.
        """
        settings = self._context.settings
        if not settings.enabled:
            raise PolicyRefused("crawl", "crawling is switched off", "crawl.enabled = true")
        meter = meter or BudgetMeter(directed.allowance)
        note("address", normalise_url(directed.url))
        most_bytes = TUNNEL_SHARE * meter.bytes_left(settings.run_bytes) + TUNNEL_BYTES
        egress_grant = self._context.egress.open("crawl", run_id=run_id, max_bytes=most_bytes)
        try:
            with egress_grant, egress_context(egress_grant.url):
                visit = PageVisit(
                    context=self._context,
                    directed=directed,
                    meter=meter,
                    egress_grant=egress_grant,
                    corpus=corpus,
                    run_id=run_id,
                    note=note,
                )
                page = crawl_page(visit)
        finally:
            meter.egress = egress_grant.report()  # final, as its connections have ended
        meter.pages = 1
        return page


def robots_fetch(fetcher: Fetcher, rate_limit: HostRateLimit) -> RobotsFetch:
    """Return a function that fetches a robots.txt through the current page's egress grant, at the host's rate."""

    def fetch(url: str, limits: FetchLimits, deadline: Deadline) -> Fetched:
        def wait(address: str) -> None:
            rate_limit.wait_turn(host_of(address), at_most_seconds=deadline.left_seconds())

        egress_url = current_egress_grant()
        answer = fetcher.fetch(url, limits=limits, pre_request=wait, deadline=deadline, proxy_url=egress_url)
        if isinstance(answer, NotModified):
            raise Unavailable(f"{url} answers 304 to a request without conditions")
        return answer

    return fetch


def directions_from(
    links: tuple[str, ...], directed: CrawlDirected, spent: Spend, *, page_url: str | None = None
) -> tuple[CrawlDirected, ...]:
    """Return directives for the pages behind `links`, one level deeper, in order; each records the way that led to it.

    `page_url` is the page's final address, which may differ from the directed one.

    What the page behind `directed` has `spent` is subtracted from its allowance; the rest is divided, the first links
    getting the remainder. At the last level each child gets one page. In the crawl of a site each link gets as much as
    this page had, and the ledger has the last word on how many there are.
    """
    came_by = (*directed.came_by, page_url or directed.url)
    if directed.scope is not None:
        if directed.depth >= directed.max_depth:
            return ()
        deeper = {"depth": directed.depth + 1, "came_by": came_by}
        return tuple(directed.model_copy(update={"url": link, **deeper}) for link in links)
    left = directed.allowance.less(spent)
    fitting = left.pages_that_fit()
    count = min(len(links), fitting)
    if count <= 0 or directed.depth >= directed.max_depth:
        return ()
    is_last = directed.depth + 1 >= directed.max_depth
    pages = [1] * count if is_last else shares(fitting, count)
    return tuple(
        directed.model_copy(update={"url": link, "depth": directed.depth + 1, "came_by": came_by}).with_allowance(share)
        for link, share in zip(links, left.shared(pages), strict=False)
    )
