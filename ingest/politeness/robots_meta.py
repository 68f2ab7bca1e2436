"""What a page and its answer ask of robots: `<meta name=robots>` and the `X-Robots-Tag` header.

Directives hold that speak to all robots and that speak to ours by name, together: what one of them forbids is
forbidden, as search engines read them. Promises: reading takes time linear in what is read; what nobody can make
sense of forbids nothing; `none` is `noindex, nofollow`; a page whose `unavailable_after` has passed is `noindex`.

There is no RFC; the words are those of Google's and Bing's documentation of robots meta tags.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import pairwise

MAX_CHARACTERS = 2_000
"""Of one line or one element that are read; an honest one has a hundred."""
MAX_DATE_CHARACTERS = 100
"""Of an `unavailable_after`; the longest form of a date has some forty."""

_AGENT = re.compile(r"\s*(?P<agent>\*|[a-z_-]+)(?:/[^\s:]*)?\s*:(?P<rest>.*)", re.DOTALL)
"""A robot's name, as it stands before the directives for it: no part of a date is one."""
_WITH_VALUE = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
_EXPIRY = "unavailable_after"
_NUMBER = re.compile(r"[0-9]{1,6}")


@dataclass(frozen=True, slots=True)
class Directives:
    """What is asked. `unavailable_after` has its zone, UTC where none is given."""

    noindex: bool = False
    nofollow: bool = False
    noarchive: bool = False
    nosnippet: bool = False
    max_snippet: int | None = None
    """The most characters of the text that may be shown, from `max-snippet`; None for as many as there are."""
    unavailable_after: datetime | None = None


def read_directives(headers: str | None, metas: Iterable[tuple[str, str]], token: str, now: datetime) -> Directives:
    """The directives for the robot with the product token `token`.

    `headers` holds the `X-Robots-Tag` lines, parted by line breaks: whom one of them names, the next does not.
    `metas` are name and content of the page's `<meta>` elements; those of other names are passed over. `now` has a
    zone.
    """
    ours = token.lower()
    parts = list(_header_parts(headers or "", ours))
    for name, content in metas:
        if name.strip().lower() in {"robots", ours}:
            parts += content[:MAX_CHARACTERS].lower().split(",")
    words = frozenset(word for part in parts if ":" not in part for word in part.replace(";", " ").split())
    limits = frozenset(_snippet_limits(parts))
    expires_at = min(_dates(parts), default=None)
    has_expired = expires_at is not None and expires_at <= now
    return Directives(
        noindex=has_expired or not words.isdisjoint({"noindex", "none"}),
        nofollow=not words.isdisjoint({"nofollow", "none"}),
        noarchive=not words.isdisjoint({"noarchive", "nocache"}),
        nosnippet="nosnippet" in words or 0 in limits,
        max_snippet=min((limit for limit in limits if limit), default=None),
        unavailable_after=expires_at,
    )


def _header_parts(headers: str, ours: str) -> Iterator[str]:
    """What stands between the commas of each line, where it is for us or for all."""
    for line in headers.lower().split("\n"):
        agent = ""
        for part in line[:MAX_CHARACTERS].split(","):
            named = _AGENT.fullmatch(part)
            if named and named["agent"] not in _WITH_VALUE:
                agent, part = named["agent"], named["rest"]
            if agent in {"", "*", ours}:
                yield part


def _dates(parts: list[str]) -> Iterator[datetime]:
    """The moments after which the page is gone. A comma within a date (`Tue, 25 Jun …`) has parted it."""
    for part, following in pairwise([*parts, ""]):
        name, _, value = part.partition(":")
        if name.strip() == _EXPIRY:
            found = _date(value) or _date(f"{value},{following}")
            if found is not None:
                yield found


def _date(text: str) -> datetime | None:
    """A date by RFC 822, RFC 850 or ISO 8601; None where it is none."""
    plain = text.strip().upper()
    if not plain or len(plain) > MAX_DATE_CHARACTERS:
        return None
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            found = read(plain)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return None


def _snippet_limits(parts: list[str]) -> Iterator[int]:
    """The numbers of `max-snippet`; -1, for no limit, is left out."""
    for part in parts:
        name, _, value = part.partition(":")
        if name.strip() == "max-snippet" and _NUMBER.fullmatch(value.strip()):
            yield int(value)
