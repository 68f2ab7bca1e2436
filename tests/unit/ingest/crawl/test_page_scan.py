"""What a page says to a crawler."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from sluice.contracts.ingest import PageLink
from sluice.ingest.crawl.page_scan import MAX_LINKS, MAX_TEXT_CHARACTERS, PageFacts, browser_helped, read_page
from sluice.ingest.politeness.robots_rules import Directives, read_directives

URL = "https://docs.example.com/guide/page"

PROSE = "<p>" + "A sentence that a reader can read without any script at all. " * 6 + "</p>"


def read(html: str) -> PageFacts:
    return read_page(html, URL, "SluiceBot")


def links(html: str) -> list[str]:
    return [anchor.url for anchor in read(html).anchors]


def needs_browser(html: str) -> str | None:
    return read(html).browser_reason


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
    found = links(
        "<base href='/guide/'><a href='https://elsewhere.org/x'>1</a><a href='b?utm_source=z#top'>2</a>"
        "<a href='https://example.com/root'>3</a><a href='/guide/b'>4</a><a href='#here'>5</a><a href='page'>6</a>"
        "<a href='mailto:a@b.c'>7</a><a href='javascript:x()'>8</a><a rel='external NoFollow' href='/ad'>9</a>"
    )
    assert found == ["https://docs.example.com/guide/b", "https://example.com/root", "https://elsewhere.org/x"]


@pytest.mark.parametrize(
    ("anchor", "text"),
    [
        ("<a href=/x>Plain  words\n here</a>", "Plain words here"),
        ("<a href=/x>Set <b>every</b> <i>thing</i> up</a>", "Set every thing up"),
        ("<a href=/x title='In full'><img src=i.png></a>", "In full"),
        ("<a href=/x aria-label='Next page'>&nbsp;</a>", "Next page"),
        ("<a href=/x></a><a href=/x>told later</a>", "told later"),
        ("<a href=/x>first</a><a href=/x>second</a>", "first"),
        ("<area href=/x title=map>", "map"),
        ("<a href=/x>" + "word " * 5_000 + "</a>", ("word " * 40).strip()),
        ("<a href=/x>" + "<b>w</b>" * 5_000 + "</a>", " ".join("w" * 20)),
    ],
)
def test_a_link_tells_what_a_reader_sees_of_it(anchor: str, text: str) -> None:
    [link] = read(anchor).anchors
    assert link == PageLink("https://docs.example.com/x", text)
    assert len(text) <= MAX_TEXT_CHARACTERS


@pytest.mark.parametrize(
    "html",
    [
        "<a hidden href=/trap>x</a>",
        "<a style='display:none' href=/trap>x</a>",
        "<div style='position:absolute;left:-9999px'><p><a href=/trap>x</a></p></div>",
        "<div hidden><div style='color:red'><a href=/trap>x</a></div></div>",
        "<p style='display:none'><map><area href=/trap></map></p>",
    ],
)
def test_links_that_no_reader_can_see_are_not_followed(html: str) -> None:
    assert links(html + "<p style='color:red'><a href=/seen>y</a><a href=/too>z</a>") == [
        "https://docs.example.com/seen",
        "https://docs.example.com/too",
    ]


def test_what_is_shown_when_it_is_looked_for_is_followed() -> None:
    assert links("<div hidden=until-found><a href=/x>y</a></div>") == ["https://docs.example.com/x"]


def test_a_page_of_endless_links_is_read_so_far() -> None:
    assert len(links("".join(f"<a href=/{number}>x</a>" for number in range(MAX_LINKS + 500)))) == MAX_LINKS


def test_what_it_asks_of_robots_is_told_for_all_and_for_ours() -> None:
    facts = read(
        "<meta name=Robots content='noarchive'><meta name=sluicebot content=NOINDEX><meta name=otherbot content=none>"
        "<meta name=description content=noindex><a href=/x>x</a>"
    )
    assert facts.meta_robots == (("robots", "noarchive"), ("sluicebot", "NOINDEX"))
    told = read_directives(None, facts.meta_robots, "SluiceBot", datetime(2031, 5, 6, tzinfo=UTC))
    assert told == Directives(noindex=True, noarchive=True)
    assert len(facts.anchors) == 1


@pytest.mark.parametrize(
    ("html", "canonical"),
    [
        ("<link rel=canonical href=/guide/page?id=1#x>", "https://docs.example.com/guide/page?id=1"),
        ("<link rel='alternate Canonical' href='https://example.com/page'>", "https://example.com/page"),
        ("<link rel=canonical href='https://evil.example.org/page'>", None),
        ("<link rel=canonical href='/'>", None),
        ("<link rel=canonical><link rel=canonical href=/late>", None),
        ("<link rel=stylesheet href=/x>", None),
    ],
)
def test_a_page_may_name_its_canonical_address(html: str, canonical: str | None) -> None:
    assert read(f"<head>{html}</head>").canonical_url == canonical


def test_a_browser_helped_where_it_shows_much_more_text() -> None:
    shell, shown = read("<div id=root></div><p>Loading</p><script src=a.js></script>"), read(PROSE * 2)
    assert browser_helped(shell, shown)
    assert not browser_helped(shown, shown)
    assert not browser_helped(shell, read("<p>Sorry, something went wrong while loading this page.</p>"))


def test_the_declared_encoding_of_a_text_does_not_confuse_the_parser() -> None:
    found = links("<?xml version='1.0' encoding='utf-16'?><html><a href='/é'>x</a></html>")
    assert found == ["https://docs.example.com/%C3%A9"]


@pytest.mark.parametrize("content", ["0" + " " * 50_000 + "x\ny", "9" * 50_000 + ";url=/next"])
def test_a_refresh_that_is_made_to_hang_us_does_not(content: str) -> None:
    started = time.thread_time()
    read(f"<meta http-equiv=refresh content='{content}'>")
    assert time.thread_time() - started < 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        "<script></script><noscript>",
        "<div id=app><script></script>",
        "<div><noscript></noscript>",
        "<div hidden><a href=/x>y</a>",
        "<a href=/x><b>",
        "<p style='display:none'>",
        "<script></script><section id=root></section>",
    ],
)
def test_reading_takes_time_in_proportion_to_the_page(unit: str) -> None:
    def seconds(times: int) -> float:
        started = time.thread_time()
        read(unit * times + "enable")
        return time.thread_time() - started

    seconds(100)
    short, long = (min(seconds(times) for _ in range(3)) for times in (4_000, 32_000))
    assert long < 36 * max(short, 0.01)  # eight times as long; a page that is read once for each part takes 64 times


@pytest.mark.slow
@pytest.mark.parametrize("nested", ["<div id=app>", "<noscript>"])
def test_what_stands_within_itself_is_read_a_few_times_at_most(nested: str) -> None:
    def seconds(outside: str) -> float:
        started = time.thread_time()
        read("<script></script>" + outside * 200 + "<br>" * 300_000 + "x")
        return time.thread_time() - started

    assert seconds(nested) < 4 * min(seconds("<div>") for _ in range(2))


@pytest.mark.parametrize(
    "content", ["0; url=/next", " 5 ,URL = '/next' ", '0.5;url="/next"', "3;/next", "1 /next", "0;url=/next\n "]
)
def test_a_refresh_is_a_link(content: str) -> None:
    escaped = content.replace('"', "&quot;")
    assert links(f'<meta http-equiv=refresh content="{escaped}">') == ["https://docs.example.com/next"]


def test_a_page_without_a_body_element_is_no_shell() -> None:
    page = "<title>Locks</title><script src=a.js></script><main>" + PROSE + "</main>"
    assert needs_browser(page) is None
    assert needs_browser("<title>" + "Locks " * 90 + "</title><script src=a.js></script>")
