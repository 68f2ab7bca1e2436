"""Search without a key: the result pages of public engines, read by the `ddgs` package through our proxy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ddgs import DDGS
from ddgs.exceptions import DDGSException, RatelimitException, TimeoutException

from contracts.errors import Overloaded, TimedOut, Unavailable
from ingest.providers.provider import Freshness, SearchAnswer, SearchQuery, results_from

_TIME_LIMITS: Mapping[Freshness, str] = {"day": "d", "week": "w", "month": "m", "year": "y"}


class TextSearch(Protocol):
    """The one method of `ddgs.DDGS` that is used."""

    def text(self, query: str, **options: Any) -> list[dict[str, Any]]:
        """Rows of `title`, `href` and `body`."""
        ...


OpenSearch = Callable[[str, int], TextSearch]
"""From the proxy's URL and a time limit in whole seconds."""


def open_ddgs(proxy_url: str, timeout_seconds: int) -> TextSearch:
    """A fresh `DDGS`: it keeps connections, and belongs to one search."""
    search: TextSearch = DDGS(proxy=proxy_url, timeout=timeout_seconds)
    return search


class Ddgs:
    """Public engines by `ddgs`. An engine that blocks us shows as one that finds nothing, so nothing is a failure."""

    name = "ddgs"

    def __init__(
        self, *, proxy_url: str, timeout_seconds: float, usd: float, open_search: OpenSearch = open_ddgs
    ) -> None:
        self.cost_usd_per_call = usd
        self._proxy_url = proxy_url
        self._timeout_seconds = max(1, round(timeout_seconds))
        self._open_search = open_search

    def search(self, query: SearchQuery) -> SearchAnswer:
        """See `SearchProvider`."""
        window = query.filters.window(query.today)
        try:
            rows = self._open_search(self._proxy_url, self._timeout_seconds).text(
                query.text,
                region=f"{(query.country or 'wt').lower()}-{query.language if query.country else 'wt'}",
                timelimit=_TIME_LIMITS[window] if window else None,
                max_results=query.top_k,
            )
        except RatelimitException as error:
            raise Overloaded("ddgs: the engines ask to come back later", 60.0) from error
        except TimeoutException as error:
            raise TimedOut(f"ddgs did not answer within {self._timeout_seconds} s") from error
        except DDGSException as error:
            raise Unavailable("ddgs: no engine gave results") from error
        if not rows:
            raise Unavailable("ddgs: no engine gave results")
        return SearchAnswer(results_from(rows, url="href", title="title", snippet="body"), self.cost_usd_per_call)
