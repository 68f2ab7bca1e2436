"""Search providers that answer in JSON, and all providers in order of fail-over, each behind its breaker.

SearXNG   the owner's metasearch (docs.searxng.org, Search API); its `json` format must be switched on there
Brave     api-dashboard.search.brave.com: web search, and news by an interface of their own
SerpAPI   serpapi.com/search-api, its Google engine: web search and Google's news tab
Tavily    docs.tavily.com, Search, basic depth: one credit per call
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from pydantic import SecretStr

from sluice.contracts.budget import Spend
from sluice.contracts.errors import InvalidSetting, PolicyRefused, Unavailable
from sluice.contracts.ingest import Vertical
from sluice.ingest.circuit_breaker import PROVIDER_RULE, Breaker, CircuitOpen
from sluice.ingest.http.fetch import Fetcher, FetchLimits
from sluice.ingest.search.ddgs import Ddgs, open_engines
from sluice.ingest.search.parse_results import MAX_ANSWER_BYTES, Clock, Fields, address, answer_from, read_json, rows_of
from sluice.ingest.search.port import SearchAnswer, SearchFilters, SearchProvider, SearchQuery, pages_at_most
from sluice.ingest.settings import SearchSettings
from sluice.text.pattern_file import PatternFile


class JsonProvider:
    """Common part of the providers. `key` is the owner's, `url` replaces the usual address."""

    name: ClassVar[str]
    page_results: ClassVar[int]
    max_pages: ClassVar[int]
    home: ClassVar[str] = ""
    fields: ClassVar[Fields]

    def __init__(
        self,
        fetcher: Fetcher,
        *,
        limits: FetchLimits,
        clock: Clock,
        usd: float,
        key: SecretStr = SecretStr(""),  # noqa: B008 - frozen
        url: str | None = None,
    ) -> None:
        self.cost_usd_per_call = usd
        self._fetcher, self._limits, self._clock = fetcher, limits, clock
        self._key, self._url = key, (url or self.home).rstrip("/")

    def search(self, query: SearchQuery) -> SearchAnswer:
        """See `SearchProvider`."""
        raise NotImplementedError

    def _ask(self, path: str, **parts: Any) -> tuple[Mapping[str, Any], datetime]:
        """Return the JSON object at `path` and the request's moment; `parts` are those of `Fetcher.exchange`."""
        now = self._clock()
        response = self._fetcher.exchange(f"{self._url}{path}", limits=self._limits, **parts)
        return read_json(response, self.name, now), now

    def _answer(
        self, rows: Sequence[Any], now: datetime, *, more: bool = False, remarks: Sequence[str] = ()
    ) -> SearchAnswer:
        return answer_from(rows, self.fields, now=now, usd=self.cost_usd_per_call, more=more, remarks=remarks)


class Searxng(JsonProvider):
    """A SearXNG instance."""

    name = "searxng"
    page_results = 10
    """A page with fewer rows is the last one."""
    max_pages = 5
    fields = Fields(url="url", title="title", snippet="content", dates=("publishedDate", "pubdate"))
    categories: ClassVar[Mapping[Vertical, str | None]] = {"web": None, "news": "news", "code": "it"}

    def search(self, query: SearchQuery) -> SearchAnswer:
        """See `SearchProvider`."""
        parameters = {
            "q": query.text,
            "format": "json",
            "language": query.locale,
            "categories": self.categories[query.vertical],
            "pageno": str(query.page),
            "time_range": query.filters.window(query.today),
        }
        body, now = self._ask(address("/search", parameters))
        rows = rows_of(body, "results", provider=self.name, may_lack=False)
        silent = rows_of(body, "unresponsive_engines", provider=self.name)
        if not rows and query.page == 1 and silent:
            raise Unavailable(f"searxng found nothing while {len(silent)} of its engines did not answer")
        return self._answer(rows, now, more=len(rows) >= self.page_results)


BRAVE_CHARACTERS = 400
BRAVE_WORDS = 50
"""Most words of a query; a longer one is answered with 422."""
BRAVE_OFFSET = 9
"""Last page that Brave serves, counted from 0."""
_BRAVE = PatternFile(Path(__file__).with_name("brave.toml"))


class Brave(JsonProvider):
    """Brave Search."""

    name = "brave"
    page_results = 20
    max_pages = BRAVE_OFFSET + 1
    home = "https://api.search.brave.com"
    fields = Fields(url="url", title="title", snippet="description", dates=("page_age",))

    def search(self, query: SearchQuery) -> SearchAnswer:
        """See `SearchProvider`. Pages are counted in whole `count`s, so each requests as many as the first."""
        asked = query.as_web()
        is_news = asked.vertical == "news"
        count = min(asked.top_k, self.page_results)
        parameters = {
            "q": asked.text_within(BRAVE_CHARACTERS, BRAVE_WORDS),
            "count": str(count),
            "offset": str(asked.page - 1) if asked.page > 1 else None,
            "search_lang": _language(asked),
            "country": asked.country if asked.country in _BRAVE.words("countries") or not asked.country else "ALL",
            "freshness": _freshness(asked),
            "text_decorations": None if is_news else "false",
            "result_filter": None if is_news else "web",
        }
        body, now = self._ask(
            address(f"/res/v1/{'news' if is_news else 'web'}/search", parameters),
            headers={"Accept": "application/json", "X-Subscription-Token": self._key.get_secret_value()},
        )
        if body.get("type") != ("news" if is_news else "search"):
            raise Unavailable("brave answers with an error")
        rows = rows_of(body, *(("results",) if is_news else ("web", "results")), provider=self.name)
        return self._answer(rows, now, more=_has_more(body, len(rows), count))


def _has_more(body: Mapping[str, Any], rows: int, count: int) -> bool:
    """Return Brave's own statement; without one, whether the page was full."""
    query = body.get("query")
    said = query.get("more_results_available") if isinstance(query, Mapping) else None
    return said if isinstance(said, bool) else rows >= count


def _language(query: SearchQuery) -> str | None:
    names: Mapping[str, str] = _BRAVE.tables["names"]
    language = query.language if query.language in _BRAVE.words("languages") else None
    return names.get(query.locale) or names.get(query.language) or language


def _freshness(query: SearchQuery) -> str | None:
    filters = query.filters
    if filters.after is None and filters.before is None:
        return None
    first = filters.after.isoformat() if filters.after else "1990-01-01"
    return f"{first}to{(filters.before or query.today).isoformat()}"


class SerpApi(JsonProvider):
    """SerpAPI. It takes its key in the query string only, so its URLs must never be shown."""

    name = "serpapi"
    page_results = 10
    """Google's page size, whatever `num` requests."""
    max_pages = 5
    home = "https://serpapi.com"
    fields = Fields(url="link", title="title", snippet="snippet", dates=("date",))
    nothing_found = "hasn't returned any results"
    """Part of SerpAPI's sentence for no results, in the field where it puts errors."""

    def search(self, query: SearchQuery) -> SearchAnswer:
        """See `SearchProvider`. `start` counts results, so a page begins after the rows of those before it."""
        asked = query.as_web()
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
        body, now = self._ask(address("/search.json", parameters))
        rows = rows_of(body, "news_results" if is_news else "organic_results", provider=self.name)
        if not rows:
            self._refuse_complaint(body)
        pagination = body.get("serpapi_pagination")  # its link is not followed: the next request is made here
        return self._answer(rows, now, more=isinstance(pagination, Mapping) and bool(pagination.get("next")))

    def _refuse_complaint(self, body: Mapping[str, Any]) -> None:
        """Raise Unavailable unless the search succeeded, possibly without results."""
        complaint, metadata = body.get("error"), body.get("search_metadata")
        went_well = isinstance(metadata, Mapping) and metadata.get("status") in {"Success", "Cached"}
        if not went_well or (complaint and self.nothing_found not in str(complaint)):
            raise Unavailable("serpapi answers with an error")


def _range(filters: SearchFilters) -> str | None:
    if filters.after is None and filters.before is None:
        return None
    first = f"cd_min:{filters.after:%m/%d/%Y}" if filters.after else ""
    last = f"cd_max:{filters.before:%m/%d/%Y}" if filters.before else ""
    return ",".join(filter(None, ("cdr:1", first, last)))


TAVILY_CHARACTERS = 400
"""Longest query, by Tavily's own advice."""


class Tavily(JsonProvider):
    """Tavily. It has no second page: at most 20 results."""

    name = "tavily"
    page_results = 20
    max_pages = 1
    home = "https://api.tavily.com"
    fields = Fields(url="url", title="title", snippet="content", dates=("published_date",))

    def search(self, query: SearchQuery) -> SearchAnswer:
        """See `SearchProvider`. Tavily has no locale; it uses the language of the query itself."""
        asked = query.as_web()
        told = {
            "query": " ".join(asked.query.split())[:TAVILY_CHARACTERS],
            "topic": "news" if asked.vertical == "news" else None,
            "search_depth": "basic",
            "max_results": min(asked.top_k, self.page_results),
            "include_domains": list(asked.filters.sites) or None,
            "start_date": asked.filters.after.isoformat() if asked.filters.after else None,
            "end_date": asked.filters.before.isoformat() if asked.filters.before else None,
        }
        body, now = self._ask(
            "/search",
            method="POST",
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {self._key.get_secret_value()}"},
            content=json.dumps({name: value for name, value in told.items() if value is not None}).encode(),
        )
        rows = rows_of(body, "results", provider=self.name, may_lack=False)
        beyond = asked.top_k > self.page_results
        remarks = (f"no more than {self.page_results} results are to be had",) if beyond else ()
        return self._answer(rows, now, remarks=remarks)


KEYED: dict[str, type[JsonProvider]] = {provider.name: provider for provider in (Brave, SerpApi, Tavily)}
PROVIDERS: dict[str, type[JsonProvider | Ddgs]] = {Searxng.name: Searxng, **KEYED, Ddgs.name: Ddgs}
"""Every provider by its name in `search.providers`."""


def build_providers(
    settings: SearchSettings,
    *,
    fetcher: Fetcher,
    proxy_url: str,
    clock: Callable[[], datetime],
    stopwatch: Callable[[], float] = time.monotonic,
    on_breaker_open: Callable[[], None] = lambda: None,
) -> tuple[SearchProvider, ...]:
    """Build the providers that `settings.providers` names. Opens no connection.

    `clock` returns times with their zone, `stopwatch` monotonic seconds. Raises InvalidSetting if a provider lacks its
    key or address.
    """
    return tuple(
        Breaking(
            _build(name, settings, fetcher, proxy_url, clock),
            Breaker(PROVIDER_RULE, clock=stopwatch, on_open=on_breaker_open),
        )
        for name in settings.providers
    )


def search_at_most(settings: SearchSettings) -> Spend:
    """Return the most that one search may cost: price and time of all providers' pages, as fail-over may use all."""
    if not settings.enabled:
        return Spend()
    providers = {name: PROVIDERS[name] for name in settings.providers}
    calls = {name: pages_at_most(settings.top_k, one.page_results, one.max_pages) for name, one in providers.items()}
    return Spend(
        usd=sum(count * _usd_per_call(name, settings) for name, count in calls.items()),
        milliseconds=sum(calls.values()) * settings.timeout_seconds * 1_000,
    )


def _build(
    name: str, settings: SearchSettings, fetcher: Fetcher, proxy_url: str, clock: Callable[[], datetime]
) -> SearchProvider:
    limits = FetchLimits(timeout_seconds=settings.timeout_seconds, max_bytes=MAX_ANSWER_BYTES, max_redirects=0)
    usd = _usd_per_call(name, settings)
    if name == "searxng":
        if not settings.searxng_url:
            raise InvalidSetting("search.searxng_url", "not set", "the address of your SearXNG")
        return Searxng(fetcher, url=settings.searxng_url, limits=limits, clock=clock, usd=usd)
    if name not in KEYED:
        return Ddgs(fetcher, limits=limits, clock=clock, usd=usd, engines=open_engines(proxy_url))
    key: SecretStr | None = getattr(settings, f"{name}_api_key")
    if key is None or not key.get_secret_value():
        raise InvalidSetting(f"search.{name}_api_key", "not set", f"your key, or {name} taken out of the list")
    return KEYED[name](fetcher, key=key, limits=limits, clock=clock, usd=usd)


def _usd_per_call(name: str, settings: SearchSettings) -> float:
    """Return the price of one call. The owner's SearXNG and public result pages cost nothing per call."""
    return float(getattr(settings, f"{name}_usd_per_call", 0.0))


class Breaking:
    """A provider behind its circuit breaker."""

    def __init__(self, provider: SearchProvider, breaker: Breaker) -> None:
        self.name, self.cost_usd_per_call = provider.name, provider.cost_usd_per_call
        self.page_results, self.max_pages = provider.page_results, provider.max_pages
        self._provider = provider
        self._breaker = breaker

    def search(self, query: SearchQuery) -> SearchAnswer:
        """See `SearchProvider`. Raises CircuitOpen without a request while the circuit is open.

        A refusal of egress counts neither as success nor as failure; an answer that is too large or in an
        unknown encoding counts as a failure.
        """
        if not self._breaker.admit():
            raise CircuitOpen(f"{self.name} failed most of the last times and is not asked for a while")
        try:
            answer = self._provider.search(query)
        except Unavailable:
            self._breaker.record(failed=True)
            raise
        except PolicyRefused as refusal:
            if refusal.rule != "egress":
                self._breaker.record(failed=True)
            raise
        self._breaker.record(failed=False)
        return answer
