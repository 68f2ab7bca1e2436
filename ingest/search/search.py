"""Searches the web: the providers in order of fail-over, until one answers.

A provider answers page by page. Each page is a call: it is made if its price fits the rest of the directive's
ceiling and the provider's quota of the day is not used up. A page without new results is the last; if a later
page fails, the earlier results stand, with the failure named. Results are normalised, checked against filters and
allowlist, and ranked anew. If every provider failed the search fails with an error: an empty answer always means that
some provider looked, now or a short while ago.

The broker remembers for all workers which providers need not or may not be called again. It keeps one key per provider
and UTC day for the number of calls, `<prefix>:quota:<name>:<YYYY-MM-DD>`; it expires after two days: the counted day,
and one for an operator to look at it. One key per query without results at a provider, `<prefix>:empty:<hash>`, avoids
paying for it twice; it expires after `EMPTY_SECONDS`. Only answers are remembered, never failures. If the broker does
not answer, empty answers are forgotten, which hinders no search.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime

import redis

from sluice.contracts.errors import BudgetExhausted, InvalidInput, Overloaded, PolicyRefused, Unavailable
from sluice.contracts.ingest import SearchCompleted, SearchDirected, SearchResult
from sluice.ingest.circuit_breaker import CircuitOpen
from sluice.ingest.deadline import CancelCheck, never_cancelled
from sluice.ingest.politeness.broker import KeptInBroker, LenientBroker, lua
from sluice.ingest.search.port import SearchAnswer, SearchFilters, SearchProvider, SearchQuery, pages_at_most
from sluice.ingest.settings import SearchSettings
from sluice.ingest.url import host_of, normalise_url, within_domains
from sluice.otel.context import span

KEY_TTL_SECONDS = 2 * 86_400
BROKER_TIMEOUT_SECONDS = 5.0
BROKER_RETRY_SECONDS = 5.0
"""Delay of a search whose quota could not be counted."""


class BrokerQuota(KeptInBroker):
    """A counter per name and day."""

    def __init__(self, broker_url: str, *, key_prefix: str = "sluice") -> None:
        super().__init__(broker_url, key_prefix, BROKER_TIMEOUT_SECONDS)
        self._take = self._redis.register_script(lua("quota_take"))
        self._give_back = self._redis.register_script(lua("quota_give_back"))

    def take(self, name: str, day: date, limit: int) -> bool:
        """Count one call; False, without counting, if `limit` calls were made already.

        Raises Overloaded, with the time to come back, if the counter cannot be reached.
        """
        try:
            return bool(self._take(keys=[self._key("quota", name, day.isoformat())], args=[limit, KEY_TTL_SECONDS]))
        except redis.RedisError as error:
            why = f"the broker does not answer for the quota of {name}"
            raise Overloaded(why, retry_after_seconds=BROKER_RETRY_SECONDS) from error

    def give_back(self, name: str, day: date) -> None:
        """Uncount one call that was taken and not made. Raises Unavailable if the counter cannot be reached."""
        try:
            self._give_back(keys=[self._key("quota", name, day.isoformat())])
        except redis.RedisError as error:
            raise Unavailable(f"the broker does not answer for the quota of {name}") from error


EMPTY_SECONDS = 600.0
"""Time for which a provider is not called again for a query without results."""


class BrokerEmptySearches(LenientBroker):
    """A memory of empty answers, for `seconds`; 0 remembers nothing."""

    def __init__(self, broker_url: str, *, seconds: float = EMPTY_SECONDS, key_prefix: str = "sluice") -> None:
        super().__init__(broker_url, key_prefix=key_prefix)
        self._seconds = math.ceil(seconds)

    def holds(self, provider: str, query: SearchQuery) -> bool:
        """Return whether `provider` recently had no results for `query`."""
        return self._seconds > 0 and self.run(_HOLDS, [self._key("empty", fingerprint(provider, query))], []) == 1

    def add(self, provider: str, query: SearchQuery) -> None:
        """Remember that `provider` has no results for `query`."""
        if self._seconds > 0:
            self.run(_ADD, [self._key("empty", fingerprint(provider, query))], [self._seconds])


def fingerprint(provider: str, query: SearchQuery) -> str:
    """Return 32 hex digits of all inputs that decide whether there are results: neither `top_k` nor the day."""
    filters = query.filters
    dates = [day.isoformat() if day else None for day in (filters.after, filters.before)]
    asked = [provider, " ".join(query.query.split()), query.locale, query.vertical, sorted(filters.sites), dates]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:32]


_HOLDS = "return redis.call('EXISTS', KEYS[1])"
_ADD = "return redis.call('SET', KEYS[1], '', 'EX', ARGV[1])"


class TooDear(BudgetExhausted):
    """A call was not made, as it costs more than is left."""


class QuotaExhausted(Unavailable):
    """The provider was not called, as its calls of the day are used up."""


class QuotaUnknown(Overloaded):
    """No provider was called, as calls cannot be counted: no provider's fault, and temporary."""


class SearchFailed(Unavailable):
    """No provider answered. `reasons` holds each provider's name and reason; `asked` is whether any was called."""

    code = "search_failed"

    def __init__(self, reasons: tuple[tuple[str, str], ...], *, asked: bool = True) -> None:
        self.reasons = reasons
        self.asked = asked
        super().__init__("search failed: " + "; ".join(f"{name}: {why}" for name, why in reasons))


class SearchPostponed(SearchFailed, Overloaded):
    """Every called provider asks to come back later; `retry_after_seconds` is the shortest of their waits."""

    def __init__(self, reasons: tuple[tuple[str, str], ...], retry_after_seconds: float) -> None:
        SearchFailed.__init__(self, reasons)
        self.retry_after_seconds = retry_after_seconds


def search(
    directed: SearchDirected,
    providers: Sequence[SearchProvider],
    *,
    quota: BrokerQuota,
    settings: SearchSettings,
    clock: Callable[[], datetime],
    check_cancelled: CancelCheck = never_cancelled,
    empty: BrokerEmptySearches | None = None,
) -> SearchCompleted:
    """Return the answer of the first provider that gives one. `clock` returns times with their zone.

    `check_cancelled` is called before each call; what it raises ends the search. A provider that `empty` remembers to
    have found nothing for this query is not called again: its empty answer is the result.

    Raises:
        PolicyRefused: rule `search`: switched off, or no provider is configured.
        InvalidInput: a filter or the locale cannot be read.
        BudgetExhausted: every provider costs more than `directed.max_usd`.
        SearchFailed: every provider failed or is out of quota. SearchPostponed: those called say when to come back.
        QuotaUnknown: calls cannot be counted just now.
    """
    if not settings.enabled:
        raise PolicyRefused("search", "web search is switched off", "search.enabled = true")
    if not providers:
        raise PolicyRefused("search", "no search provider is configured", "an entry in search.providers")
    started = clock()
    query = _query(directed, settings, started)
    failover = _Failover(query, quota, settings, check_cancelled, empty, directed.max_usd)
    found = failover.first_answer(providers)
    now = clock()
    return SearchCompleted(
        query=directed.query,
        provider=found.provider,
        results=tuple(result.model_copy(update={"rank": rank}) for rank, result in enumerate(found.results, 1)),
        cost_usd=failover.paid_usd,
        elapsed_ms=(now - started).total_seconds() * 1_000,
        failed_over_from=tuple(name for name, _ in failover.reasons),
        searched_at=now,
        keep_snippets=directed.crawl_pages == 0,
        shortfalls=found.shortfalls,
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """Usable results of one provider's pages, each address once, in its order; and the answer's shortfalls."""

    provider: str
    results: tuple[SearchResult, ...] = ()
    shortfalls: tuple[str, ...] = ()
    is_empty: bool = True
    """Whether the provider reported no results, rather than no usable ones."""


@dataclass(slots=True)
class _Failover:
    """State of one search's fail-over: the failed providers with reasons, and the money paid."""

    query: SearchQuery
    quota: BrokerQuota
    settings: SearchSettings
    check_cancelled: CancelCheck
    empty: BrokerEmptySearches | None
    max_usd: float
    reasons: list[tuple[str, str]] = field(default_factory=list)
    paid_usd: float = 0.0
    calls: int = 0
    waits: list[float] = field(default_factory=list)
    too_dear: int = 0

    def first_answer(self, providers: Sequence[SearchProvider]) -> _Found:
        """Return the first answer. Raises as `search` does."""
        for provider in providers:
            if self.empty is not None and self.empty.holds(provider.name, self.query):
                return _Found(provider.name)
            try:
                found = self._pages(provider)
            except QuotaUnknown:
                raise
            except (Unavailable, PolicyRefused, TooDear) as error:
                self.reasons.append((provider.name, str(error)))
                self.too_dear += isinstance(error, TooDear)
                self.waits += [error.retry_after_seconds] if isinstance(error, Overloaded) else []
            else:
                if found.is_empty and self.empty is not None:
                    self.empty.add(provider.name, self.query)
                return found
        raise self._failure()

    def _failure(self) -> BudgetExhausted | SearchFailed:
        """Return the error for a search that no provider answered."""
        if self.too_dear == len(self.reasons):
            names = ", ".join(name for name, _ in self.reasons)
            return BudgetExhausted(f"{self.max_usd:g} USD pay for no search by {names}")
        if self.calls and len(self.waits) == self.calls:
            return SearchPostponed(tuple(self.reasons), min(self.waits))
        return SearchFailed(tuple(self.reasons), asked=self.calls > 0)

    def _pages(self, provider: SearchProvider) -> _Found:
        """Return the answer of `provider`, as many pages as `top_k` takes. Raises as the first page's call does."""
        query, found, shortfalls, rows = self.query, dict[str, SearchResult](), list[str](), 0
        for page in range(1, pages_at_most(query.top_k, provider.page_results, provider.max_pages) + 1):
            try:
                answer = self._call(provider, replace(query, page=page, skipped=rows))
            except (Unavailable, PolicyRefused, BudgetExhausted) as error:
                if page == 1:
                    raise
                shortfalls.append(f"{provider.name}, page {page}: {error}")
                break
            shortfalls += [f"{provider.name}, page {page}: {remark}" for remark in answer.remarks]
            rows += max(answer.rows, len(answer.results))
            usable = (_usable(result, query, self.settings.allow_domains) for result in answer.results)
            fresh = [result for result in usable if result is not None and result.url not in found]
            for result in fresh:
                found.setdefault(result.url, result)
            if len(found) >= query.top_k or not answer.more or not fresh:
                break
        return _Found(provider.name, tuple(found.values())[: query.top_k], tuple(shortfalls), is_empty=rows == 0)

    def _call(self, provider: SearchProvider, query: SearchQuery) -> SearchAnswer:
        """Make one call; pay for it and count it against the provider's day, unless it was not sent."""
        left_usd = self.max_usd - self.paid_usd
        if provider.cost_usd_per_call > left_usd:
            raise TooDear(f"costs {provider.cost_usd_per_call:g} USD, {left_usd:g} are left")
        self.check_cancelled()
        self._count(provider, query)
        try:
            with span(f"search {provider.name}", kind="client", attributes={"sluice.provider": provider.name}):
                answer = provider.search(query)
        except CircuitOpen:
            with contextlib.suppress(Unavailable):  # one call less today: no reason to fail
                self.quota.give_back(provider.name, query.today)
            raise
        except (Unavailable, PolicyRefused):
            self._pay(provider.cost_usd_per_call)  # even a failed call may be billed
            raise
        self._pay(answer.cost_usd)
        return answer

    def _count(self, provider: SearchProvider, query: SearchQuery) -> None:
        calls_per_day = self.settings.quota_per_day
        try:
            taken = self.quota.take(provider.name, query.today, calls_per_day)
        except Overloaded as error:
            raise QuotaUnknown(str(error), error.retry_after_seconds) from error
        if not taken:
            raise QuotaExhausted(f"its {calls_per_day} calls of the day are used up")

    def _pay(self, usd: float) -> None:
        self.calls += 1
        self.paid_usd += usd


def _query(directed: SearchDirected, settings: SearchSettings, now: datetime) -> SearchQuery:
    today = now.astimezone(UTC).date()
    return SearchQuery(
        query=directed.query,
        locale=directed.locale or settings.locale,
        top_k=directed.top_k,
        filters=SearchFilters.read(directed.filters, today),
        today=today,
        vertical=directed.vertical,
    )


def _usable(result: SearchResult, query: SearchQuery, allow_domains: tuple[str, ...]) -> SearchResult | None:
    """Return the result under its canonical address, if it can be crawled and passes filters and allowlist."""
    try:
        url = normalise_url(result.url)
    except InvalidInput:
        return None  # an engine's own link or advertisement: nothing that could be crawled
    host = host_of(url)
    if allow_domains and not within_domains(host, allow_domains):
        return None
    return result.model_copy(update={"url": url}) if query.filters.admit(host, result.published_at) else None
