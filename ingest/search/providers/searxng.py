"""One's own metasearch (docs.searxng.org, Search API). Its `json` format must be switched on there."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.contracts.errors import Unavailable
from sluice.contracts.ingest import Vertical
from sluice.ingest.http.fetch import Fetcher, FetchLimits
from sluice.ingest.search.http_json import Clock, address, read_json
from sluice.ingest.search.parse_results import Fields, answer_from, rows_of
from sluice.ingest.search.port import SearchAnswer, SearchQuery

_CATEGORIES: Mapping[Vertical, str | None] = {"web": None, "news": "news", "code": "it"}
_FIELDS = Fields(url="url", title="title", snippet="content", dates=("publishedDate", "pubdate"))


class Searxng:
    """A SearXNG instance."""

    name = "searxng"
    page_results = 10
    """A page with fewer rows is the last one."""
    max_pages = 5

    def __init__(self, fetcher: Fetcher, *, base_url: str, limits: FetchLimits, clock: Clock, usd: float) -> None:
        self.cost_usd_per_call = usd
        self._fetcher, self._limits, self._clock = fetcher, limits, clock
        self._base_url = base_url.rstrip("/")

    def search(self, query: SearchQuery) -> SearchAnswer:
        """See `SearchProvider`."""
        parameters = {
            "q": query.text,
            "format": "json",
            "language": query.locale,
            "categories": _CATEGORIES[query.vertical],
            "pageno": str(query.page),
            "time_range": query.filters.window(query.today),
        }
        now = self._clock()
        response = self._fetcher.exchange(address(f"{self._base_url}/search", parameters), limits=self._limits)
        body = read_json(response, self.name, now)
        rows = rows_of(body, "results", provider=self.name, may_lack=False)
        silent = rows_of(body, "unresponsive_engines", provider=self.name)
        if not rows and query.page == 1 and silent:
            raise Unavailable(f"searxng found nothing while {len(silent)} of its engines did not answer")
        more = len(rows) >= self.page_results
        return answer_from(rows, _FIELDS, now=now, usd=self.cost_usd_per_call, more=more)
