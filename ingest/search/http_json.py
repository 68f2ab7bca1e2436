"""How the providers with an HTTP interface are spoken to: addresses out, JSON objects in.

Caps, time limit and egress rules are the fetcher's. An error names the provider and what it complains of, never the
request: some providers want their key in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from sluice.contracts.errors import Overloaded, Unavailable
from sluice.ingest.http.fetch import Fetched
from sluice.ingest.politeness.response_verdict import retry_after_seconds

Clock = Callable[[], datetime]

MAX_ANSWER_BYTES = 4_000_000
"""Of one response; a page of fifty results is some 250 KB."""

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
    """`url` with those of `parameters` that have a value."""
    return f"{url}?{urlencode({name: value for name, value in parameters.items() if value is not None})}"


def read_json(answer: Fetched, provider: str, now: datetime) -> Mapping[str, Any]:
    """The JSON object of a provider's response.

    Raises:
        Overloaded: status 429 or 503; says when to come back. Unavailable: another status than 2xx, or no JSON
            object; says which, and what the status means there.
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
