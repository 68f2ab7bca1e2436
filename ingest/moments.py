"""Parses dates in the formats of pages, servers and search providers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_CHARACTERS = 64
"""Longest date; the longest form has some forty."""


def read_moment(value: object) -> datetime | None:
    """Parse a date of ISO 8601, RFC 5322 or RFC 850, or one like `Jan 5, 2024`, to a moment in UTC.

    A date without a zone is read as UTC. Returns None for anything else.
    """
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_CHARACTERS:
        return None
    text = value.strip()
    readers: tuple[Callable[[str], datetime], ...] = (datetime.fromisoformat, parsedate_to_datetime, _american)
    for read in readers:
        try:
            moment = read(text)
            return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    return None


def _american(text: str) -> datetime:
    return datetime.strptime(text, "%b %d, %Y").replace(tzinfo=UTC)
