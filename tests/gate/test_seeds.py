"""Where going outside begins."""

from __future__ import annotations

import pytest

from contracts.gate import Plan
from gate.profile import SearchQueries
from gate.seeds import crawl_seeds, search_seeds

CODE = SearchQueries(templates=("{query} documentation",), fresh_templates=("{query} {year}",), max_queries=3)


def seeds(query: str, *, time_sensitive: bool = False, queries: SearchQueries = CODE) -> tuple[str, ...]:
    return search_seeds(query, queries, time_sensitive=time_sensitive, year=2026)


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
