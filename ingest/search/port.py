"""The Protocol of a search provider: one call returns one page of results.

Conditions on results (which domains, between which dates) are read once, here. Each provider hands on what its
interface can express, and `ingest.search.search` drops what came back against them all the same.
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
"""Domains of one search: as `site:` operators they take half of the characters that a query may have."""

_FRESHNESS_DAYS: Mapping[Freshness, int] = {"day": 1, "week": 7, "month": 31, "year": 366}


@dataclass(frozen=True, slots=True)
class SearchFilters:
    """`sites` (these domains only) and a range of publication dates, both ends included."""

    sites: tuple[str, ...] = ()
    after: date | None = None
    before: date | None = None

    @classmethod
    def read(cls, filters: Mapping[str, str], today: date) -> SearchFilters:
        """From a directive: `site` (domains, comma separated), `after`, `before` (ISO dates), `freshness`.

        Raises:
            InvalidInput: an unknown filter or a value that cannot be read; names it.
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
        """The smallest of day, week, month and year that holds everything since `after`; None for all time."""
        if self.after is None:
            return None
        age_days = (today - self.after).days
        return next((name for name, days in _FRESHNESS_DAYS.items() if age_days <= days), None)

    def admit(self, host: str, published_at: datetime | None) -> bool:
        """Whether a result passes. One without a date passes every range: dates are missing more often than wrong."""
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
