"""SerpAPI's Google engine (serpapi.com/search-api): web search and Google's news tab."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr

from sluice.contracts.errors import Unavailable
from sluice.ingest.http.fetch import Fetcher, FetchLimits
from sluice.ingest.search.filters import SearchFilters
from sluice.ingest.search.http_json import Clock, address, read_json
from sluice.ingest.search.parse_results import Fields, answer_from, rows_of
from sluice.ingest.search.port import SearchAnswer, SearchQuery

SERPAPI_URL = "https://serpapi.com"
_FIELDS = Fields(url="link", title="title", snippet="snippet", dates=("date",))


class SerpApi:
    """SerpAPI. It takes its key in the query string only, so its URLs must never be shown."""

    name = "serpapi"
    page_results = 10
    """What Google gives at a time, whatever `num` asks for."""
    max_pages = 5
    nothing_found = "hasn't returned any results"
    """Part of the sentence by which it says so, in the field where it puts errors."""

    def __init__(
        self, fetcher: Fetcher, *, key: SecretStr, limits: FetchLimits, clock: Clock, usd: float, url: str = SERPAPI_URL
    ) -> None:
        self.cost_usd_per_call = usd
        self._fetcher, self._key, self._limits, self._clock, self._url = fetcher, key, limits, clock, url

    def search(self, query: SearchQuery) -> SearchAnswer:
        """See `SearchProvider`. `start` counts results, so a page begins behind the rows of those before it."""
        now, asked = self._clock(), query.as_web()
        is_news = asked.vertical == "news"
        parameters = {
            "engine": "google",
            "q": asked.text,
            "tbm": "nws" if is_news else None,
            "num": str(asked.missing),
            "start": str(asked.skipped) if asked.page > 1 else None,
            "hl": asked.language,
            "gl": asked.country.lower() if asked.country else None,
            "tbs": _range(asked.filters),
            "api_key": self._key.get_secret_value(),
        }
        response = self._fetcher.exchange(address(f"{self._url}/search.json", parameters), limits=self._limits)
        body = read_json(response, self.name, now)
        rows = rows_of(body, "news_results" if is_news else "organic_results", provider=self.name)
        if not rows:
            self._refuse_complaint(body)
        return answer_from(rows, _FIELDS, now=now, usd=self.cost_usd_per_call, more=_has_next(body))

    def _refuse_complaint(self, body: Mapping[str, Any]) -> None:
        """Nothing where it says that the search went well and found nothing."""
        complaint, metadata = body.get("error"), body.get("search_metadata")
        went_well = isinstance(metadata, Mapping) and metadata.get("status") in {"Success", "Cached"}
        if not went_well or (complaint and self.nothing_found not in str(complaint)):
            raise Unavailable("serpapi answers with an error")


def _has_next(body: Mapping[str, Any]) -> bool:
    """Whether it links a next page. The link itself is not followed: the next request is made here, as the first."""
    pagination = body.get("serpapi_pagination")
    return isinstance(pagination, Mapping) and bool(pagination.get("next"))


def _range(filters: SearchFilters) -> str | None:
    if filters.after is None and filters.before is None:
        return None
    first = f"cd_min:{filters.after:%m/%d/%Y}" if filters.after else ""
    last = f"cd_max:{filters.before:%m/%d/%Y}" if filters.before else ""
    return ",".join(filter(None, ("cdr:1", first, last)))
