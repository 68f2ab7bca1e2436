"""What a page and its answer ask of robots."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.ingest.politeness.robots_rules import Directives, read_directives

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def of_header(header: str | None) -> Directives:
    return read_directives(header, (), "SluiceBot", NOW)


def of_meta(*metas: tuple[str, str]) -> Directives:
    return read_directives(None, metas, "SluiceBot", NOW)


def names(directives: Directives) -> set[str]:
    return {name for name in ("noindex", "nofollow", "noarchive", "nosnippet") if getattr(directives, name)}


@pytest.mark.parametrize(
    ("header", "asked"),
    [
        (None, ""),
        ("", ""),
        ("all", ""),
        ("noindex, nofollow", "noindex nofollow"),
        ("NONE", "noindex nofollow"),
        ("noarchive", "noarchive"),
        ("nocache", "noarchive"),
        ("nosnippet", "nosnippet"),
        ("max-snippet:0, max-image-preview: none", "nosnippet"),
        ("max-snippet: 20", ""),
        ("otherbot: noindex, nofollow", ""),
        ("SluiceBot: noindex, otherbot: nofollow", "noindex"),
        ("nofollow, otherbot: noindex", "nofollow"),
        ("max-video-preview: 3, noindex", "noindex"),
        ("unavailable_after: Tue, 25 Jun 2030 15:00:00 PST, noindex", "noindex"),
        ("otherbot: nofollow\nnoindex", "noindex"),
        ("otherbot: nofollow\nSluiceBot: noindex\nthirdbot: none", "noindex"),
        ("SluiceBot/2.1: noindex", "noindex"),
        ("Sluice: noindex\nSluiceBotNews: none", ""),
        ("*: noindex", "noindex"),
        ("\n, ,noindex", "noindex"),
        ("noindex nofollow; noarchive", "noindex nofollow noarchive"),
        ("noindexing, unnofollow", ""),
        ("otherbot: noindex, sluicebot: noarchive, nofollow", "noarchive nofollow"),
    ],
)
def test_each_line_of_the_header_speaks_to_all_robots_or_to_one(header: str | None, asked: str) -> None:
    assert names(of_header(header)) == set(asked.split())


@pytest.mark.parametrize(
    ("name", "content", "asked"),
    [
        ("robots", "NoIndex", "noindex"),
        (" Robots ", "nofollow, noarchive", "nofollow noarchive"),
        ("sluicebot", "none", "noindex nofollow"),
        ("otherbot", "none", ""),
        ("description", "noindex", ""),
        ("robots", "index, follow", ""),
        ("robots", "otherbot: noindex", ""),
        ("robots", "\n noindex\t,\nnosnippet ", "noindex nosnippet"),
    ],
)
def test_elements_speak_by_their_name(name: str, content: str, asked: str) -> None:
    assert names(of_meta((name, content))) == set(asked.split())


def test_what_any_of_them_forbids_is_forbidden() -> None:
    metas = [("robots", "index, nofollow"), ("SluiceBot", "noarchive")]
    assert names(read_directives("noindex", metas, "SluiceBot", NOW)) == {"noindex", "nofollow", "noarchive"}


@pytest.mark.parametrize(
    ("date", "moment"),
    [
        ("25 Jun 2010 15:00:00 PST", datetime(2010, 6, 25, 23, tzinfo=UTC)),
        ("Tue, 25 Jun 2030 15:00:00 GMT", datetime(2030, 6, 25, 15, tzinfo=UTC)),
        ("Friday, 25-Jun-10 15:00:00 GMT", datetime(2010, 6, 25, 15, tzinfo=UTC)),
        ("2030-06-25T15:00:00+02:00", datetime(2030, 6, 25, 13, tzinfo=UTC)),
        ("2030-06-25t15:00:00z", datetime(2030, 6, 25, 15, tzinfo=UTC)),
        ("2010-09-21", datetime(2010, 9, 21, tzinfo=UTC)),
        ("2026-03-01T12:00", NOW),
        ("next week", None),
        ("", None),
        ("9" * 200, None),
        ("31 Feb 2030 00:00:00 GMT", None),
    ],
)
def test_a_page_whose_time_is_over_is_not_indexed(date: str, moment: datetime | None) -> None:
    for found in (of_header(f"unavailable_after: {date}"), of_meta(("robots", f"nofollow, unavailable_after:{date}"))):
        assert found.unavailable_after == moment
        assert found.noindex is (moment is not None and moment <= NOW)


def test_the_earliest_of_two_dates_counts_and_those_for_others_do_not() -> None:
    header = "unavailable_after: 2030-01-02, unavailable_after: 2030-01-01\notherbot: unavailable_after: 2001-01-01"
    assert of_header(header).unavailable_after == datetime(2030, 1, 1, tzinfo=UTC)


TEXTS = st.text("noindex, :;*unavailable_after2030-01T\n\t/Zé", max_size=200) | st.text(max_size=100)


@given(TEXTS, st.lists(st.tuples(st.sampled_from(["robots", "sluicebot", "x"]), TEXTS), max_size=4))
def test_whatever_is_written_is_read(header: str, metas: list[tuple[str, str]]) -> None:
    found = read_directives(header, metas, "SluiceBot", NOW)
    assert found.unavailable_after is None or found.unavailable_after.tzinfo is not None


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)), st.integers(-23, 23))
def test_dates_at_the_ends_of_time_are_dates(moment: datetime, hours: int) -> None:
    sign, size = ("-" if hours < 0 else "+"), abs(hours)
    found = of_header(f"unavailable_after: {moment.isoformat()}{sign}{size:02}:00").unavailable_after
    assert found == moment.replace(tzinfo=timezone(timedelta(hours=hours)))


@pytest.mark.parametrize("text", ["," * 300_000, "unavailable_after:" * 100_000, "a" * 500_000, "a/" * 300_000])
def test_long_texts_are_cut(text: str) -> None:
    started = time.thread_time()
    of_header(text)
    of_meta(*[("robots", text)] * 50)
    assert time.thread_time() - started < 3


@pytest.mark.parametrize(
    ("content", "limit"),
    [
        ("max-snippet:120", 120),
        ("max-snippet: 120, max-snippet:50", 50),
        ("max-snippet:-1", None),
        ("max-snippet:many", None),
        ("index", None),
    ],
)
def test_the_strictest_limit_of_snippets_is_read(content: str, limit: int | None) -> None:
    assert read_directives(None, [("robots", content)], "sluice", datetime(2026, 1, 1, tzinfo=UTC)).max_snippet == limit
