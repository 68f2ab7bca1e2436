"""Turns a decision into the directives that carry it out: every page, byte, millisecond and dollar assigned beforehand.

Allowances are divided here and on the way down, never counted up: however the work is spread over workers, a run cannot
use more than its first allowances.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from sluice.contracts.base import Value
from sluice.contracts.budget import Allowance, Ceilings, Spend, shares
from sluice.contracts.event import Next
from sluice.contracts.gate import GateDecided, GateRequested, Limits, SearchAim, SearchWishes
from sluice.contracts.ingest import CrawlDirected, Render, SearchCompleted, SearchDirected
from sluice.contracts.learning.passages import DOUBTED
from sluice.contracts.plan import Plan
from sluice.gate.veto import NOTHING, lowest


class CrawlLimits(Value):
    """The configured reach of a run: its most pages, link depth and bytes; and how to render. For one page: the most
    bytes and milliseconds. For one search: the number of results, and the most cost and time with every fail-over."""

    max_pages: int
    max_depth: int
    max_bytes: int
    page_bytes: int
    page_milliseconds: float
    search_top_k: int
    search_usd: float
    search_milliseconds: float
    locale: str
    render: Render = "auto"
    screenshot: bool = False
    search_filters: dict[str, str] = Field(default_factory=dict)


def lower_limits(crawl_limits: CrawlLimits, limits: Limits) -> CrawlLimits:
    """Return the configured reach, lowered by a request's own limits. A request never raises a ceiling."""
    names = ("max_pages", "max_depth", "max_bytes")
    lowered = {name: lowest(getattr(crawl_limits, name), getattr(limits, name)) for name in names}
    return crawl_limits.model_copy(update=lowered)


def set_rendering(crawl_limits: CrawlLimits, render: Render | None, *, screenshot: bool) -> CrawlLimits:
    """Return the reach with a request's rendering. If the settings allow no browser, a request cannot enable it."""
    wanted = crawl_limits.render if render is None or crawl_limits.render == "never" else render
    return crawl_limits.model_copy(update={"render": wanted, "screenshot": screenshot})


def set_search(crawl_limits: CrawlLimits, wishes: SearchWishes | None) -> CrawlLimits:
    """Return the reach with what a request asks of web search."""
    if wishes is None:
        return crawl_limits
    asked = {"locale": wishes.locale, "search_top_k": wishes.top_k}
    changed = {name: value for name, value in asked.items() if value is not None}
    return crawl_limits.model_copy(update=changed | {"search_filters": crawl_limits.search_filters | wishes.filters})


def make_directives(request: GateRequested, decided: GateDecided, crawl_limits: CrawlLimits) -> tuple[Next, ...]:
    """Return the searches and crawls that `decided` orders: none for `skip` and `retrieve`. Together they reserve no
    more than the budget had left at the time of the decision."""
    crawl_limits, left = lower_limits(crawl_limits, request.limits), decided.budget.left
    crawl_limits = set_rendering(crawl_limits, request.render, screenshot=request.screenshot)
    crawl_limits = set_search(crawl_limits, request.search)
    if decided.plan in (Plan.SKIP, Plan.RETRIEVE):
        return ()
    queries = _aimed(decided)
    searching = Spend(milliseconds=crawl_limits.search_milliseconds * len(queries))
    pages = crawl_limits.max_pages if decided.plan is Plan.FULL_LOOP else 0
    allowance = compute_allowance(pages, crawl_limits, left, before=searching)
    seeds = decided.crawl_seeds[: allowance.pages]
    of_seeds, of_results = allowance.shared(_seeds_and_results(allowance.pages, len(seeds), len(queries)))
    searches = _searches(
        queries, of_results, crawl_limits, left, render=crawl_limits.render if request.render else None
    )
    return (*make_crawl_directives(seeds, of_seeds, crawl_limits), *searches)


def compute_allowance(pages: int, crawl_limits: CrawlLimits, left: Ceilings, *, before: Spend = NOTHING) -> Allowance:
    """Return the allowance for crawling `pages` pages, from the amounts left after `before`; fewer if not all fit."""
    milliseconds = left.least("milliseconds")
    has_time = None if milliseconds is None else max(0.0, milliseconds - before.milliseconds)
    most_pages, most_bytes = lowest(pages, left.least("pages")), lowest(crawl_limits.max_bytes, left.least("bytes"))
    wanted = Allowance(pages=int(most_pages or 0), bytes=int(most_bytes or 0), milliseconds=has_time)
    fitting = wanted.pages_that_fit()
    return Allowance(
        pages=fitting,
        bytes=min(int(most_bytes or 0), crawl_limits.page_bytes * fitting),
        milliseconds=None if has_time is None else min(has_time, crawl_limits.page_milliseconds * fitting),
    )


def make_crawl_directives(seeds: Sequence[str], allowance: Allowance, crawl_limits: CrawlLimits) -> tuple[Next, ...]:
    """Return one directive per seed, at most one per page; the first seeds get the remainder of an uneven division."""
    pages = [
        CrawlDirected(
            url=url, max_depth=crawl_limits.max_depth, render=crawl_limits.render, screenshot=crawl_limits.screenshot
        )
        for url in seeds[: allowance.pages]
    ]
    return _shared_out(pages, allowance)


def make_result_crawls(
    directed: SearchDirected, completed: SearchCompleted, render: Render, doubts: Mapping[str, float] = {}
) -> tuple[Next, ...]:
    """Return crawl directives for the best results: breadth first, links only with the pages that are left over.
    `render` is the configured rendering, used if the directive sets none. Pages come last whose URL is much doubted:
    `doubts` are shares by URL."""
    results = sorted(completed.results, key=lambda result: doubts.get(result.url, 0.0) >= DOUBTED)
    pages = [
        CrawlDirected(
            url=result.url,
            max_depth=directed.crawl_depth,
            render=directed.render or render,
            screenshot=directed.screenshot,
            search_query=directed.query,
            provider=completed.provider,
        )
        for result in results[: directed.crawl_pages]
    ]
    return _shared_out(pages, directed.allowance)


def make_crawl(directed: CrawlDirected) -> Next:
    """Return the directive with the key by which a run crawls a URL once. Its allowance is reserved."""
    return Next(directed, f"crawl:{directed.url}", directed.allowance.reserve)


def _seeds_and_results(pages: int, seeds: int, queries: int) -> tuple[int, int]:
    """Return the number of pages for the seeds and their links, and the number for search results."""
    for_seeds = pages if not queries else (seeds + pages) // 2 if seeds else 0
    return for_seeds, pages - for_seeds


def _shared_out(pages: Sequence[CrawlDirected], allowance: Allowance) -> tuple[Next, ...]:
    if not pages:
        return ()
    found = allowance.shared(shares(allowance.pages, len(pages)))
    return tuple(make_crawl(page.with_allowance(share)) for page, share in zip(pages, found, strict=True))


def _aimed(decided: GateDecided) -> tuple[tuple[str, SearchAim], ...]:
    """Return the decided queries, each with its aim."""
    aims = decided.search_aims or (SearchAim(),) * len(decided.search_seeds)
    return tuple(zip(decided.search_seeds, aims, strict=True))


def _searches(
    queries: Sequence[tuple[str, SearchAim]],
    finding: Allowance,
    crawl_limits: CrawlLimits,
    ceilings: Ceilings,
    *,
    render: Render | None,
) -> tuple[Next, ...]:
    if not queries:
        return ()
    itself = (
        ceilings.capped(Spend(usd=crawl_limits.search_usd, milliseconds=crawl_limits.search_milliseconds)) or Spend()
    )
    allowances = finding.shared(shares(finding.pages, len(queries)))
    return tuple(
        Next(
            SearchDirected(
                query=query,
                locale=crawl_limits.locale,
                top_k=crawl_limits.search_top_k,
                filters=aim.filters | crawl_limits.search_filters,
                vertical=aim.vertical,
                crawl_pages=share.pages,
                crawl_depth=crawl_limits.max_depth,
                byte_allowance=share.bytes,
                max_usd=crawl_limits.search_usd,
                millisecond_allowance=share.milliseconds,
                render=render,
                screenshot=crawl_limits.screenshot,
            ),
            dedupe_key=_search_key(query, aim),
            reserve=itself + share.reserve,
        )
        for (query, aim), share in zip(queries, allowances, strict=True)
    )


def _search_key(query: str, aim: SearchAim) -> str:
    """Return the key by which a run searches for a query once in each part of the web."""
    if aim == SearchAim():
        return f"search:{query}"
    filters = "".join(f" {name}={value}" for name, value in sorted(aim.filters.items()))
    return f"search:{aim.vertical}{filters}:{query}"
