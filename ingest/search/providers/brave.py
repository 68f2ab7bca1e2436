"""Brave's Search API (api-dashboard.search.brave.com): web search, and news by an interface of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr

from sluice.contracts.errors import Unavailable
from sluice.ingest.http.fetch import Fetcher, FetchLimits
from sluice.ingest.search.http_json import Clock, address, read_json
from sluice.ingest.search.parse_results import Fields, answer_from, rows_of
from sluice.ingest.search.port import SearchAnswer, SearchQuery

BRAVE_URL = "https://api.search.brave.com"
MAX_CHARACTERS = 400
MAX_WORDS = 50
"""Of a query; a longer one is answered with 422."""
MAX_OFFSET = 9
"""The last page that may be asked for, counted from 0."""

_COUNTRIES = """
    AR AT AU BE BR CA CH CL CN DE DK ES FI FR GB HK ID IN IT JP KR MX MY NL NO NZ PH PL PT RU SA SE TR TW US ZA
"""
_LANGUAGES = """
    ar bg bn ca cs da de en es et eu fi fr gl gu he hi hr hu is it kn ko lt lv ml mr ms nb nl pa pl ro ru sk sl sr sv ta
    te th tr uk vi
"""
_NAMES: Mapping[str, str] = {"ja": "jp", "no": "nb", "nn": "nb", "pt": "pt-br", "zh": "zh-hans"}
_LOCAL_NAMES: Mapping[str, str] = {"en-GB": "en-gb", "pt-PT": "pt-pt", "zh-TW": "zh-hant", "zh-HK": "zh-hant"}
"""Languages that go by other names there. Any other is not named at all: an unknown one is answered with 422."""
_FIELDS = Fields(url="url", title="title", snippet="description", dates=("page_age",))


class Brave:
    """Brave Search."""

    name = "brave"
    page_results = 20
    max_pages = MAX_OFFSET + 1

    def __init__(
        self, fetcher: Fetcher, *, key: SecretStr, limits: FetchLimits, clock: Clock, usd: float, url: str = BRAVE_URL
    ) -> None:
        self.cost_usd_per_call = usd
        self._fetcher, self._key, self._limits, self._clock, self._url = fetcher, key, limits, clock, url

    def search(self, query: SearchQuery) -> SearchAnswer:
        """See `SearchProvider`. Pages are counted in whole `count`s, so each asks for as many as the first."""
        now, asked = self._clock(), query.as_web()
        is_news = asked.vertical == "news"
        count = min(asked.top_k, self.page_results)
        parameters = {
            "q": asked.text_within(MAX_CHARACTERS, MAX_WORDS),
            "count": str(count),
            "offset": str(asked.page - 1) if asked.page > 1 else None,
            "search_lang": _language(asked),
            "country": asked.country if asked.country in _COUNTRIES.split() or not asked.country else "ALL",
            "freshness": _freshness(asked),
            "text_decorations": None if is_news else "false",
            "result_filter": None if is_news else "web",
        }
        response = self._fetcher.exchange(
            address(f"{self._url}/res/v1/{'news' if is_news else 'web'}/search", parameters),
            headers={"Accept": "application/json", "X-Subscription-Token": self._key.get_secret_value()},
            limits=self._limits,
        )
        body = read_json(response, self.name, now)
        if body.get("type") != ("news" if is_news else "search"):
            raise Unavailable("brave answers with an error")
        path = ("results",) if is_news else ("web", "results")
        rows = rows_of(body, *path, provider=self.name)
        return answer_from(rows, _FIELDS, now=now, usd=self.cost_usd_per_call, more=_more(body, len(rows), count))


def _more(body: Mapping[str, Any], rows: int, count: int) -> bool:
    """What Brave says of it; where it says nothing, whether the page was full."""
    query = body.get("query")
    said = query.get("more_results_available") if isinstance(query, Mapping) else None
    return said if isinstance(said, bool) else rows >= count


def _language(query: SearchQuery) -> str | None:
    if query.locale in _LOCAL_NAMES:
        return _LOCAL_NAMES[query.locale]
    return _NAMES.get(query.language) or (query.language if query.language in _LANGUAGES.split() else None)


def _freshness(query: SearchQuery) -> str | None:
    filters = query.filters
    if filters.after is None and filters.before is None:
        return None
    first = filters.after.isoformat() if filters.after else "1990-01-01"
    return f"{first}to{(filters.before or query.today).isoformat()}"
