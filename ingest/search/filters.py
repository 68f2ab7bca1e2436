"""Conditions on search results: which domains, and between which dates.

They are read once, here. Each provider hands on what its interface can express, and `ingest.search.search` drops what
came back against them all the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal

from sluice.contracts.errors import InvalidInput
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
