"""From settings to providers in order of fail-over, each behind its breaker; and what a search takes at most."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

from sluice.contracts.budget import Spend
from sluice.contracts.errors import InvalidSetting, PolicyRefused, Unavailable
from sluice.ingest.circuit_breaker import Breaker, CircuitOpen, provider_rule
from sluice.ingest.http.fetch import Fetcher, FetchLimits
from sluice.ingest.search.ddgs import Ddgs, open_engines
from sluice.ingest.search.parse_results import MAX_ANSWER_BYTES
from sluice.ingest.search.port import SearchAnswer, SearchProvider, SearchQuery, pages_at_most
from sluice.ingest.search.providers import Brave, JsonProvider, Searxng, SerpApi, Tavily
from sluice.ingest.settings import SearchSettings

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
    """The providers that `settings.providers` names. Opens no connection.

    `clock` gives times with their zone, `stopwatch` seconds that only grow.

    Raises:
        InvalidSetting: one of them lacks its key or address.
    """
    rule = provider_rule()
    return tuple(
        Breaking(
            _build(name, settings, fetcher, proxy_url, clock), Breaker(rule, clock=stopwatch, on_open=on_breaker_open)
        )
        for name in settings.providers
    )


def search_at_most(settings: SearchSettings) -> Spend:
    """What one search may take: the price and time of every provider's pages, as a fail-over may have to pay all."""
    if not settings.enabled:
        return Spend()
    calls = {name: _calls_at_most(name, settings.top_k) for name in settings.providers}
    return Spend(
        usd=sum(count * _usd_per_call(name, settings) for name, count in calls.items()),
        milliseconds=sum(calls.values()) * settings.timeout_seconds * 1_000,
    )


def _calls_at_most(name: str, top_k: int) -> int:
    provider = PROVIDERS[name]
    return pages_at_most(top_k, provider.page_results, provider.max_pages)


def _build(
    name: str, settings: SearchSettings, fetcher: Fetcher, proxy_url: str, clock: Callable[[], datetime]
) -> SearchProvider:
    limits = FetchLimits(timeout_seconds=settings.timeout_seconds, max_bytes=MAX_ANSWER_BYTES, max_redirects=0)
    usd = _usd_per_call(name, settings)
    keys = {"brave": settings.brave_api_key, "serpapi": settings.serpapi_api_key, "tavily": settings.tavily_api_key}
    if name == "searxng":
        if not settings.searxng_url:
            raise InvalidSetting("search.searxng_url", "not set", "the address of your SearXNG")
        return Searxng(fetcher, url=settings.searxng_url, limits=limits, clock=clock, usd=usd)
    if name not in keys:
        return Ddgs(fetcher, limits=limits, clock=clock, usd=usd, engines=open_engines(proxy_url))
    key = keys[name]
    if key is None or not key.get_secret_value():
        raise InvalidSetting(f"search.{name}_api_key", "not set", f"your key, or {name} taken out of the list")
    return KEYED[name](fetcher, key=key, limits=limits, clock=clock, usd=usd)


def _usd_per_call(name: str, settings: SearchSettings) -> float:
    """The price of one call. One's own SearXNG costs nothing per call, and neither do public result pages."""
    prices = {
        "brave": settings.brave_usd_per_call,
        "serpapi": settings.serpapi_usd_per_call,
        "tavily": settings.tavily_usd_per_call,
    }
    return prices.get(name, 0.0)


class Breaking:
    """A provider behind its circuit breaker."""

    def __init__(self, provider: SearchProvider, breaker: Breaker) -> None:
        self.name, self.cost_usd_per_call = provider.name, provider.cost_usd_per_call
        self.page_results, self.max_pages = provider.page_results, provider.max_pages
        self._provider = provider
        self._breaker = breaker

    def search(self, query: SearchQuery) -> SearchAnswer:
        """See `SearchProvider`. Raises CircuitOpen without asking while the circuit is open.

        A refusal of egress speaks neither for the provider nor against it; an answer that is too large or in no
        known encoding speaks against it.
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
