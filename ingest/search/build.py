"""From settings to providers, in order of fail-over, each behind its breaker; and what a search takes at most."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

from pydantic import SecretStr

from sluice.contracts.budget import Spend
from sluice.contracts.errors import InvalidSetting
from sluice.ingest.circuit_breaker import Breaker, provider_rule
from sluice.ingest.http.fetch import Fetcher, FetchLimits
from sluice.ingest.search.http_json import MAX_ANSWER_BYTES
from sluice.ingest.search.port import SearchProvider, pages_at_most
from sluice.ingest.search.providers.brave import Brave
from sluice.ingest.search.providers.ddgs import Ddgs, open_engines
from sluice.ingest.search.providers.searxng import Searxng
from sluice.ingest.search.providers.serpapi import SerpApi
from sluice.ingest.search.providers.tavily import Tavily
from sluice.ingest.search.with_breaker import Breaking
from sluice.ingest.settings import SearchSettings

PROVIDERS = {provider.name: provider for provider in (Searxng, Brave, SerpApi, Tavily, Ddgs)}
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
            _build(name, settings, fetcher, proxy_url, clock),
            Breaker(rule, clock=stopwatch, on_open=on_breaker_open),
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
    match name:
        case "searxng":
            base_url = settings.searxng_url
            if not base_url:
                raise InvalidSetting("search.searxng_url", "not set", "the address of your SearXNG")
            return Searxng(fetcher, base_url=base_url, limits=limits, clock=clock, usd=usd)
        case "brave":
            key = _key(settings.brave_api_key, name)
            return Brave(fetcher, key=key, limits=limits, clock=clock, usd=usd)
        case "serpapi":
            key = _key(settings.serpapi_api_key, name)
            return SerpApi(fetcher, key=key, limits=limits, clock=clock, usd=usd)
        case "tavily":
            key = _key(settings.tavily_api_key, name)
            return Tavily(fetcher, key=key, limits=limits, clock=clock, usd=usd)
        case _:
            return Ddgs(fetcher, limits=limits, clock=clock, usd=usd, engines=open_engines(proxy_url))


def _usd_per_call(name: str, settings: SearchSettings) -> float:
    """The price of one call. One's own SearXNG costs nothing per call, and neither do public result pages."""
    prices = {
        "brave": settings.brave_usd_per_call,
        "serpapi": settings.serpapi_usd_per_call,
        "tavily": settings.tavily_usd_per_call,
    }
    return prices.get(name, 0.0)


def _key(key: SecretStr | None, provider: str) -> SecretStr:
    if key is None or not key.get_secret_value():
        raise InvalidSetting(f"search.{provider}_api_key", "not set", f"your key, or {provider} taken out of the list")
    return key
