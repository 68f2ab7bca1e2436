"""Search the web: the first provider that answers, in order of fail-over.

A provider is asked when its price fits what is left of the directive's ceiling and its quota of the day is
not used up. Its results are normalised, held against filters and allowlist, and ranked anew. When every
provider failed the search failed, and says so: an empty answer always means that somebody looked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from contracts.errors import BudgetExhausted, InvalidInput, Overloaded, PolicyRefused, Unavailable
from contracts.ingest import SearchCompleted, SearchDirected, SearchResult
from ingest.breaker import LeftAlone
from ingest.providers.build import build_providers
from ingest.providers.provider import SearchAnswer, SearchFilters, SearchProvider, SearchQuery
from ingest.quota import BrokerQuota, InMemoryQuota, Quota
from ingest.settings import SearchSettings
from ingest.url import host_of, normalise_url, within_domains
from ingest.wanted import Wanted, always

__all__ = [
    "BrokerQuota",
    "InMemoryQuota",
    "Quota",
    "SearchAnswer",
    "SearchFailed",
    "SearchProvider",
    "SearchQuery",
    "build_providers",
    "search",
]


class QuotaExhausted(Unavailable):
    """The provider was not asked, as its calls of the day are used up."""


class QuotaUnknown(Overloaded):
    """No provider was asked, as calls cannot be counted: that is no provider's fault, and passes."""


class SearchFailed(Unavailable):
    """No provider answered. `reasons` says of each, in order, why not; `asked`, whether any was asked at all."""

    code = "search_failed"

    def __init__(self, reasons: tuple[tuple[str, str], ...], *, asked: bool = True) -> None:
        self.reasons = reasons
        self.asked = asked
        super().__init__("search failed: " + "; ".join(f"{name}: {why}" for name, why in reasons))


def search(
    directed: SearchDirected,
    providers: Sequence[SearchProvider],
    *,
    quota: Quota,
    settings: SearchSettings,
    clock: Callable[[], datetime],
    wanted: Wanted = always,
) -> SearchCompleted:
    """The answer of the first provider that gives one. `clock` gives times with their zone.

    `wanted` is called before each provider is asked; what it raises ends the search.

    Raises:
        PolicyRefused: rule `search`: switched off, or no provider is configured.
        InvalidInput: a filter or the locale cannot be read.
        BudgetExhausted: every provider costs more than `directed.max_usd`.
        SearchFailed: every provider failed or is out of quota.
        QuotaUnknown: calls cannot be counted just now.
    """
    if not settings.enabled:
        raise PolicyRefused("search", "web search is switched off", "search.enabled = true")
    if not providers:
        raise PolicyRefused("search", "no search provider is configured", "an entry in search.providers")
    started = clock()
    query = _query(directed, settings, started)
    reasons: list[tuple[str, str]] = []
    too_dear: list[str] = []
    paid_usd, asked = 0.0, False
    for provider in providers:
        left_usd = directed.max_usd - paid_usd
        if provider.cost_usd_per_call > left_usd:
            too_dear.append(provider.name)
            reasons.append((provider.name, f"costs {provider.cost_usd_per_call:g} USD, {left_usd:g} are left"))
            continue
        wanted()
        try:
            answer = _ask(provider, query, quota, settings.quota_per_day)
        except QuotaUnknown:
            raise
        except (LeftAlone, QuotaExhausted) as error:
            reasons.append((provider.name, str(error)))
            continue
        except (Unavailable, PolicyRefused) as error:
            paid_usd, asked = paid_usd + provider.cost_usd_per_call, True  # even a failed call may be billed
            reasons.append((provider.name, str(error)))
            continue
        answer = replace(answer, cost_usd=answer.cost_usd + paid_usd)
        return _completed(directed, provider.name, answer, query, reasons, settings, started, clock())
    if len(too_dear) == len(providers):
        raise BudgetExhausted(f"{directed.max_usd:g} USD pay for no search by {', '.join(too_dear)}")
    raise SearchFailed(tuple(reasons), asked=asked)


def _ask(provider: SearchProvider, query: SearchQuery, quota: Quota, calls_per_day: int) -> SearchAnswer:
    """The provider's answer, counted against its day; what was not asked in the end is not counted."""
    try:
        taken = quota.take(provider.name, query.today, calls_per_day)
    except Overloaded as error:
        raise QuotaUnknown(str(error), error.retry_after_seconds) from error
    if not taken:
        raise QuotaExhausted(f"its {calls_per_day} calls of the day are used up")
    try:
        return provider.search(query)
    except LeftAlone:
        with contextlib.suppress(Unavailable):  # one call less today: no reason to fail
            quota.give_back(provider.name, query.today)
        raise


def _query(directed: SearchDirected, settings: SearchSettings, now: datetime) -> SearchQuery:
    today = now.astimezone(UTC).date()
    return SearchQuery(
        query=directed.query,
        locale=directed.locale or settings.locale,
        top_k=directed.top_k,
        filters=SearchFilters.read(directed.filters, today),
        today=today,
    )


def _completed(
    directed: SearchDirected,
    provider: str,
    answer: SearchAnswer,
    query: SearchQuery,
    reasons: Sequence[tuple[str, str]],
    settings: SearchSettings,
    started: datetime,
    now: datetime,
) -> SearchCompleted:
    return SearchCompleted(
        query=directed.query,
        provider=provider,
        results=_admitted(answer.results, query, settings.allow_domains),
        cost_usd=answer.cost_usd,
        elapsed_ms=(now - started).total_seconds() * 1_000,
        failed_over_from=tuple(name for name, _ in reasons),
        searched_at=now,
        keep_snippets=directed.crawl_pages == 0,
    )


def _admitted(
    results: Sequence[SearchResult], query: SearchQuery, allow_domains: tuple[str, ...]
) -> tuple[SearchResult, ...]:
    """The usable results, one per page, ranked 1 to `top_k`."""
    kept: dict[str, SearchResult] = {}
    for result in results:
        try:
            url = normalise_url(result.url)
        except InvalidInput:
            continue  # an engine's own link or advertisement: nothing that could be crawled
        host = host_of(url)
        if allow_domains and not within_domains(host, allow_domains):
            continue
        if url not in kept and query.filters.admit(host, result.published_at):
            kept[url] = result.model_copy(update={"url": url, "rank": len(kept) + 1})
        if len(kept) == query.top_k:
            break
    return tuple(kept.values())
