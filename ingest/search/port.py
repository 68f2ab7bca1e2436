"""What every search provider is asked, and what it answers: one call, one page of results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from typing import Protocol

from sluice.contracts.ingest import SearchResult, Vertical
from sluice.ingest.search.filters import SearchFilters

__all__ = ["CODE_SITES", "SearchAnswer", "SearchFilters", "SearchProvider", "SearchQuery", "pages_at_most"]

CODE_SITES = (
    "github.com",
    "stackoverflow.com",
    "gitlab.com",
    "readthedocs.io",
    "docs.python.org",
    "developer.mozilla.org",
    "docs.rs",
    "pkg.go.dev",
)
"""Where code and its documentation are looked for by a provider that knows no such part of the web."""


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A question for a provider. `locale` is `en` or `en-US`; `today` is the UTC day of asking.

    `top_k` results are wanted in all. `page` counts from 1; the pages before it had `skipped` rows together.
    """

    query: str
    locale: str
    top_k: int
    filters: SearchFilters
    today: date
    vertical: Vertical = "web"
    page: int = 1
    skipped: int = 0

    @property
    def language(self) -> str:
        """The language of the locale: `en`."""
        return self.locale.partition("-")[0].lower()

    @property
    def country(self) -> str | None:
        """The country of the locale: `US`, or None."""
        return self.locale.partition("-")[2].upper() or None

    @property
    def missing(self) -> int:
        """How many results are still wanted, were every row before this page one."""
        return max(1, self.top_k - self.skipped)

    @property
    def text(self) -> str:
        """The query with its sites as `site:` operators, which every general engine reads."""
        return f"{self.query} {_operators(self.filters.sites)}".strip()

    def text_within(self, characters: int, words: int) -> str:
        """`text`, its question cut at a word where an interface takes no more. The sites stay, in half of the room."""
        sites = self.filters.sites
        while len(_operators(sites)) > characters // 2:
            sites = sites[:-1]
        operators = _operators(sites)
        kept = self.query.split()[: max(1, words - len(operators.split()))]
        room = characters - len(operators) - 1
        while len(kept) > 1 and len(" ".join(kept)) > room:
            kept.pop()
        return f"{' '.join(kept)[:room]} {operators}".strip()

    def as_web(self) -> SearchQuery:
        """The same for a provider that knows no code: the web, on the sites where code is, unless it names its own."""
        if self.vertical != "code":
            return self
        sites = self.filters.sites or CODE_SITES
        return replace(self, vertical="web", filters=replace(self.filters, sites=sites))


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """What one call brought: results in the provider's order, and what it cost.

    `rows` is how many the provider sent, usable or not; `more`, whether the next page may hold others; each of
    `remarks` says what was left out and why.
    """

    results: tuple[SearchResult, ...]
    cost_usd: float
    rows: int = 0
    more: bool = False
    remarks: tuple[str, ...] = ()


class SearchProvider(Protocol):
    """A web search."""

    @property
    def name(self) -> str:
        """As in `search.providers`."""
        ...

    @property
    def cost_usd_per_call(self) -> float:
        """What one call, which is one page, is billed."""
        ...

    @property
    def page_results(self) -> int:
        """How many results a page has, ordinarily."""
        ...

    @property
    def max_pages(self) -> int:
        """The most pages that are asked for."""
        ...

    def search(self, query: SearchQuery) -> SearchAnswer:
        """Page `query.page` of the answer; without rows only where the provider says that there is nothing.

        Raises:
            Unavailable: it failed. Overloaded: it asks to come back later. TimedOut: it took too long.
            PolicyRefused: rule `egress`: it may not be reached; `bytes`: its answer is too large.
        """
        ...


def pages_at_most(top_k: int, page_results: int, max_pages: int) -> int:
    """How many calls one search of a provider takes at most."""
    return max(1, min(max_pages, -(-top_k // page_results)))


def _operators(sites: tuple[str, ...]) -> str:
    alternatives = " OR ".join(f"site:{site}" for site in sites)
    return f"({alternatives})" if len(sites) > 1 else alternatives
