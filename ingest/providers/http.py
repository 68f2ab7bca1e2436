"""The providers with an HTTP interface: SearXNG, Brave, SerpAPI and Tavily.

Each is a request in and a reading of the response out; caps, time limit and egress rules are the
fetcher's. Keys are revealed only while a request is built and stand in no error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from pydantic import SecretStr

from contracts.errors import Unavailable
from contracts.ingest import SearchResult
from ingest.fetch import Fetched, Fetcher, FetchLimits
from ingest.providers.provider import (
    SearchAnswer,
    SearchFilters,
    SearchQuery,
    read_json,
    results_from,
    rows_of,
)

Clock = Callable[[], datetime]

MAX_ANSWER_BYTES = 4_000_000
"""Of one response; a page of twenty results is some 100 KB."""
BRAVE_URL = "https://api.search.brave.com"
SERPAPI_URL = "https://serpapi.com"
TAVILY_URL = "https://api.tavily.com"


class Searxng:
    """One's own metasearch (docs.searxng.org, Search API). Its `json` format must be switched on there."""

    name = "searxng"
    page_results = 10
    """A page with fewer results is the last one."""
    max_pages = 3

    def __init__(self, fetcher: Fetcher, *, base_url: str, limits: FetchLimits, clock: Clock, usd: float) -> None:
        self.cost_usd_per_call = usd
        self._fetcher, self._limits, self._clock = fetcher, limits, clock
        self._base_url = base_url.rstrip("/")

    def search(self, query: SearchQuery) -> SearchAnswer:
        """See `SearchProvider`. Pages are asked for until there are `top_k` results."""
        rows: list[Mapping[str, Any]] = []
        for page in range(1, self.max_pages + 1):
            found = self._page(query, page)
            rows += found
            if len(rows) >= query.top_k or len(found) < self.page_results:
                break
        results = results_from(rows, url="url", title="title", snippet="content", dates=("publishedDate", "pubdate"))
        return SearchAnswer(results, self.cost_usd_per_call)

    def _page(self, query: SearchQuery, page: int) -> list[Mapping[str, Any]]:
        parameters = {
            "q": query.text,
            "format": "json",
            "language": query.locale,
            "pageno": str(page),
            "time_range": query.filters.window(query.today),
        }
        answer = self._fetcher.exchange(_with(f"{self._base_url}/search", parameters), limits=self._limits)
        body = read_json(answer, self.name, self._clock())
        rows = rows_of(body, "results")
        silent = body.get("unresponsive_engines")
        if not rows and page == 1 and silent:
            raise Unavailable(f"searxng found nothing while {len(silent)} of its engines did not answer")
        return rows


class Brave:
    """Brave Search API, web search. At most 20 results per call."""

    name = "brave"
    max_results = 20

    def __init__(
        self, fetcher: Fetcher, *, key: SecretStr, limits: FetchLimits, clock: Clock, usd: float, url: str = BRAVE_URL
    ) -> None:
        self.cost_usd_per_call = usd
        self._fetcher, self._key, self._limits, self._clock, self._url = fetcher, key, limits, clock, url

    def search(self, query: SearchQuery) -> SearchAnswer:
        """See `SearchProvider`."""
        parameters = {
            "q": query.text,
            "count": str(min(query.top_k, self.max_results)),
            "search_lang": query.language,
            "country": query.country,
            "freshness": _brave_freshness(query),
            "text_decorations": "false",
            "result_filter": "web",
        }
        answer = self._fetcher.exchange(
            _with(f"{self._url}/res/v1/web/search", parameters),
            headers={"Accept": "application/json", "X-Subscription-Token": self._key.get_secret_value()},
            limits=self._limits,
        )
        body = read_json(answer, self.name, self._clock())
        if body.get("type") == "ErrorResponse":
            raise Unavailable("brave answers with an error")
        rows = rows_of(body, "web", "results")
        results = results_from(rows, url="url", title="title", snippet="description", dates=("page_age",))
        return SearchAnswer(results, self.cost_usd_per_call)


class SerpApi:
    """SerpAPI's Google engine. It takes its key in the query string only, so its URLs must never be shown."""

    name = "serpapi"
    nothing_found = "hasn't returned any results"
    """Part of the sentence by which it says so, in the field where it puts errors."""

    def __init__(
        self, fetcher: Fetcher, *, key: SecretStr, limits: FetchLimits, clock: Clock, usd: float, url: str = SERPAPI_URL
    ) -> None:
        self.cost_usd_per_call = usd
        self._fetcher, self._key, self._limits, self._clock, self._url = fetcher, key, limits, clock, url

    def search(self, query: SearchQuery) -> SearchAnswer:
        """See `SearchProvider`."""
        parameters = {
            "engine": "google",
            "q": query.text,
            "num": str(query.top_k),
            "hl": query.language,
            "gl": query.country.lower() if query.country else None,
            "tbs": _google_range(query.filters),
            "api_key": self._key.get_secret_value(),
        }
        answer = self._fetcher.exchange(_with(f"{self._url}/search.json", parameters), limits=self._limits)
        body = read_json(answer, self.name, self._clock())
        return SearchAnswer(self._results(body), self.cost_usd_per_call)

    def _results(self, body: Mapping[str, Any]) -> tuple[SearchResult, ...]:
        complaint = body.get("error")
        if complaint and self.nothing_found not in str(complaint):
            raise Unavailable("serpapi answers with an error")
        return results_from(
            rows_of(body, "organic_results"), url="link", title="title", snippet="snippet", dates=("date",)
        )


class Tavily:
    """Tavily, basic depth: one credit per call. At most 20 results."""

    name = "tavily"
    max_results = 20

    def __init__(
        self, fetcher: Fetcher, *, key: SecretStr, limits: FetchLimits, clock: Clock, usd: float, url: str = TAVILY_URL
    ) -> None:
        self.cost_usd_per_call = usd
        self._fetcher, self._key, self._limits, self._clock, self._url = fetcher, key, limits, clock, url

    def search(self, query: SearchQuery) -> SearchAnswer:
        """See `SearchProvider`. Tavily knows no locale but the language of the query itself."""
        answer = self._ask(
            {
                "query": query.query,
                "search_depth": "basic",
                "max_results": min(query.top_k, self.max_results),
                "include_domains": list(query.filters.sites) or None,
                "start_date": query.filters.after.isoformat() if query.filters.after else None,
                "end_date": query.filters.before.isoformat() if query.filters.before else None,
            }
        )
        rows = rows_of(read_json(answer, self.name, self._clock()), "results")
        results = results_from(rows, url="url", title="title", snippet="content", dates=("published_date",))
        return SearchAnswer(results, self.cost_usd_per_call)

    def _ask(self, body: Mapping[str, Any]) -> Fetched:
        content = json.dumps({name: value for name, value in body.items() if value is not None}).encode()
        return self._fetcher.exchange(
            f"{self._url}/search",
            method="POST",
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {self._key.get_secret_value()}"},
            content=content,
            limits=self._limits,
        )


def _with(url: str, parameters: Mapping[str, str | None]) -> str:
    return f"{url}?{urlencode({name: value for name, value in parameters.items() if value is not None})}"


def _brave_freshness(query: SearchQuery) -> str | None:
    filters = query.filters
    if filters.after is None and filters.before is None:
        return None
    first = filters.after.isoformat() if filters.after else "1990-01-01"
    return f"{first}to{(filters.before or query.today).isoformat()}"


def _google_range(filters: SearchFilters) -> str | None:
    if filters.after is None and filters.before is None:
        return None
    bounds = [f"cd_min:{filters.after:%m/%d/%Y}" if filters.after else "", ""]
    bounds[1] = f"cd_max:{filters.before:%m/%d/%Y}" if filters.before else ""
    return ",".join(["cdr:1", *filter(None, bounds)])
