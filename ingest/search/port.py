"""The Protocol of a search provider: one call returns one page of results.

Filters on results (domains, dates) are parsed once, here. Each provider forwards those that its
interface can express, and `ingest.search.search` drops results that violate them all the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Literal, Protocol

from sluice.contracts.errors import InvalidInput
from sluice.contracts.ingest import SearchResult, Vertical
from sluice.ingest.url import registered_domain, within_domains

Freshness = Literal["day", "week", "month", "year"]
MAX_SITES = 10
"""Most domains of one search: as `site:` operators they take half of the characters that a query may have."""

_FRESHNESS_DAYS: Mapping[Freshness, int] = {"day": 1, "week": 7, "month": 31, "year": 366}


@dataclass(frozen=True, slots=True)
class SearchFilters:
    """`sites` (these domains only) and a range of publication dates, both ends included."""

    sites: tuple[str, ...] = ()
    after: date | None = None
    before: date | None = None

    @classmethod
    def read(cls, filters: Mapping[str, str], today: date) -> SearchFilters:
        """Read filters from a directive: `site` (domains, comma separated), `after`, `before` (ISO dates), `freshness`.

        Raises InvalidInput for an unknown filter or an unreadable value, and names it.
        """
        unknown = sorted(filters.keys() - {"site", "after", "before", "freshness"})
        if unknown:
            raise InvalidInput(f"filters.{unknown[0]}", "no such filter", "one of site, after, before, freshness")
        sites = tuple(_site(entry) for entry in filters.get("site", "").split(",") if entry.strip())
        if len(sites) > MAX_SITES:
            raise InvalidInput("filters.site", f"{len(sites)} domains", f"at most {MAX_SITES}")
        after = _day(filters, "after") or _since(filters.get("freshness"), today)
        return cls(sites, after, _day(filters, "before"))

    def window(self, today: date) -> Freshness | None:
        """Return the smallest of day, week, month and year that covers everything since `after`; None for all time."""
        if self.after is None:
            return None
        age_days = (today - self.after).days
        return next((name for name, days in _FRESHNESS_DAYS.items() if age_days <= days), None)

    def admit(self, host: str, published_at: datetime | None) -> bool:
        """Return whether a result passes. One without a date always does: dates are missing more often than wrong."""
        if self.sites and not within_domains(host, self.sites):
            return False
        day = published_at.date() if published_at else None
        too_early = day is not None and self.after is not None and day < self.after
        too_late = day is not None and self.before is not None and day > self.before
        return not (too_early or too_late)


def _site(entry: str) -> str:
    name = entry.strip().lower().strip(".")
    if registered_domain(name) is None or not re.fullmatch(r"[a-z0-9.-]+", name):
        raise InvalidInput("filters.site", f"{entry.strip()!r} is not a domain", "for instance docs.python.org")
    return name


def _day(filters: Mapping[str, str], name: str) -> date | None:
    text = filters.get(name)
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(f"filters.{name}", f"{text!r} is not a date", "for instance 2024-05-31") from error


def _since(freshness: str | None, today: date) -> date | None:
    if freshness is None:
        return None
    for name, days in _FRESHNESS_DAYS.items():
        if name == freshness:
            return today - timedelta(days=days)
    raise InvalidInput("filters.freshness", f"{freshness!r} is unknown", "one of day, week, month, year")


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
"""Sites on which to search for code, for a provider without a code search."""


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A query for a provider. `locale` is `en` or `en-US`; `today` is the UTC day of the search.

    `top_k` is the number of results in all. `page` counts from 1; the pages before it had `skipped` rows together.
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
        """The number of results still missing, if every row before this page is usable."""
        return max(1, self.top_k - self.skipped)

    @property
    def text(self) -> str:
        """The query with its sites as `site:` operators, which every general engine supports."""
        return f"{self.query} {_operators(self.filters.sites)}".strip()

    def text_within(self, characters: int, words: int) -> str:
        """Return `text`, its query cut at a word to fit an interface's limits. The sites stay, in half of the room."""
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
        """Return a web query for a provider without code search: on the query's own sites, else on those with code."""
        if self.vertical != "code":
            return self
        sites = self.filters.sites or CODE_SITES
        return replace(self, vertical="web", filters=replace(self.filters, sites=sites))


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """The result of one call: results in the provider's order, and its cost.

    `rows` is how many the provider sent, usable or not; `more` is whether the next page may hold others; each of
    `remarks` says what was left out and why.
    """

    results: tuple[SearchResult, ...]
    cost_usd: float
    rows: int = 0
    more: bool = False
    remarks: tuple[str, ...] = ()


class SearchProvider(Protocol):
    """A provider of web search."""

    @property
    def name(self) -> str:
        """The name in `search.providers`."""

    @property
    def cost_usd_per_call(self) -> float:
        """The price of one call, which is one page."""

    @property
    def page_results(self) -> int:
        """The usual number of results of a page."""

    @property
    def max_pages(self) -> int:
        """The most pages that are requested."""

    def search(self, query: SearchQuery) -> SearchAnswer:
        """Return page `query.page`; it has no rows only if the provider says that there are no results.

        Raises:
            Unavailable: it failed. Overloaded: it asks to come back later. TimedOut: it took too long.
            PolicyRefused: rule `egress`: it may not be reached; `bytes`: its answer is too large.
        """


def pages_at_most(top_k: int, page_results: int, max_pages: int) -> int:
    """Return the most calls that one search of a provider takes."""
    return max(1, min(max_pages, -(-top_k // page_results)))


def _operators(sites: tuple[str, ...]) -> str:
    alternatives = " OR ".join(f"site:{site}" for site in sites)
    return f"({alternatives})" if len(sites) > 1 else alternatives
