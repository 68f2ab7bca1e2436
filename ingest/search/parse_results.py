"""Parses a provider's response into results, whatever it holds: JSON objects in, bounded rows out.

Promises: at most `MAX_ROWS` of a page are read and each field is bounded; an address is crawlable and in
canonical form; titles and snippets are plain text without invisible characters; a date is not in the future;
omissions are reported as remarks. An error names the provider and its complaint, never the request: some providers
require their key in it. Caps, time limit and egress rules are the fetcher's.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from sluice.contracts.errors import InvalidInput, Overloaded, Unavailable
from sluice.contracts.ingest import SearchResult
from sluice.ingest.http.fetch import Fetched
from sluice.ingest.moments import read_moment
from sluice.ingest.politeness.hosts import retry_after_seconds
from sluice.ingest.search.port import SearchAnswer
from sluice.ingest.url import normalise_url
from sluice.text.hidden import visible

MAX_ROWS = 100
"""Most rows read of one page. The largest requested page has 50."""
MAX_TEXT_CHARACTERS = 2_000
"""Longest title or snippet."""

_WRONG = object()
_READ_CHARACTERS = 4 * MAX_TEXT_CHARACTERS
_LEEWAY = timedelta(days=1)
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")
_AGO = re.compile(r"(\d{1,3}) (minute|hour|day|week|month|year)s? ago", re.ASCII)
_UNITS: Mapping[str, timedelta] = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
    "month": timedelta(days=30),
    "year": timedelta(days=365),
}


@dataclass(frozen=True, slots=True)
class Fields:
    """Names of a provider's fields in a row; the first readable one of `dates` is the publication."""

    url: str
    title: str
    snippet: str
    dates: tuple[str, ...] = ()


def rows_of(body: Mapping[str, Any], *path: str, provider: str, may_lack: bool = True) -> list[Any]:
    """Return the list at `path`; empty if there is none and the provider's answers `may_lack` it.

    Raises Unavailable if something else is there, so that the results are unknown.
    """
    here: Any = body
    for name in path:
        here = here.get(name) if isinstance(here, Mapping) else _WRONG
        if here is None and may_lack:
            return []
    if not isinstance(here, list):
        raise Unavailable(f"{provider} answers with JSON of another shape: {'.'.join(path)}")
    return here


def answer_from(
    rows: Sequence[Any], fields: Fields, *, now: datetime, usd: float, more: bool = False, remarks: Sequence[str] = ()
) -> SearchAnswer:
    """Build the answer from `rows`; those without a usable address are left out."""
    read = [_result(row, fields, now) for row in rows[:MAX_ROWS]]
    found = [result for result, _ in read if result is not None]
    ranked = tuple(result.model_copy(update={"rank": rank}) for rank, result in enumerate(found, 1))
    future = sum(is_future for _, is_future in read)
    told = [*remarks]
    if len(rows) > MAX_ROWS:
        told.append(f"{len(rows)} rows on one page, {MAX_ROWS} of them read")
    if len(found) < len(read):
        told.append(f"{len(read) - len(found)} of {len(read)} rows without a usable address")
    if future:
        told.append(f"{future} dates in the future")
    return SearchAnswer(ranked, usd, rows=len(rows), more=more, remarks=tuple(told))


def read_date(value: object, now: datetime) -> datetime | None:
    """Parse a provider's date to UTC, `3 days ago` before `now` included. None for anything else."""
    age = _AGO.fullmatch(value.strip()) if isinstance(value, str) else None
    return now - int(age[1]) * _UNITS[age[2]] if age else read_moment(value)


def _result(row: Any, fields: Fields, now: datetime) -> tuple[SearchResult | None, bool]:
    """Return the result in a row, and whether its date is in the future."""
    address = row.get(fields.url) if isinstance(row, Mapping) else None
    if not isinstance(address, str) or not address:
        return None, False
    try:
        url = normalise_url(address)
    except InvalidInput:
        return None, False
    moments = (read_date(row.get(name), now) for name in fields.dates)
    published = next((moment for moment in moments if moment is not None), None)
    is_future = published is not None and published > now + _LEEWAY
    return (
        SearchResult(
            url=url,
            title=_plain(row.get(fields.title)) or _plain(address),
            snippet=_plain(row.get(fields.snippet)),
            published_at=None if is_future else published,
            rank=1,
        ),
        is_future,
    )


def _plain(value: object) -> str:
    """Strip the marks that engines put around matched words, and invisible characters."""
    if not isinstance(value, str):
        return ""
    text = visible(html.unescape(_TAG.sub("", value[:_READ_CHARACTERS])))
    return " ".join(text.split())[:MAX_TEXT_CHARACTERS]


Clock = Callable[[], datetime]

MAX_ANSWER_BYTES = 4_000_000
"""Largest response; a page of fifty results is some 250 KB."""

_MEANINGS: Mapping[int, str] = {
    400: "it does not take the query so",
    401: "it does not take the key",
    402: "the plan is used up",
    403: "it does not let us in: the key, or an interface that is switched off there",
    422: "it does not take the query so",
    432: "the plan is used up",
    433: "the plan is used up",
}
"""432 and 433 are Tavily's, for the limits of a key and of a plan (docs.tavily.com, Search)."""


def address(url: str, parameters: Mapping[str, str | None]) -> str:
    """Return `url` with those of `parameters` that have a value."""
    return f"{url}?{urlencode({name: value for name, value in parameters.items() if value is not None})}"


def read_json(answer: Fetched, provider: str, now: datetime) -> Mapping[str, Any]:
    """Return the JSON object of a provider's response.

    Raises Overloaded for status 429 or 503, with the time to come back; Unavailable for another status than 2xx (naming
    it and its meaning for the provider) and for anything but a JSON object.
    """
    if answer.status in {429, 503}:
        seconds = retry_after_seconds(answer.headers.get("retry-after"), now)
        raise Overloaded(f"{provider} answers {answer.status}", seconds)
    if not 200 <= answer.status < 300:
        meaning = _MEANINGS.get(answer.status)
        raise Unavailable(f"{provider} answers {answer.status}" + (f": {meaning}" if meaning else ""))
    try:
        body = json.loads(answer.body)
    except (ValueError, RecursionError) as error:  # no JSON, no text, or brackets without end
        kind = answer.media_type or "something"
        raise Unavailable(f"{provider} answers with {kind} that is not JSON") from error
    if not isinstance(body, dict):
        raise Unavailable(f"{provider} answers with JSON that is not an object")
    return body
