"""Judges a response: a page to read, a reason to come back later, or a named refusal."""

from __future__ import annotations

import email.utils
from datetime import datetime

from sluice.contracts.errors import NotFound, Overloaded, PolicyRefused, Unavailable
from sluice.ingest.extract.media_types import PDF, SUPPORTED, is_textual, settle
from sluice.ingest.http.fetch import Fetched

DEFAULT_RETRY_SECONDS = 30.0
"""Wait after 429 or 503 without a Retry-After."""
MAX_RETRY_SECONDS = 3_600.0
SNIFFED_BYTES = 2_048


def retry_after_seconds(header: str | None, now: datetime) -> float:
    """Return the seconds to wait by a Retry-After (RFC 9110, 10.2.3), at most an hour; 30 if there is none."""
    text = (header or "").strip()
    if text.isdecimal():
        return min(float(text), MAX_RETRY_SECONDS)
    try:
        moment = email.utils.parsedate_to_datetime(text)
        return min(max((moment - now).total_seconds(), 0.0), MAX_RETRY_SECONDS)
    except (ValueError, TypeError, OverflowError):  # the last: a date with too many digits
        return DEFAULT_RETRY_SECONDS


def judge_status(status: int, retry_after: str | None, url: str, now: datetime) -> None:
    """Return if the status is that of a page; otherwise raise its error.

    Raises:
        Overloaded: 429, 503; says when to come back. Unavailable: other 5xx, 408, 425, and 304 to a request
            without conditions.
        PolicyRefused: rule `access`: 401, 403, 407, 451. NotFound: 204 and everything else.
    """
    if 200 <= status < 300 and status != 204:
        return
    if status in {429, 503}:
        raise Overloaded(f"{url} answers {status}", retry_after_seconds(retry_after, now))
    if status >= 500 or status in {304, 408, 425}:
        raise Unavailable(f"{url} answers {status}")
    if status in {401, 403, 407, 451}:
        raise PolicyRefused("access", f"{url} answers {status}", "the site's owner")
    raise NotFound(f"{url} answers {status}")


def judge_media_type(answer: Fetched) -> str:
    """Return the type by which to read the body. Raises PolicyRefused (`media_type`) if nothing here can read it."""
    kind = settle(answer.media_type, answer.final_url, answer.body[:SNIFFED_BYTES])
    if not (is_textual(kind) or kind == PDF) or kind == "image/svg+xml":
        raise PolicyRefused("media_type", f"{answer.final_url} is {kind}", f"a page that is {SUPPORTED}")
    return kind
