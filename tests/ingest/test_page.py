"""What a page says to a crawler."""

from __future__ import annotations

import time

import pytest

from ingest.page import header_directives, needs_browser, read_page

URL = "https://docs.example.com/guide/page"
PROSE = "<p>" + "A sentence that a reader can read without any script at all. " * 6 + "</p>"


@pytest.mark.parametrize(
    ("html", "reason"),
    [
        ("<div id=root></div><script src=app.js></script>", "root element"),
        ("<div id='__next'> </div><script type=module src=a.js></script>", "root element"),
        ("<noscript>You need to enable JavaScript to run this app.</noscript><div></div>", "asks for JavaScript"),
        ("<p>Please enable JavaScript.</p><script>go()</script>", "asks for JavaScript"),
        ("<meta http-equiv=refresh content='0; url=/real'>", "meta refresh"),
        ("<p>Loading…</p><script src=a.js></script><script src=b.js></script>", "beside 2 scripts"),
    ],
)
def test_a_shell_that_scripts_fill_is_recognised_with_its_evidence(html: str, reason: str) -> None:
    assert reason in str(needs_browser(f"<html><body>{html}"))


@pytest.mark.parametrize(
    "html",
    [
        "",
        "   ",
        "<!-- nothing -->",
        "<p>short, but all there is</p>",
        PROSE + "<script src=analytics.js></script><noscript>enable javascript</noscript>",
        "<div id=root>" + PROSE + "</div><script src=hydrate.js></script>",
        "<p>short</p><script type='application/ld+json'>{}</script>",
        "<meta http-equiv=refresh content=300><p>a status page",
        "<div>" * 5_000 + PROSE,
    ],
)
def test_a_page_that_can_be_read_as_it_is_needs_no_browser(html: str) -> None:
    assert needs_browser(html) is None


def test_text_inside_scripts_and_styles_is_not_text() -> None:
    assert needs_browser("<style>" + "x " * 500 + "</style><script>" + "y " * 500 + "</script>") is not None


def test_links_are_absolute_normal_once_each_and_near_before_far() -> None:
    facts = read_page(
        "<base href='/guide/'><a href='https://elsewhere.org/x'>1</a><a href='b?utm_source=z#top'>2</a>"
        "<a href='https://example.com/root'>3</a><a href='/guide/b'>4</a><a href='#here'>5</a><a href='page'>6</a>"
        "<a href='mailto:a@b.c'>7</a><a href='javascript:x()'>8</a><a rel='external NoFollow' href='/ad'>9</a>",
        URL,
        "SluiceBot",
    )
    assert facts.links == (
        "https://docs.example.com/guide/b",
        "https://example.com/root",
        "https://elsewhere.org/x",
    )


def test_a_page_may_forbid_to_index_it_or_to_follow_it() -> None:
    link = "<a href='/x'>x</a>"
    for content, noindex, links in [("NoIndex", True, 1), ("nofollow, noarchive", False, 0), ("none", True, 0)]:
        facts = read_page(f"<meta name=Robots content='{content}'>{link}", URL, "SluiceBot")
        assert (facts.noindex, len(facts.links)) == (noindex, links)
    assert read_page(f"<meta name=sluicebot content=noindex>{link}", URL, "SluiceBot").noindex
    assert not read_page(f"<meta name=otherbot content=noindex>{link}", URL, "SluiceBot").noindex


@pytest.mark.parametrize(
    ("header", "directives"),
    [
        (None, set()),
        ("noindex, nofollow", {"noindex", "nofollow"}),
        ("otherbot: noindex, nofollow", set()),
        ("SluiceBot: noindex, otherbot: nofollow", {"noindex"}),
        ("nofollow, otherbot: noindex", {"nofollow"}),
        ("unavailable_after: 25 Jun 2030 15:00:00 PST", {"unavailable_after: 25 jun 2030 15:00:00 pst"}),
        ("max-video-preview: 3, noindex", {"max-video-preview: 3", "noindex"}),
        ("unavailable_after: Tue, 25 Jun 2030 15:00:00 PST, noindex", {"noindex"}),
        ("otherbot: nofollow\nnoindex", {"noindex"}),
        ("otherbot: nofollow\nSluiceBot: noindex\nthirdbot: none", {"noindex"}),
        ("SluiceBot/2.1: noindex", {"noindex"}),
        ("Sluice: noindex\nSluiceBotNews: none", set()),
        ("*: noindex", {"noindex"}),
        ("\n, ,noindex", {"noindex"}),
    ],
)
def test_the_header_speaks_to_all_robots_or_to_one(header: str | None, directives: set[str]) -> None:
    found = header_directives(header, "SluiceBot")
    assert found >= directives
    assert found.isdisjoint({"noindex", "nofollow", "none"} - directives)


def test_the_declared_encoding_of_a_text_does_not_confuse_the_parser() -> None:
    facts = read_page("<?xml version='1.0' encoding='utf-16'?><html><a href='/é'>x</a></html>", URL, "SluiceBot")
    assert facts.links == ("https://docs.example.com/%C3%A9",)


@pytest.mark.parametrize("content", ["0" + " " * 50_000 + "x\ny", "9" * 50_000 + ";url=/next"])
def test_a_refresh_that_is_made_to_hang_us_does_not(content: str) -> None:
    started = time.monotonic()
    read_page(f"<meta http-equiv=refresh content='{content}'>", URL, "SluiceBot")
    assert time.monotonic() - started < 2


def test_notices_within_notices_are_read_once() -> None:
    notice = "<script></script><noscript>" * 200 + "enable " * 60_000
    started = time.process_time()
    assert read_page(notice, URL, "SluiceBot").browser_reason is not None
    assert time.process_time() - started < 4


@pytest.mark.parametrize(
    "content", ["0; url=/next", " 5 ,URL = '/next' ", '0.5;url="/next"', "3;/next", "1 /next", "0;url=/next\n "]
)
def test_a_refresh_is_a_link(content: str) -> None:
    escaped = content.replace('"', "&quot;")
    assert read_page(f'<meta http-equiv=refresh content="{escaped}">', URL, "SluiceBot").links == (
        "https://docs.example.com/next",
    )
