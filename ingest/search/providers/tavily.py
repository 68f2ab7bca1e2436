"""Tavily (docs.tavily.com, Search), basic depth: one credit per call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr

from sluice.ingest.http.fetch import Fetched, Fetcher, FetchLimits
from sluice.ingest.search.http_json import Clock, read_json
from sluice.ingest.search.parse_results import Fields, answer_from, rows_of
from sluice.ingest.search.port import SearchAnswer, SearchQuery

TAVILY_URL = "https://api.tavily.com"
MAX_CHARACTERS = 400
"""Of a query, by Tavily's own advice."""
_FIELDS = Fields(url="url", title="title", snippet="content", dates=("published_date",))


class Tavily:
    """Tavily. It has no second page: at most 20 results."""

    name = "tavily"
    page_results = 20
    max_pages = 1

    def __init__(
        self, fetcher: Fetcher, *, key: SecretStr, limits: FetchLimits, clock: Clock, usd: float, url: str = TAVILY_URL
    ) -> None:
        self.cost_usd_per_call = usd
        self._fetcher, self._key, self._limits, self._clock, self._url = fetcher, key, limits, clock, url

    def search(self, query: SearchQuery) -> SearchAnswer:
        """See `SearchProvider`. Tavily knows no locale but the language of the query itself."""
        now, asked = self._clock(), query.as_web()
        response = self._ask(
            {
                "query": " ".join(asked.query.split())[:MAX_CHARACTERS],
                "topic": "news" if asked.vertical == "news" else None,
                "search_depth": "basic",
                "max_results": min(asked.top_k, self.page_results),
                "include_domains": list(asked.filters.sites) or None,
                "start_date": asked.filters.after.isoformat() if asked.filters.after else None,
                "end_date": asked.filters.before.isoformat() if asked.filters.before else None,
            }
        )
        rows = rows_of(read_json(response, self.name, now), "results", provider=self.name, may_lack=False)
        beyond = asked.top_k > self.page_results
        remarks = (f"no more than {self.page_results} results are to be had",) if beyond else ()
        return answer_from(rows, _FIELDS, now=now, usd=self.cost_usd_per_call, remarks=remarks)

    def _ask(self, body: Mapping[str, Any]) -> Fetched:
        content = json.dumps({name: value for name, value in body.items() if value is not None}).encode()
        return self._fetcher.exchange(
            f"{self._url}/search",
            method="POST",
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {self._key.get_secret_value()}"},
            content=content,
            limits=self._limits,
        )
