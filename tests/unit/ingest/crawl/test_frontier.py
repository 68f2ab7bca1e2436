"""Which links are followed first."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from sluice.contracts.ingest import CrawlScope, PageLink
from sluice.ingest.crawl.frontier import Frontier, LeftOut, is_in_scope, ranked
from sluice.ingest.crawl.sitemap import SitemapUrl

PAGE = "https://docs.example.com/guide/"
SITE = "https://docs.example.com"


def order(*links: str | tuple[str, str], query: str | None = None, known: tuple[SitemapUrl, ...] = ()) -> list[str]:
    found = [PageLink(link) if isinstance(link, str) else PageLink(*link) for link in links]
    return list(ranked(found, page_url=PAGE, query=query, known={one.url: one for one in known}).urls)


def test_without_a_question_near_pages_come_first_then_shallow_ones_then_as_the_page_has_them() -> None:
    links = ["https://other.org/", f"{SITE}/a/b/c", f"{SITE}/z", f"{SITE}/a", "https://www.example.com/top"]
    assert order(*links) == [
        f"{SITE}/z",
        f"{SITE}/a",
        "https://www.example.com/top",
        f"{SITE}/a/b/c",
        "https://other.org/",
    ]


def test_pages_that_callers_call_bad_come_after_the_others_of_their_site_and_their_hosts_later() -> None:
    links = [
        PageLink(f"{SITE}/leases", "How leases work"),
        PageLink(f"{SITE}/z"),
        PageLink("https://www.example.com/b"),
    ]
    plain = ranked(links, page_url=PAGE, query="leases")
    assert list(plain.urls) == [one.url for one in links]
    assert ranked(links, page_url=PAGE, query="leases", doubts={links[0].url: 0.1}).urls == plain.urls
    much = ranked(links, page_url=PAGE, query="leases", doubts={links[0].url: 0.2, "docs.example.com": 0.2})
    assert much.urls == (links[2].url, links[1].url, links[0].url)


def test_what_speaks_of_the_question_comes_first_by_text_or_by_address() -> None:
    links = [
        (f"{SITE}/install", "Installing"),
        (f"{SITE}/a/b/c/1", "Leases and time-outs of a worker"),
        (f"{SITE}/deep/down/worker-leases", ""),
        (f"{SITE}/workers", "All about them"),
    ]
    asked = order(*links, query="How long is the lease of a worker's time-out?")
    assert asked == [links[1][0], links[2][0], links[3][0], links[0][0]]


def test_the_question_s_small_words_count_for_nothing_and_plurals_as_singulars() -> None:
    links = [(f"{SITE}/x/the-how-of-it", "how is the"), (f"{SITE}/x/y/errors", "")]
    assert order(*links, query="how is the error")[0] == links[1][0]


def test_a_question_without_spaces_between_its_words_is_understood() -> None:
    links = [(f"{SITE}/a", "インストール"), (f"{SITE}/b/c", "非同期処理の例外")]
    assert order(*links, query="非同期処理とは")[0] == links[1][0]
    escaped = [f"{SITE}/a", f"{SITE}/b/c/%E9%9D%9E%E5%90%8C%E6%9C%9F"]
    assert order(*escaped, query="非同期処理とは")[0] == escaped[1]


def test_the_site_s_own_word_decides_between_equals_and_the_question_before_it() -> None:
    new, old = datetime(2031, 5, 6, tzinfo=UTC), datetime(2030, 5, 6, tzinfo=UTC)
    known = (
        SitemapUrl(f"{SITE}/minor", new, 0.1),
        SitemapUrl(f"{SITE}/major", old, 0.9),
        SitemapUrl(f"{SITE}/old", old),
        SitemapUrl(f"{SITE}/new", new),
    )
    links = [f"{SITE}/minor", f"{SITE}/unknown", f"{SITE}/old", f"{SITE}/new", f"{SITE}/major"]
    names = ["major", "new", "old", "unknown", "minor"]
    assert order(*links, known=known) == [f"{SITE}/{name}" for name in names]
    assert order(*links, known=known, query="minor thing")[0] == f"{SITE}/minor"


def test_traps_are_told_apart_with_their_names() -> None:
    links = [PageLink(f"{SITE}/a/a/a"), PageLink(f"{SITE}/fine"), PageLink(f"{SITE}/pub/?C=N;O=D")]
    assert ranked(links, page_url=PAGE, query=None) == Frontier(
        (f"{SITE}/fine",), (LeftOut(f"{SITE}/a/a/a", "repetition"), LeftOut(f"{SITE}/pub/?C=N;O=D", "permutation"))
    )


def test_the_next_page_of_a_calendar_that_led_here_is_a_trap() -> None:
    links = [PageLink(f"{SITE}/calendar/2031/07/")]
    page = f"{SITE}/calendar/2031/06/"
    assert ranked(links, page_url=page, query=None).left_out == (LeftOut(links[0].url, "calendar"),)
    came_by = (f"{SITE}/calendar/2031/05/",)
    assert ranked(links, page_url=f"{SITE}/month", query=None, came_by=came_by).urls == ()


def test_strangers_hosts_get_a_few_places_each() -> None:
    links = [f"https://ads{host}.example.org/{number}" for number in range(10) for host in range(2)]
    followed = order(f"{SITE}/last/one/here", *links)
    assert followed[0] == f"{SITE}/last/one/here"
    assert len(followed) == 1 + 2 * 3


def test_nothing_is_followed_twice_and_the_page_itself_not_at_all() -> None:
    assert order((f"{SITE}/a", ""), PAGE, (f"{SITE}/a", "lease")) == [f"{SITE}/a"]
    found = ranked(
        [PageLink(f"{SITE}/b"), PageLink(f"{SITE}/x/a"), PageLink(f"{SITE}/x/a", "lease")], page_url=PAGE, query="lease"
    )
    assert found.urls == (f"{SITE}/x/a", f"{SITE}/b")


@pytest.mark.parametrize("query", ["", "???", "\x00" * 10, "the of and"])
def test_a_question_without_words_orders_as_none(query: str) -> None:
    links = [f"{SITE}/a/b", f"{SITE}/c"]
    assert order(*links, query=query) == order(*links)


@pytest.mark.parametrize(
    ("url", "rules", "is_in"),
    [
        (f"{SITE}/guide/a", {}, True),
        (f"{SITE}/guide/a", {"include": ("/guide/*",)}, True),
        (f"{SITE}/guide/a/b?page=2", {"include": ("/guide/*",)}, True),
        (f"{SITE}/guide", {"include": ("/guide/*",)}, False),
        (f"{SITE}/blog/2031", {"include": ("/guide/*", "/blog/20[23]?")}, True),
        (f"{SITE}/guide/print/a", {"include": ("/guide/*",), "exclude": ("*/print/*",)}, False),
        (f"{SITE}/b%C3%BCcher/a", {"include": ("/bücher/*",)}, True),
        (f"{SITE}/a?sort=up", {"exclude": (f"{SITE}/*[?]sort=*",)}, False),
        ("https://www.example.com/a", {}, True),
        ("https://www.example.com/a", {"reach": "host"}, False),
        ("http://docs.example.com/a", {"reach": "host"}, True),
        ("https://other.org/a", {}, False),
        ("https://other.org/a", {"reach": "any"}, True),
    ],
)
def test_the_crawl_of_a_site_follows_what_its_rules_let_in(url: str, rules: dict[str, Any], is_in: bool) -> None:
    assert is_in_scope(CrawlScope(start=f"{SITE}/", **rules), url) is is_in


def test_the_page_at_which_a_crawl_starts_needs_no_pattern() -> None:
    scope = CrawlScope(start=f"{SITE}/", include=("/guide/*",), exclude=("/",))
    assert is_in_scope(scope, f"{SITE}/", is_start=True)
    assert not is_in_scope(scope, f"{SITE}/")


def test_no_pattern_takes_long() -> None:
    """The worst of those that a request may hold, against the longest address."""
    pattern = "/" + "*a" * 127
    scope = CrawlScope(start=SITE, exclude=(pattern,) * 32)
    began = time.process_time()
    assert is_in_scope(scope, f"{SITE}/{'a' * 4_000}b")
    assert time.process_time() - began < 0.5
