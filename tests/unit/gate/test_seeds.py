"""Where going outside begins."""

from __future__ import annotations

import pytest

from sluice.contracts.gate import Message
from sluice.contracts.plan import Plan
from sluice.gate.profile import SearchQueries, VerticalQuery, load_profiles
from sluice.gate.seeds import SearchSeed, crawl_seeds, list_aims, search_seeds

CODE = SearchQueries(templates=("{query} documentation",), fresh_templates=("{query} {year}",), max_queries=3)


def seeds(query: str, *, time_sensitive: bool = False, queries: SearchQueries = CODE) -> tuple[str, ...]:
    found = search_seeds(query, queries, time_sensitive=time_sensitive, year=2026)
    assert list_aims(found) == ()
    return tuple(seed.query for seed in found)


def test_the_question_itself_comes_first() -> None:
    assert seeds("how does  heapq\nwork") == ("how does heapq work", "how does heapq work documentation")


def test_a_time_sensitive_question_is_searched_for_with_its_year() -> None:
    assert seeds("latest release", time_sensitive=True)[1] == "latest release 2026"


def test_a_template_that_adds_nothing_is_left_out() -> None:
    assert seeds("heapq documentation 2026", time_sensitive=True) == ("heapq documentation 2026",)


def test_there_are_never_more_than_the_profile_says() -> None:
    one = SearchQueries(templates=("{query} documentation",), max_queries=1)
    assert seeds("heapq", queries=one) == ("heapq",)


def test_a_long_question_is_cut_at_a_word() -> None:
    (first, *_) = seeds("word " * 500)
    assert len(first) <= 400
    assert set(first.split()) == {"word"}


def test_braces_in_a_question_are_not_filled_in() -> None:
    assert seeds("what is {query} {year}")[0] == "what is {query} {year}"


def of_profile(name: str, query: str, *, fresh: bool = False, session: tuple[Message, ...] = ()) -> list[SearchSeed]:
    queries = load_profiles()[name].search
    return list(search_seeds(query, queries, time_sensitive=fresh, year=2026, session=session))


def test_a_vulnerability_is_looked_up_in_the_advisory_databases_first() -> None:
    first, *rest = of_profile("code", "is CVE-2024-3094 in my xz")
    assert first.query == "CVE-2024-3094"
    assert "nvd.nist.gov" in first.filters["site"].split(",")
    assert "is CVE-2024-3094 in my xz" in [seed.query for seed in rest]


@pytest.mark.parametrize(
    ("query", "text", "site"),
    [
        ("what does RFC 9309 say of crawl delay", "RFC 9309", "rfc-editor.org"),
        ('"connection reset by peer" in nginx', "connection reset by peer", "github.com"),
        ("GHSA-jfh8-c2jp-5v3q", "GHSA-JFH8-C2JP-5V3Q", "osv.dev"),
        ("sort a list in Python", "sort a list in Python", "docs.python.org"),
        ("generics in C++", "generics in C++", "cppreference.com"),
    ],
)
def test_what_a_question_names_says_where_to_look(query: str, text: str, site: str) -> None:
    first = of_profile("code", query)[0]
    assert first.query == text
    assert site in first.filters["site"].split(",")


def test_a_word_within_another_names_nothing() -> None:
    anywhere = {"site": ",".join(load_profiles()["code"].search.sites)}
    assert [seed.filters for seed in of_profile("code", "what is a pythonic javabean")] == [anywhere] * 3


def test_any_question_on_code_is_searched_for_among_code_and_where_code_is_published() -> None:
    first, second, _ = of_profile("code", "how does heapq work")
    assert (first.vertical, second.vertical) == ("code", "web")
    assert first.query == second.query == "how does heapq work"
    assert "pypi.org" in second.filters["site"].split(",")


def test_marketing_looks_at_the_news_first_and_then_for_brand_campaign_and_region() -> None:
    session = (
        Message(role="system", content="Brand: Acme Cola\nRegion: Germany"),
        Message(role="user", content="Campaign: Summer Splash"),
    )
    found = of_profile("marketing", "what are the reactions", fresh=True, session=session)
    assert found == [
        SearchSeed("what are the reactions", "news", {"freshness": "month"}),
        SearchSeed("Acme Cola Summer Splash Germany", "news", {"freshness": "year"}),
        SearchSeed("what are the reactions"),
    ]


def test_only_a_question_about_something_that_changes_is_held_to_a_date() -> None:
    assert [seed.filters for seed in of_profile("marketing", "who founded it")] == [{}, {}]


def test_a_query_with_a_slot_that_nothing_fills_is_left_out() -> None:
    empty = SearchQueries(verticals=(VerticalQuery(template="{cve} {brand}"),))
    assert search_seeds("CVE-2024-3094", empty, time_sensitive=False, year=2026) == (SearchSeed("CVE-2024-3094"),)


def test_the_question_itself_keeps_its_place_however_many_others_there_are() -> None:
    many = tuple(VerticalQuery(template=f"{{query}} {number}", vertical="news") for number in range(9))
    found = search_seeds("q", SearchQueries(verticals=many, max_queries=3), time_sensitive=False, year=2026)
    assert [seed.query for seed in found] == ["q 0", "q 1", "q"]
    assert [aim.vertical for aim in list_aims(found)] == ["news", "news", "web"]
    alone = search_seeds("q", SearchQueries(verticals=many, max_queries=1), time_sensitive=False, year=2026)
    assert alone == (SearchSeed("q"),)


def test_braces_in_a_slot_are_not_filled_in() -> None:
    session = (Message(role="user", content="Brand: {query}{year}"),)
    queries = SearchQueries(verticals=(VerticalQuery(template="{brand} news"),))
    found = search_seeds("q", queries, time_sensitive=False, year=2026, session=session)
    assert found[0].query == "{query}{year} news"


@pytest.mark.parametrize("url", ["https://example.org/a?b=c#d", "http://127.0.0.1:8000/", "https://münchen.example/ä"])
def test_web_addresses_are_seeds(url: str) -> None:
    assert crawl_seeds([url, url], Plan.FULL_LOOP) == ((url,), ())


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org",
        "ftp://example.org",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://",
        "https://user:pw@example.org/",
        "http://example.org:99999/",
        "http://[::1",
        "http://example.org/\r\nx",
        "http://exa mple.org/",
        "https://example.org/" + "a" * 5_000,
    ],
)
def test_anything_else_is_refused_with_a_reason(url: str) -> None:
    usable, (veto,) = crawl_seeds([url], Plan.FULL_LOOP)
    assert usable == ()
    assert veto.lowered_from is veto.lowered_to is Plan.FULL_LOOP
    assert veto.why
    assert len(veto.why) < 300
