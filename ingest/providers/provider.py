"""What every search provider is asked, and what it answers.

Filters are read once, here; each provider hands on what its interface can express, and `ingest.search` drops
what came back against them all the same.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Literal, Protocol

from contracts.errors import InvalidInput, Overloaded, Unavailable
from contracts.ingest import SearchResult
from ingest.fetch import Fetched
from ingest.invisible import visible
from ingest.url import registered_domain, within_domains
from ingest.verdict import retry_after_seconds

Freshness = Literal["day", "week", "month", "year"]
_FRESHNESS_DAYS: Mapping[Freshness, int] = {"day": 1, "week": 7, "month": 31, "year": 366}
_MAX_TEXT_CHARACTERS = 2_000
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")


@dataclass(frozen=True, slots=True)
class SearchFilters:
    """Conditions on results: `sites` (these domains only) and a range of publication dates, both ends included."""

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


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A question for a provider. `locale` is `en` or `en-US`; `today` is the UTC day of asking."""

    query: str
    locale: str
    top_k: int
    filters: SearchFilters
    today: date

    @property
    def language(self) -> str:
        """The language of the locale: `en`."""
        return self.locale.partition("-")[0].lower()

    @property
    def country(self) -> str | None:
        """The country of the locale: `US`, or None."""
        return self.locale.partition("-")[2].upper() or None

    @property
    def text(self) -> str:
        """The query with its sites as `site:` operators, which every general engine reads."""
        sites = " OR ".join(f"site:{site}" for site in self.filters.sites)
        return f"{self.query} ({sites})" if len(self.filters.sites) > 1 else f"{self.query} {sites}".strip()


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """What a provider found, in its order, and what asking cost."""

    results: tuple[SearchResult, ...]
    cost_usd: float


class SearchProvider(Protocol):
    """A web search."""

    @property
    def name(self) -> str:
        """As in `search.providers`."""
        ...

    @property
    def cost_usd_per_call(self) -> float:
        """What one call is billed."""
        ...

    def search(self, query: SearchQuery) -> SearchAnswer:
        """The best `query.top_k` results, or fewer; none only where the provider says that there are none.

        Raises:
            Unavailable: it failed. Overloaded: it asks to come back later. TimedOut: it took too long.
            PolicyRefused: rule `egress`: it may not be reached.
        """
        ...


def read_json(answer: Fetched, provider: str, now: datetime) -> Any:
    """The JSON of a provider's response.

    Raises:
        Overloaded: status 429 or 503. Unavailable: another status than 2xx, or no JSON object. The error
            names the provider and what it complains of, never the request.
    """
    if answer.status in {429, 503}:
        raise Overloaded(
            f"{provider} answers {answer.status}", retry_after_seconds(answer.headers.get("retry-after"), now)
        )
    if not 200 <= answer.status < 300:
        raise Unavailable(f"{provider} answers {answer.status}")
    try:
        body = json.loads(answer.body)
    except (ValueError, RecursionError) as error:  # no JSON, no text, or brackets without end
        kind = answer.media_type or "something"
        raise Unavailable(f"{provider} answers with {kind} that is not JSON") from error
    if not isinstance(body, dict):
        raise Unavailable(f"{provider} answers with JSON that is not an object")
    return body


def rows_of(body: Mapping[str, Any], *path: str) -> list[Mapping[str, Any]]:
    """The objects of the list at `path`; empty where there is none."""
    here: Any = body
    for name in path:
        here = here.get(name) if isinstance(here, Mapping) else None
    return [row for row in here if isinstance(row, Mapping)] if isinstance(here, list) else []


def results_from(
    rows: Sequence[Mapping[str, Any]], *, url: str, title: str, snippet: str, dates: Sequence[str] = ()
) -> tuple[SearchResult, ...]:
    """Results of `rows`, whose fields are called `url`, `title`, `snippet` and one of `dates`. Rows without URL go."""
    found: list[SearchResult] = []
    for row in rows:
        address = row.get(url)
        if not isinstance(address, str) or not address:
            continue
        published = next((moment for name in dates if (moment := read_moment(row.get(name)))), None)
        found.append(
            SearchResult(
                url=address,
                title=_plain(row.get(title)) or _plain(address),
                snippet=_plain(row.get(snippet)),
                published_at=published,
                rank=len(found) + 1,
            )
        )
    return tuple(found)


def read_moment(value: object) -> datetime | None:
    """A date as providers write it: ISO 8601, RFC 5322 or `Jan 5, 2024`; None for anything else."""
    if not isinstance(value, str) or not value.strip():
        return None
    for read in (datetime.fromisoformat, parsedate_to_datetime, _american):
        try:
            moment = read(value.strip())
        except (ValueError, TypeError):
            continue
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return None


def _american(text: str) -> datetime:
    return datetime.strptime(text, "%b %d, %Y").replace(tzinfo=UTC)


def _plain(value: object) -> str:
    """Text without the marks that engines put around matched words, and without what a reader cannot see."""
    text = visible(html.unescape(_TAG.sub("", value))) if isinstance(value, str) else ""
    return " ".join(text.split())[:_MAX_TEXT_CHARACTERS]


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
