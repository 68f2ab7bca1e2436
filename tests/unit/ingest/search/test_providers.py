"""Each provider by its recorded answers: what it is asked, and what its answers and its failures become."""

from __future__ import annotations

import json
import threading
import time
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from sluice.contracts.errors import Overloaded, PolicyRefused, TimedOut, Unavailable
from sluice.contracts.ingest import SearchResult
from sluice.ingest.http.fetch import Fetcher, FetchLimits
from sluice.ingest.search.parse_results import MAX_ROWS, Fields, answer_from, read_date
from sluice.ingest.search.port import CODE_SITES, SearchFilters, SearchQuery
from sluice.ingest.search.providers import Brave, Searxng, SerpApi, Tavily

NOW = datetime(2024, 5, 10, 12, 0, tzinfo=UTC)
KEY = "k3y-that-must-not-be-shown"
LIMITS = FetchLimits(timeout_seconds=5.0, max_bytes=4_000_000, max_redirects=0)
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


BRAVE_NEWS = {
    "type": "news",
    "query": {"original": "asyncio"},
    "results": [
        {
            "type": "news_result",
            "title": "asyncio in the news",
            "url": "https://news.example.com/asyncio",
            "description": "asyncio is a library",
            "age": "2 days ago",
            "page_age": "2024-05-08T08:00:00",
            "meta_url": {"hostname": "news.example.com"},
        }
    ],
}
SERPAPI_NEWS = {
    "search_metadata": {"id": "1", "status": "Success"},
    "search_parameters": {"engine": "google", "q": "asyncio", "tbm": "nws"},
    "news_results": [
        {
            "position": 1,
            "link": "https://news.example.com/asyncio",
            "title": "asyncio in the news",
            "source": "Example",
            "date": "2 days ago",
            "snippet": "asyncio is a library",
            "thumbnail": "data:image/jpeg;base64,AAAA",
        }
    ],
    "serpapi_pagination": {"current": 1, "next": "https://serpapi.com/search.json?q=asyncio&start=10"},
}
TAVILY_NEWS = {
    "query": "asyncio",
    "results": [
        {
            "url": "https://news.example.com/asyncio",
            "title": "asyncio in the news",
            "score": 0.9,
            "published_date": "Wed, 08 May 2024 08:00:00 GMT",
            "content": "asyncio is a library",
        }
    ],
    "response_time": 1.2,
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


NEWS_PATHS = {"searxng": "/search", "brave": "/res/v1/news/search", "serpapi": "/search.json", "tavily": "/search"}
NEWS = {"searxng": SEARXNG, "brave": BRAVE_NEWS, "serpapi": SERPAPI_NEWS, "tavily": TAVILY_NEWS}
PATHS = {"searxng": "/search", "brave": "/res/v1/web/search", "serpapi": "/search.json", "tavily": "/search"}
ANSWERS = {"searxng": SEARXNG, "brave": BRAVE, "serpapi": SERPAPI, "tavily": TAVILY}


def provider(name: str, site: Any, fetcher: Fetcher, limits: FetchLimits = LIMITS) -> Any:
    base, key = site.url().rstrip("/"), SecretStr(KEY)
    match name:
        case "searxng":
            return Searxng(fetcher, url=base, limits=limits, clock=clock, usd=0.0)
        case "brave":
            return Brave(fetcher, key=key, limits=limits, clock=clock, usd=0.005, url=base)
        case "serpapi":
            return SerpApi(fetcher, key=key, limits=limits, clock=clock, usd=0.015, url=base)
        case _:
            return Tavily(fetcher, key=key, limits=limits, clock=clock, usd=0.008, url=base)


def shaped(name: str, rows: object) -> dict[str, object]:
    """The answer of a provider that holds `rows`."""
    if name == "brave":
        return {"type": "search", "web": {"results": rows}}
    return {"organic_results": rows} if name == "serpapi" else {"results": rows}


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
            (400, {"error": "bad request"}, Unavailable),
            (401, {"error": "Invalid API key"}, Unavailable),
            (402, {"error": "payment required"}, Unavailable),
            (403, {"error": "forbidden"}, Unavailable),
            (422, {"error": {"code": "VALIDATION"}}, Unavailable),
            (429, {"detail": {"error": "slow down"}}, Overloaded),
            (432, {"detail": {"error": "plan limit"}}, Unavailable),
            (500, {}, Unavailable),
            (503, {}, Overloaded),
            (200, ["a", "list"], Unavailable),
            (200, Verbatim("[" * 200_000), Unavailable),
            (200, Verbatim('{"a":' * 100_000), Unavailable),
            (200, Verbatim(f'{{"results": {"9" * 5_000}}}'), Unavailable),
            (200, Verbatim(b"\xff\xfe{".decode("latin-1")), Unavailable),
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

    def test_it_is_asked_again_when_it_says_so(self, name: str, site: Any, fetcher: Fetcher) -> None:
        site.put(PATHS[name], b"{}", 429, Content_Type="application/json", Retry_After="17")
        with pytest.raises(Overloaded) as caught:
            provider(name, site, fetcher).search(question())
        assert caught.value.retry_after_seconds == 17

    @pytest.mark.parametrize("status", [401, 402, 403, 422])
    def test_an_error_says_what_it_means(self, name: str, site: Any, fetcher: Fetcher, status: int) -> None:
        put_json(site, PATHS[name], {"error": KEY}, status)
        with pytest.raises(Unavailable, match=f"{name} answers {status}: (it|the) ") as caught:
            provider(name, site, fetcher).search(question())
        assert KEY not in str(caught.value)

    def test_its_news_are_news(self, name: str, site: Any, fetcher: Fetcher) -> None:
        put_json(site, NEWS_PATHS[name], NEWS[name])
        first = provider(name, site, fetcher).search(question(vertical="news")).results[0]
        assert first.title.startswith("asyncio")
        assert first.published_at is not None
        assert first.published_at.date() in {date(2024, 5, 8), date(2024, 5, 6)}
        sent = {**asked(site), **(json.loads(site.asked[-1].body) if site.asked[-1].body else {})}
        marks = {"searxng": ("categories", "news"), "serpapi": ("tbm", "nws"), "tavily": ("topic", "news")}
        key, value = marks.get(name, ("q", "asyncio site:python.org"))
        assert sent[key] == value

    def test_code_is_looked_for_where_code_is(self, name: str, site: Any, fetcher: Fetcher) -> None:
        put_json(site, PATHS[name], ANSWERS[name])
        tested = provider(name, site, fetcher)
        tested.search(question(vertical="code", filters=SearchFilters()))
        sent = {**asked(site), **(json.loads(site.asked[-1].body) if site.asked[-1].body else {})}
        if name == "searxng":
            assert (sent["categories"], sent["q"]) == ("it", "asyncio")
        else:
            assert all(code_site in str(sent) for code_site in CODE_SITES)
        tested.search(question(vertical="code"))
        sent = {**asked(site), **(json.loads(site.asked[-1].body) if site.asked[-1].body else {})}
        assert "python.org" in str(sent)
        assert "github.com" not in str(sent)

    def test_a_hostile_answer_is_bounded_and_what_is_left_out_is_named(
        self, name: str, site: Any, fetcher: Fetcher
    ) -> None:
        fields = {"serpapi": ("link", "date"), "searxng": ("url", "publishedDate"), "brave": ("url", "page_age")}
        url, date_name = fields.get(name, ("url", "published_date"))
        good = {url: "https://example.com/", "title": "<b onload='x()'>T</b>&#x202e;\U000e0041" + "t" * 9_000}
        rows: list[object] = [
            {**good, date_name: "2031-01-01T00:00:00"},
            {**good, url: "javascript:alert(1)"},
            {**good, url: "data:text/html,<script>alert(1)</script>"},
            {**good, url: "https://user:password@example.com/"},
            {**good, url: "https://example.com/" + "a" * 100_000},
            {**good, url: 7},
            {**good, url: None},
            {**good, "title": ["a", {"b": "c"}], date_name: {"day": 1}, "snippet": 5, "content": 5, "description": 5},
            {**good, date_name: "9999-12-31T23:59:59-23:00"},
            {**good, date_name: "0001-01-01T00:00:00+23:00"},
            "a string",
            ["a", "list"],
            None,
        ]
        put_json(site, PATHS[name], shaped(name, rows))
        answer = provider(name, site, fetcher).search(question())
        assert {result.url for result in answer.results} == {"https://example.com/"}
        assert answer.results[0].title.startswith("Tttt")
        assert len(answer.results[0].title) <= 2_000
        assert answer.results[0].published_at is None
        assert "9 of 13 rows without a usable address" in answer.remarks
        assert any("in the future" in remark for remark in answer.remarks)

    def test_a_hundred_thousand_rows_are_a_page_like_any_other(self, name: str, site: Any, fetcher: Fetcher) -> None:
        rows: list[object] = [{"url": "http://e.co", "link": "http://e.co"}] * 80_000
        put_json(site, PATHS[name], shaped(name, rows))
        tested = provider(name, site, fetcher)
        began = time.thread_time()
        answer = tested.search(question())
        assert time.thread_time() - began < 5
        assert len(answer.results) == MAX_ROWS
        assert f"80000 rows on one page, {MAX_ROWS} of them read" in answer.remarks

    def test_an_answer_without_end_is_refused_by_name(self, name: str, site: Any, fetcher: Fetcher) -> None:
        put_json(site, PATHS[name], Verbatim('{"results": ["' + "a" * 4_100_000 + '"]}'))
        with pytest.raises(PolicyRefused) as refused:
            provider(name, site, fetcher).search(question())
        assert refused.value.rule == "bytes"

    @pytest.mark.parametrize("wrong", ["a string", 5, {"a": 1}, True])
    def test_an_answer_of_another_shape_is_a_failure_and_not_an_empty_answer(
        self, name: str, site: Any, fetcher: Fetcher, wrong: object
    ) -> None:
        put_json(site, PATHS[name], shaped(name, wrong))
        with pytest.raises(Unavailable, match="another shape"):
            provider(name, site, fetcher).search(question())

    @pytest.mark.parametrize("body", [{}, {"error": "internal"}, {"message": "ok", "data": []}])
    def test_an_answer_that_does_not_say_that_it_looked_is_no_empty_answer(
        self, name: str, site: Any, fetcher: Fetcher, body: dict[str, Any]
    ) -> None:
        put_json(site, PATHS[name], body)
        with pytest.raises(Unavailable):
            provider(name, site, fetcher).search(question())

    def test_a_web_page_instead_of_an_answer_is_a_failure(self, name: str, site: Any, fetcher: Fetcher) -> None:
        site.html(PATHS[name], "<html>Please log in")
        with pytest.raises(Unavailable, match="not JSON"):
            provider(name, site, fetcher).search(question())

    def test_its_silence_ends_at_the_time_limit(self, name: str, site: Any, fetcher: Fetcher) -> None:
        released = threading.Event()
        site.call(PATHS[name], lambda handler: released.wait(10))
        hasty = provider(name, site, fetcher, FetchLimits(timeout_seconds=0.3))
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

    def test_searxng_has_more_while_its_pages_are_full(self, site: Any, fetcher: Fetcher) -> None:
        rows = [{"url": f"https://example.com/{number}", "title": "t", "content": ""} for number in range(10)]
        put_json(site, "/search", {"results": rows})
        answer = provider("searxng", site, fetcher).search(question(top_k=15, page=2, skipped=10))
        assert (answer.more, answer.rows, asked(site)["pageno"]) == (True, 10, "2")
        put_json(site, "/search", {"results": rows[:9]})
        assert not provider("searxng", site, fetcher).search(question(top_k=15)).more

    def test_searxng_without_results_and_with_silent_engines_has_failed(self, site: Any, fetcher: Fetcher) -> None:
        put_json(site, "/search", {"results": [], "unresponsive_engines": [["google", "CAPTCHA"]]})
        with pytest.raises(Unavailable, match="engines did not answer"):
            provider("searxng", site, fetcher).search(question())

    def test_brave(self, site: Any, fetcher: Fetcher) -> None:
        put_json(site, "/res/v1/web/search", BRAVE)
        provider("brave", site, fetcher).search(question(top_k=50, locale="pt-BR"))
        parameters = asked(site)
        assert parameters["freshness"] == "2024-05-05to2024-05-09"
        assert (parameters["count"], parameters["search_lang"], parameters["country"]) == ("20", "pt-br", "BR")
        assert "offset" not in parameters
        assert site.asked[-1].headers["x-subscription-token"] == KEY

    @pytest.mark.parametrize(
        ("locale", "language", "country"),
        [
            ("en-GB", "en-gb", "GB"),
            ("ja-JP", "jp", "JP"),
            ("zh-TW", "zh-hant", "TW"),
            ("zh-CN", "zh-hans", "CN"),
            ("pt-PT", "pt-pt", "PT"),
            ("de", "de", None),
            ("de-LI", "de", "ALL"),
            ("sw-KE", None, "ALL"),
        ],
    )
    def test_brave_is_told_locales_by_its_own_names_and_none_that_it_refuses(
        self, site: Any, fetcher: Fetcher, locale: str, language: str | None, country: str | None
    ) -> None:
        put_json(site, "/res/v1/web/search", BRAVE)
        provider("brave", site, fetcher).search(question(locale=locale))
        assert (asked(site).get("search_lang"), asked(site).get("country")) == (language, country)

    def test_brave_pages_by_whole_counts_and_says_whether_there_is_more(self, site: Any, fetcher: Fetcher) -> None:
        put_json(site, "/res/v1/web/search", BRAVE)
        answer = provider("brave", site, fetcher).search(question(top_k=50, page=3, skipped=31))
        assert (asked(site)["offset"], asked(site)["count"]) == ("2", "20")
        assert answer.more
        put_json(site, "/res/v1/web/search", {**BRAVE, "query": {"more_results_available": False}})
        assert not provider("brave", site, fetcher).search(question(top_k=50)).more

    def test_brave_is_asked_nothing_longer_than_it_takes(self, site: Any, fetcher: Fetcher) -> None:
        put_json(site, "/res/v1/web/search", BRAVE)
        provider("brave", site, fetcher).search(question(query="word " * 200))
        text = asked(site)["q"]
        assert text.endswith("word site:python.org")
        assert len(text.split()) <= 50
        provider("brave", site, fetcher).search(question(query="w" * 1_000, filters=SearchFilters()))
        assert len(asked(site)["q"]) <= 400

    def test_serpapi(self, site: Any, fetcher: Fetcher) -> None:
        put_json(site, "/search.json", SERPAPI)
        provider("serpapi", site, fetcher).search(question())
        parameters = asked(site)
        assert parameters["tbs"] == "cdr:1,cd_min:05/05/2024,cd_max:05/09/2024"
        assert (parameters["hl"], parameters["gl"], parameters["num"]) == ("en", "us", "8")

    def test_serpapi_goes_on_behind_the_rows_it_sent_and_never_to_a_link_of_its_answer(
        self, site: Any, fetcher: Fetcher
    ) -> None:
        put_json(site, "/search.json", {**SERPAPI, "serpapi_pagination": {"next": "http://169.254.169.254/"}})
        answer = provider("serpapi", site, fetcher).search(question(top_k=30, page=2, skipped=9))
        assert (answer.more, asked(site)["start"], asked(site)["num"]) == (True, "9", "21")
        put_json(site, "/search.json", SERPAPI)
        assert not provider("serpapi", site, fetcher).search(question()).more

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

    def test_tavily_says_that_it_has_no_more_than_twenty(self, site: Any, fetcher: Fetcher) -> None:
        put_json(site, "/search", TAVILY)
        answer = provider("tavily", site, fetcher).search(question(top_k=50))
        assert json.loads(site.asked[-1].body)["max_results"] == 20
        assert (answer.more, answer.remarks) == (False, ("no more than 20 results are to be had",))


@pytest.mark.parametrize("text", ["", "3 days", None, 5, "yesterday", "1" * 100, "2024-05-06T00:00:00" * 9])
def test_a_date_that_cannot_be_read_is_no_date(text: object) -> None:
    assert read_date(text, NOW) is None


@pytest.mark.parametrize(
    ("text", "day"), [("3 days ago", 7), ("20 hours ago", 9), ("1 week ago", 3), ("May 6, 2024", 6), ("2024-05-06", 6)]
)
def test_an_age_is_a_date_where_it_is_known_when_it_was_said(text: str, day: int) -> None:
    assert read_date(text, NOW) is not None
    assert read_date(text, NOW).date() == date(2024, 5, day)  # type: ignore[union-attr]


characters = st.characters(exclude_categories=())  # lone surrogates too: JSON can carry them
anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(characters, max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
addresses = (
    st.sampled_from(["https://example.com/", "http://[::1]/", "https://e.co/\ud800", "//x", "http://%zz/"]) | anything
)
rows = st.fixed_dictionaries(
    {}, optional={"url": addresses, "title": anything, "body": anything, "date": anything | st.datetimes().map(str)}
)


@given(st.lists(rows | anything, max_size=5))
def test_whatever_the_rows_hold_the_results_are_plain(sent: list[Any]) -> None:
    answer = answer_from(sent, Fields(url="url", title="title", snippet="body", dates=("date",)), now=NOW, usd=0.0)
    assert answer.rows == len(sent)
    for result in answer.results:
        assert SearchResult.model_validate_json(result.model_dump_json()) == result
        assert result.url.startswith(("http://", "https://"))
        assert result.published_at is None or result.published_at <= NOW + timedelta(days=1)
