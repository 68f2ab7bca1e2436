"""From settings to providers, in order of fail-over, each behind its breaker."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from pydantic import SecretStr

from contracts.errors import InvalidSetting
from ingest.fetch import Fetcher, FetchLimits
from ingest.providers.breaker import Breaking
from ingest.providers.http import MAX_ANSWER_BYTES, Brave, Searxng, SerpApi, Tavily
from ingest.providers.keyless import Ddgs
from ingest.providers.provider import SearchProvider
from ingest.settings import SearchSettings


def build_providers(
    settings: SearchSettings, *, fetcher: Fetcher, proxy_url: str, clock: Callable[[], datetime]
) -> tuple[SearchProvider, ...]:
    """The providers that `settings.providers` names. Opens no connection.

    Raises:
        InvalidSetting: one of them lacks its key or address.
    """
    return tuple(
        Breaking(
            _build(name, settings, fetcher, proxy_url, clock),
            failures=settings.breaker_failures,
            reset_seconds=settings.breaker_reset_seconds,
        )
        for name in settings.providers
    )


def _build(
    name: str, settings: SearchSettings, fetcher: Fetcher, proxy_url: str, clock: Callable[[], datetime]
) -> SearchProvider:
    limits = FetchLimits(timeout_seconds=settings.timeout_seconds, max_bytes=MAX_ANSWER_BYTES, max_redirects=0)
    match name:
        case "searxng":
            base_url = settings.searxng_url
            if not base_url:
                raise InvalidSetting("search.searxng_url", "not set", "the address of your SearXNG")
            usd = settings.searxng_usd_per_call
            return Searxng(fetcher, base_url=base_url, limits=limits, clock=clock, usd=usd)
        case "brave":
            key, usd = _key(settings.brave_api_key, name), settings.brave_usd_per_call
            return Brave(fetcher, key=key, limits=limits, clock=clock, usd=usd)
        case "serpapi":
            key, usd = _key(settings.serpapi_api_key, name), settings.serpapi_usd_per_call
            return SerpApi(fetcher, key=key, limits=limits, clock=clock, usd=usd)
        case "tavily":
            key, usd = _key(settings.tavily_api_key, name), settings.tavily_usd_per_call
            return Tavily(fetcher, key=key, limits=limits, clock=clock, usd=usd)
        case _:
            usd = settings.ddgs_usd_per_call
            return Ddgs(proxy_url=proxy_url, timeout_seconds=settings.timeout_seconds, usd=usd)


def _key(key: SecretStr | None, provider: str) -> SecretStr:
    if key is None or not key.get_secret_value():
        raise InvalidSetting(f"search.{provider}_api_key", "not set", f"your key, or {provider} taken out of the list")
    return key
