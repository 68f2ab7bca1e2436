"""From a decision to the directives that carry it out, with every page and dollar assigned beforehand.

Allowances are divided here and on the way down, never counted up: however the work is spread over
workers, the pages of a run cannot exceed what was given out.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from contracts.base import Value
from contracts.budget import Spend
from contracts.gate import GateDecided, GateRequested, Limits, Plan
from contracts.ingest import CrawlDirected, Render, SearchDirected
from contracts.outcome import Next


class Reach(Value):
    """How far a run may go: pages in all, links deep, bytes in all, results and USD per search; and how to render."""

    max_pages: int
    max_depth: int
    max_bytes: int
    search_top_k: int
    search_usd: float
    locale: str
    render: Render = "auto"
    search_filters: dict[str, str] = Field(default_factory=dict)


def lowered(reach: Reach, limits: Limits) -> Reach:
    """The configured reach, lowered by a request's own limits. A request never raises a ceiling."""
    return reach.model_copy(
        update={
            "max_pages": _lower(reach.max_pages, limits.max_pages),
            "max_depth": _lower(reach.max_depth, limits.max_depth),
            "max_bytes": _lower(reach.max_bytes, limits.max_bytes),
        }
    )


def directives(request: GateRequested, decided: GateDecided, reach: Reach) -> tuple[Next, ...]:
    """The searches and crawls that `decided` orders: none for `skip` and `retrieve`."""
    reach = lowered(reach, request.limits)
    if decided.plan in (Plan.SKIP, Plan.RETRIEVE):
        return ()
    budget = decided.budget
    pages_left = min(reach.max_pages, budget.run_pages_left, budget.day_pages_left)
    pages = pages_left if decided.plan is Plan.FULL_LOOP else 0
    seeds = decided.crawl_seeds[:pages]
    for_seeds = pages if not decided.search_seeds else (len(seeds) + pages) // 2 if seeds else 0
    searches = _searches(decided.search_seeds, pages - for_seeds, reach)
    return (*crawl_directives(seeds, for_seeds, reach), *searches)


def crawl_directives(seeds: Sequence[str], pages: int, reach: Reach) -> tuple[Next, ...]:
    """One directive per seed; `pages` are shared out evenly, the first seeds taking what is left over."""
    seeds = seeds[:pages]
    return tuple(
        Next(
            CrawlDirected(
                url=url,
                max_depth=reach.max_depth,
                page_allowance=allowance,
                byte_allowance=reach.max_bytes * allowance // pages,
                render=reach.render,
            ),
            dedupe_key=crawl_key(url),
            reserve=Spend(pages=allowance),
        )
        for url, allowance in zip(seeds, shares(pages, len(seeds)), strict=True)
    )


def crawl_key(url: str) -> str:
    """The key by which a run crawls a URL once."""
    return f"crawl:{url}"


def shares(total: int, parts: int) -> list[int]:
    """`total` split into `parts` whole shares that differ by one at most, larger first."""
    return [total // parts + (1 if index < total % parts else 0) for index in range(parts)]


def _searches(queries: Sequence[str], pages: int, reach: Reach) -> tuple[Next, ...]:
    return tuple(
        Next(
            SearchDirected(
                query=query,
                locale=reach.locale,
                top_k=reach.search_top_k,
                filters=reach.search_filters,
                crawl_pages=allowance,
                crawl_depth=reach.max_depth,
                byte_allowance=reach.max_bytes * allowance // max(reach.max_pages, 1),
                max_usd=reach.search_usd,
            ),
            dedupe_key=f"search:{query}",
            reserve=Spend(pages=allowance, usd=reach.search_usd),
        )
        for query, allowance in zip(queries, shares(pages, len(queries)), strict=True)
    )


def _lower(ceiling: int, wanted: int | None) -> int:
    return ceiling if wanted is None else min(ceiling, wanted)
