"""One page, politely: robots, rate, HTTP first, the browser on evidence, links and what they may cost."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.contracts.base import BlobRef
from sluice.contracts.budget import LEAST_PAGE_BYTES, LEAST_PAGE_MILLISECONDS, Spend
from sluice.contracts.errors import (
    BudgetExhausted,
    Fenced,
    InvalidInput,
    NotFound,
    Overloaded,
    PolicyRefused,
    SluiceError,
    TimedOut,
    Unavailable,
)
from sluice.contracts.ingest import CrawlDirected
from sluice.ingest.circuit_breaker import HostBreakers, HostUnavailable, host_rule
from sluice.ingest.crawl.crawler import Crawler, directions_from
from sluice.ingest.crawl.page_visit import BudgetMeter
from sluice.ingest.egress.proxy import EgressProxy
from sluice.ingest.http.fetch import Fetcher, FetchLimits
from sluice.ingest.politeness.hosts import retry_after_seconds
from sluice.ingest.settings import EgressSettings
from tests.support.played_crawler import PROSE, SHELL, ShowingBrowser, crawler_through

NOW = datetime(2024, 5, 1, 12, 0, tzinfo=UTC)


MakeCrawler = Callable[..., Crawler]


@pytest.fixture
def make_crawler(proxy: EgressProxy, authorities: ssl.SSLContext) -> MakeCrawler:
    def make(*context: Any, **changes: Any) -> Crawler:
        return crawler_through(proxy, authorities, *context, **changes)

    return make


def test_a_static_page_is_fetched_once_with_its_facts_and_links(site: Any, make_crawler: MakeCrawler) -> None:
    site.html("/page", PROSE + "<a href='/next'>next</a>", ETag='"v1"', Last_Modified="Mon, 01 Jan 2024 00:00:00 GMT")
    browser = ShowingBrowser()
    directed = CrawlDirected(url=site.url("/page?utm_source=x#top"), depth=1, search_query="why", provider="searxng")
    page = make_crawler(browser).crawl(directed)
    assert site.paths() == ["/robots.txt", "/page"]
    assert not browser.asked
    assert [link.url for link in page.page_links] == [site.url("/next")]
    event = page.as_event(BlobRef(sha256="0" * 64, size_bytes=len(page.body)))
    assert (event.url, event.final_url, event.status) == (site.url("/page"), site.url("/page"), 200)
    assert (event.media_type, event.charset, event.etag, event.rendered) == ("text/html", "utf-8", '"v1"', False)
    assert (event.depth, event.search_query, event.provider) == (1, "why", "searxng")


def test_a_shell_is_rendered_and_the_reason_is_kept(site: Any, make_crawler: MakeCrawler, proxy: EgressProxy) -> None:
    site.html("/app", SHELL)
    browser = ShowingBrowser(PROSE + "<a href='/more'>more</a>")
    page = make_crawler(browser).crawl(CrawlDirected(url=site.url("/app")))
    assert page.rendered
    assert "root element" in str(page.render_reason)
    assert (page.body.decode(), page.charset) == (browser.html, "utf-8")
    assert [link.url for link in page.page_links] == [site.url("/more")]
    assert browser.asked[0]["proxy_url"] != proxy.url, "the crawl has a way out of its own"
    assert browser.asked[0]["user_agent"].startswith("SluiceBot/")


def test_the_directive_decides_where_it_says_always_or_never(site: Any, make_crawler: MakeCrawler) -> None:
    site.html("/app", SHELL)
    browser = ShowingBrowser()
    crawler = make_crawler(browser)
    assert not crawler.crawl(CrawlDirected(url=site.url("/app"), render="never")).rendered
    assert not browser.asked
    assert crawler.crawl(CrawlDirected(url=site.url("/static"), render="always")).rendered
    assert "/static" not in site.paths()


def test_without_a_browser_the_shell_is_kept_with_what_it_lacks(site: Any, make_crawler: MakeCrawler) -> None:
    site.html("/app", SHELL)
    page = make_crawler(None).crawl(CrawlDirected(url=site.url("/app")))
    assert not page.rendered
    assert page.render_reason
    with pytest.raises(PolicyRefused, match="render"):
        make_crawler(None).crawl(CrawlDirected(url=site.url("/app"), render="always"))


def test_a_browser_that_was_sent_inside_is_a_matter_of_egress(site: Any, make_crawler: MakeCrawler) -> None:
    site.html("/", SHELL)
    browser = ShowingBrowser("refused", status=403, headers={"X-Sluice-Refused": "address"})
    with pytest.raises(PolicyRefused, match="address") as caught:
        make_crawler(browser=browser).crawl(CrawlDirected(url=site.url()))
    assert caught.value.rule == "egress"


def test_a_download_is_left_to_http(site: Any, make_crawler: MakeCrawler) -> None:
    site.put("/paper", b"%PDF-1.7 ...", Content_Type="application/octet-stream")
    page = make_crawler(ShowingBrowser(download=True)).crawl(CrawlDirected(url=site.url("/paper"), render="always"))
    assert (page.media_type, page.rendered) == ("application/pdf", False)


def test_robots_are_asked_first_and_for_every_redirect(site: Any, make_crawler: MakeCrawler) -> None:
    site.put("/robots.txt", "User-agent: *\nDisallow: /private")
    site.put("/door", status=302, Location="/private/room")
    site.html("/private/room", PROSE)
    for path in ("/private/room", "/door"):
        with pytest.raises(PolicyRefused) as caught:
            make_crawler().crawl(CrawlDirected(url=site.url(path)))
        assert caught.value.rule == "robots"
    browser = ShowingBrowser(final_url=site.url("/private/room"))
    with pytest.raises(PolicyRefused, match="robots"):
        make_crawler(browser).crawl(CrawlDirected(url=site.url("/app"), render="always"))
    assert "/private/room" not in site.paths()


def test_a_host_is_not_asked_faster_than_its_rate_or_its_crawl_delay(site: Any, make_crawler: MakeCrawler) -> None:
    site.put("/robots.txt", "User-agent: *\nCrawl-delay: 0.5")
    site.html("/a", PROSE)
    crawler, asked = make_crawler(), CrawlDirected(url=site.url("/a"))
    started = time.monotonic()
    crawler.crawl(asked)
    crawler.crawl(asked)
    assert time.monotonic() - started >= 1.0
    with pytest.raises(Overloaded) as caught:
        make_crawler(max_rate_wait_seconds=0.2).crawl(asked)
    assert caught.value.retry_after_seconds > 0.2
    assert site.paths() == ["/robots.txt", "/a", "/a", "/robots.txt"]


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (204, NotFound),
        (404, NotFound),
        (410, NotFound),
        (418, NotFound),
        (401, PolicyRefused),
        (403, PolicyRefused),
        (451, PolicyRefused),
        (429, Overloaded),
        (503, Overloaded),
        (500, Unavailable),
        (502, Unavailable),
    ],
)
def test_what_is_no_page_is_an_error_of_its_own(
    site: Any, make_crawler: MakeCrawler, status: int, error: type[SluiceError]
) -> None:
    site.put("/page", "<p>sorry", status, Content_Type="text/html", Retry_After="7")
    with pytest.raises(error) as caught:
        make_crawler().crawl(CrawlDirected(url=site.url("/page")))
    if isinstance(caught.value, Overloaded):
        assert caught.value.retry_after_seconds == 7.0


@pytest.mark.parametrize(
    ("media_type", "body", "kind"),
    [
        ("text/plain", b"words", "text/plain"),
        ("text/markdown; charset=utf-8", b"# Title", "text/markdown"),
        ("application/pdf", b"%PDF-1.4", "application/pdf"),
        ("application/json", b"{}", "application/json"),
        ("application/ld+json", b"{}", "application/ld+json"),
        ("application/rss+xml", b"<rss/>", "application/rss+xml"),
        ("application/javascript", b"let x", "application/javascript"),
        ("", b"<!doctype html><p>unnamed", "text/html"),
    ],
)
def test_what_can_be_read_is_taken_by_its_type(
    site: Any, make_crawler: MakeCrawler, media_type: str, body: bytes, kind: str
) -> None:
    site.put("/thing", body, Content_Type=media_type)
    assert make_crawler().crawl(CrawlDirected(url=site.url("/thing"))).media_type == kind


@pytest.mark.parametrize("media_type", ["image/png", "video/mp4", "application/zip", "image/svg+xml", "font/woff2"])
def test_what_cannot_be_read_is_refused_by_its_name(site: Any, make_crawler: MakeCrawler, media_type: str) -> None:
    site.put("/thing", b"\x89PNG....", Content_Type=media_type)
    with pytest.raises(PolicyRefused, match=media_type.replace("+", r"\+")) as caught:
        make_crawler().crawl(CrawlDirected(url=site.url("/thing")))
    assert caught.value.rule == "media_type"


def test_a_page_that_asks_not_to_be_indexed_is_not_kept(site: Any, make_crawler: MakeCrawler) -> None:
    site.html("/meta", PROSE + "<meta name=robots content=noindex>")
    site.put("/header", b"plain words", Content_Type="text/plain", X_Robots_Tag="noindex")
    site.html("/nofollow", PROSE + "<a href='/x'>x</a>", X_Robots_Tag="nofollow")
    for path in ("/meta", "/header"):
        with pytest.raises(PolicyRefused) as caught:
            make_crawler().crawl(CrawlDirected(url=site.url(path)))
        assert caught.value.rule == "noindex"
    page = make_crawler().crawl(CrawlDirected(url=site.url("/nofollow"), page_allowance=3))
    assert (page.page_links, page.links) == ((), ())


def test_each_line_of_the_header_speaks_for_itself(site: Any, make_crawler: MakeCrawler) -> None:
    lines = (b"X-Robots-Tag: otherbot: nofollow", b"x-robots-tag: noindex", b"X-Robots-Tag: thirdbot: nosnippet")
    page = f"{PROSE}<a href=/x>x</a>".encode()
    head = b"\r\n".join((b"HTTP/1.1 200 OK", b"Content-Type: text/html", b"Content-Length: %d" % len(page), *lines))
    site.call("/page", lambda handler: handler.wfile.write(head + b"\r\n\r\n" + page))
    with pytest.raises(PolicyRefused) as caught:
        make_crawler().crawl(CrawlDirected(url=site.url("/page"), render="never"))
    assert caught.value.rule == "noindex"


def test_bytes_are_a_matter_of_policy_or_of_budget(site: Any, make_crawler: MakeCrawler) -> None:
    site.put("/large", b"x" * 5_000, Content_Type="text/plain")
    with pytest.raises(PolicyRefused) as caught:
        make_crawler(max_page_bytes=1_000).crawl(CrawlDirected(url=site.url("/large")))
    assert caught.value.rule == "bytes"
    for allowance in (0, 1_000):
        with pytest.raises(BudgetExhausted):
            make_crawler().crawl(CrawlDirected(url=site.url("/large"), byte_allowance=allowance))


def slowly(seconds: float) -> Callable[[Any], None]:
    """An answer that takes its time."""

    def answer(handler: Any) -> None:
        time.sleep(seconds)
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.end_headers()
        handler.wfile.write(PROSE.encode())

    return answer


def test_what_a_page_takes_is_counted_and_its_own_turn_is_not(site: Any, make_crawler: MakeCrawler) -> None:
    site.html("/quick", PROSE)
    site.call("/slow", slowly(0.3))
    crawler = make_crawler(requests_per_second_per_host=2.0)
    quick, slow = (CrawlDirected(url=site.url(path)) for path in ("/quick", "/slow"))
    meters = BudgetMeter(quick.allowance), BudgetMeter(slow.allowance)
    for directed, meter in zip((quick, slow), meters, strict=True):
        crawler.crawl(directed, meter)
    assert [meter.spend.pages for meter in meters] == [1, 1]
    assert [meter.spend.bytes for meter in meters] == [len(PROSE), len(PROSE)]
    assert meters[1].milliseconds >= 300
    started = time.monotonic()
    crawler.crawl(quick, meters[0])
    assert meters[0].milliseconds < 1_000 * (time.monotonic() - started) + 300


def test_a_page_that_is_refused_half_way_was_fetched_all_the_same(site: Any, make_crawler: MakeCrawler) -> None:
    site.put("/large", b"x" * 5_000, Content_Type="text/plain")
    site.put("/gone", b"sorry", 404)
    large, gone = (CrawlDirected(url=site.url(path), byte_allowance=1_000) for path in ("/large", "/gone"))
    meter = BudgetMeter(large.allowance)
    with pytest.raises(BudgetExhausted):
        make_crawler().crawl(large, meter)
    assert (meter.spend.pages, meter.spend.bytes) == (0, 1_000)
    meter = BudgetMeter(gone.allowance)
    with pytest.raises(NotFound):
        make_crawler().crawl(gone, meter)
    assert (meter.spend.pages, meter.spend.bytes) == (0, 5)
    assert meter.spend.milliseconds > 0


def test_time_is_a_matter_of_the_site_or_of_budget(site: Any, make_crawler: MakeCrawler) -> None:
    site.call("/slow", slowly(5.0))
    slow = CrawlDirected(url=site.url("/slow"))
    with pytest.raises(TimedOut):
        make_crawler(page_timeout_seconds=0.3).crawl(slow)
    short = slow.model_copy(update={"millisecond_allowance": 300.0})
    meter = BudgetMeter(short.allowance)
    with pytest.raises(BudgetExhausted, match="300 milliseconds"):
        make_crawler().crawl(short, meter)
    assert meter.spend.milliseconds <= 300
    with pytest.raises(BudgetExhausted, match="no milliseconds"):
        make_crawler().crawl(slow.model_copy(update={"millisecond_allowance": 0.0}))


def test_a_shell_is_kept_as_it_is_when_nothing_is_left_to_render_it(site: Any, make_crawler: MakeCrawler) -> None:
    site.html("/app", SHELL)
    browser = ShowingBrowser()
    page = make_crawler(browser).crawl(CrawlDirected(url=site.url("/app"), byte_allowance=len(SHELL)))
    assert (page.rendered, browser.asked) == (False, [])
    assert page.render_reason
    make_crawler(browser).crawl(CrawlDirected(url=site.url("/app"), byte_allowance=5_000, millisecond_allowance=9e3))
    assert browser.asked[0]["limits"].max_bytes == 5_000 - len(SHELL)
    assert 0 < browser.asked[0]["limits"].timeout_seconds < 9


def test_a_page_too_slow_to_render_is_a_matter_of_budget_only_where_time_is_short(
    site: Any, make_crawler: MakeCrawler
) -> None:
    slow = CrawlDirected(url=site.url("/app"), render="always")
    with pytest.raises(TimedOut):
        make_crawler(ShowingBrowser(hangs=True)).crawl(slow)
    with pytest.raises(BudgetExhausted, match="500 milliseconds"):
        make_crawler(ShowingBrowser(hangs=True)).crawl(slow.model_copy(update={"millisecond_allowance": 500.0}))


def late(seconds: float, **headers: str) -> Callable[[Any], None]:
    """Answer in one piece, after a while: a robots.txt that allows everything, a page or a redirect."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    status = "302 Found" if "Location" in headers else "200 OK"

    def answer(handler: Any) -> None:
        threading.Event().wait(seconds)
        handler.wfile.write(f"HTTP/1.1 {status}\r\n{lines}Content-Length: 0\r\n\r\n".encode())

    return answer


def test_a_page_in_an_encoding_that_is_none_is_read_in_a_moment(site: Any, make_crawler: MakeCrawler) -> None:
    body = f"{PROSE}<a href=/x>x</a>".encode() + b"<p>" + b"ab" * 400_000 + b"-" + b"b9" * 50_000
    for name in ("punycode", "idna", "unicode_escape"):
        site.put("/page", body, Content_Type=f"text/html; charset={name}")
        started = time.thread_time()
        page = make_crawler().crawl(CrawlDirected(url=site.url("/page")))
        assert [link.url for link in page.page_links] == [site.url("/x")]
        assert time.thread_time() - started < 5


class TestDeadline:
    """A page has one deadline, whatever it waits for."""

    def test_it_covers_every_host_on_the_way_with_its_robots(
        self, make_site: Callable[[], Any], authorities: ssl.SSLContext
    ) -> None:
        sites = [make_site() for _ in range(5)]
        for site, following in zip(sites, [*sites[1:], sites[0]], strict=True):
            site.call("/robots.txt", late(1.0))
            site.call("/", late(1.0, Location=following.url()))
        with EgressProxy(EgressSettings(allow=tuple(site.address for site in sites))) as proxy:
            crawler = crawler_through(proxy, authorities, page_deadline_seconds=1.7)
            started = time.monotonic()
            with pytest.raises(TimedOut):
                crawler.crawl(CrawlDirected(url=sites[0].url()))
        assert time.monotonic() - started < 6  # all of them take ten

    def test_it_covers_the_turns(self, site: Any, make_crawler: MakeCrawler) -> None:
        site.html("/", PROSE)
        crawler = make_crawler(requests_per_second_per_host=0.1, page_deadline_seconds=5.0)
        started = time.monotonic()
        with pytest.raises(Overloaded):
            crawler.crawl(CrawlDirected(url=site.url()))
        assert time.monotonic() - started < 8  # the turn would come after ten

    def test_it_covers_a_robots_file_that_others_wait_for_too_and_nothing_is_held_against_the_host(
        self, site: Any, make_crawler: MakeCrawler
    ) -> None:
        site.call("/robots.txt", late(8.0))
        site.html("/", PROSE)
        crawler = make_crawler(page_deadline_seconds=1.0)

        def crawl(_: int) -> float:
            started = time.monotonic()
            with pytest.raises((TimedOut, Overloaded)):  # the latter: the next turn comes after the deadline
                crawler.crawl(CrawlDirected(url=site.url()))
            return time.monotonic() - started

        with ThreadPoolExecutor(3) as threads:
            assert max(threads.map(crawl, range(3))) < 6
        site.put("/robots.txt", b"")
        assert crawler.crawl(CrawlDirected(url=site.url())).status == 200


def test_a_host_that_keeps_failing_is_left_alone_and_tried_again_later(site: Any, make_crawler: MakeCrawler) -> None:
    now = 0.0
    site.put("/broken", "oh", 500)
    site.html("/well", PROSE)
    crawler = make_crawler(stopwatch=lambda: now, breaker_reset_seconds=60.0)
    broken, well = (CrawlDirected(url=site.url(path)) for path in ("/broken", "/well"))
    for _ in range(10):
        with pytest.raises(Unavailable, match="answers 500"):
            crawler.crawl(broken)
    asked = len(site.asked)
    with pytest.raises(HostUnavailable):
        crawler.crawl(well)
    now = 61.0
    with pytest.raises(Unavailable, match="answers 500"):
        crawler.crawl(broken)
    with pytest.raises(HostUnavailable):
        crawler.crawl(well)
    now = 122.0
    crawler.crawl(well)
    crawler.crawl(well)
    assert len(site.asked) == asked + 3


def test_a_host_that_is_well_but_lacks_pages_or_refuses_them_is_asked_on(site: Any, make_crawler: MakeCrawler) -> None:
    site.put("/robots.txt", "User-agent: *\nDisallow: /private")
    site.put("/secret", status=403)
    site.html("/well", PROSE)
    crawler = make_crawler()
    for path in ("/missing", "/private", "/secret") * 8:
        with pytest.raises((NotFound, PolicyRefused)):
            crawler.crawl(CrawlDirected(url=site.url(path)))
    crawler.crawl(CrawlDirected(url=site.url("/well")))


def test_one_dead_port_says_nothing_about_its_neighbour() -> None:
    breakers = HostBreakers(host_rule(60.0), clock=time.monotonic)
    for _ in range(10):
        breakers.record("http://127.0.0.1:1", failed=True)
    breakers.admit("http://127.0.0.1:2")
    with pytest.raises(HostUnavailable):
        breakers.admit("http://127.0.0.1:1")


def test_a_crawl_that_is_not_wanted_any_more_ends_while_its_site_is_slow(
    site: Any, proxy: EgressProxy, authorities: Any, make_crawler: MakeCrawler
) -> None:
    arrived = threading.Event()

    def hang(handler: Any) -> None:
        arrived.set()
        time.sleep(5.0)

    def check_cancelled() -> None:
        if arrived.is_set():
            raise Fenced("cancelled")

    site.call("/slow", hang)
    fetcher = Fetcher(proxy.url, user_agent="test", tls=authorities, check_cancelled=check_cancelled)
    started = time.monotonic()
    with pytest.raises(Fenced):
        fetcher.fetch(site.url("/slow"), limits=FetchLimits())
    assert time.monotonic() - started < 4
    with pytest.raises(Fenced):
        make_crawler(check_cancelled=check_cancelled).crawl(CrawlDirected(url=site.url("/slow")))
    assert site.paths() == ["/slow"]


def test_what_the_rules_forbid_is_refused_before_any_question(site: Any, make_crawler: MakeCrawler) -> None:
    with pytest.raises(PolicyRefused) as caught:
        make_crawler().crawl(CrawlDirected(url="http://127.0.0.1/admin"))
    assert caught.value.rule == "egress"
    with pytest.raises(InvalidInput):
        make_crawler().crawl(CrawlDirected(url="file:///etc/passwd"))
    with pytest.raises(PolicyRefused) as off:
        make_crawler(enabled=False).crawl(CrawlDirected(url=site.url("/")))
    assert off.value.rule == "crawl"
    assert site.asked == []


class TestDirections:
    def test_links_share_what_is_left_and_carry_where_they_came_from(self) -> None:
        links = tuple(f"https://example.com/{number}" for number in range(3))
        directed = CrawlDirected(
            url="https://example.com/",
            max_depth=2,
            page_allowance=9,
            byte_allowance=9_000_000,
            millisecond_allowance=90_000,
            render="never",
            search_query="q",
            provider="brave",
        )
        children = directions_from(links, directed, Spend(pages=1, bytes=1_000_000, milliseconds=10_000))
        assert [child.url for child in children] == list(links)
        assert [child.page_allowance for child in children] == [3, 3, 2]
        assert [child.byte_allowance for child in children] == [3_000_000, 3_000_000, 2_000_000]
        assert [child.millisecond_allowance for child in children] == [30_000, 30_000, 20_000]
        first = children[0]
        assert (first.depth, first.max_depth, first.render) == (1, 2, "never")
        assert (first.search_query, first.provider) == ("q", "brave")

    def test_pages_at_the_last_depth_get_one_page_each(self) -> None:
        directed = CrawlDirected(url="https://example.com/", max_depth=1, page_allowance=10)
        children = directions_from(("https://example.com/a",), directed, Spend(pages=1))
        assert [child.page_allowance for child in children] == [1]

    def test_where_nothing_is_left_nothing_is_directed(self) -> None:
        links = ("https://example.com/a", "https://example.com/b")
        spent = CrawlDirected(url="https://example.com/", page_allowance=1)
        deep = CrawlDirected(url="https://example.com/", depth=1, max_depth=1, page_allowance=5)
        poor = CrawlDirected(url="https://example.com/", page_allowance=5, byte_allowance=100)
        late = CrawlDirected(url="https://example.com/", page_allowance=5, millisecond_allowance=100)
        assert directions_from(links, spent, Spend(pages=1)) == directions_from(links, deep, Spend(pages=1)) == ()
        assert directions_from(links, poor, Spend(pages=1, bytes=100)) == ()
        assert directions_from(links, late, Spend(pages=1, milliseconds=100)) == ()

    def test_a_small_rest_goes_to_fewer_pages_and_not_to_smaller_ones(self) -> None:
        links = tuple(f"https://example.com/{number}" for number in range(8))
        few = CrawlDirected(url="https://example.com/", page_allowance=9, byte_allowance=3 * LEAST_PAGE_BYTES)
        brief = CrawlDirected(
            url="https://example.com/", page_allowance=9, millisecond_allowance=2.5 * LEAST_PAGE_MILLISECONDS
        )
        assert len(directions_from(links, few, Spend(pages=1))) == 3
        assert len(directions_from(links, brief, Spend(pages=1))) == 2

    @given(
        pages=st.integers(1, 60),
        depth=st.integers(0, 4),
        fan_out=st.integers(0, 12),
        size=st.one_of(st.none(), st.integers(0, 40 * LEAST_PAGE_BYTES)),
        time_ms=st.one_of(st.none(), st.floats(0, 40 * LEAST_PAGE_MILLISECONDS)),
    )
    def test_a_whole_tree_of_pages_never_exceeds_its_allowances(
        self, pages: int, depth: int, fan_out: int, size: int | None, time_ms: float | None
    ) -> None:
        links = tuple(f"https://example.com/{number}" for number in range(fan_out))
        root = CrawlDirected(
            url="https://example.com/",
            max_depth=depth,
            page_allowance=pages,
            byte_allowance=size,
            millisecond_allowance=time_ms,
        )
        waiting, used = [root], Spend()
        while waiting:
            directed = waiting.pop()
            most = directed.allowance
            spent = Spend(
                pages=1,
                bytes=700 if most.bytes is None else min(700_000, most.bytes),
                milliseconds=9.0 if most.milliseconds is None else min(900.0, most.milliseconds),
            )
            used += spent
            children = directions_from(links, directed, spent)
            reserved = sum((child.allowance.reserve for child in children), spent)
            assert reserved.pages <= most.pages
            assert reserved.bytes <= (most.bytes if most.bytes is not None else reserved.bytes)
            waiting += children
        assert used.pages <= pages
        assert size is None or used.bytes <= size
        assert time_ms is None or used.milliseconds <= time_ms + 1e-6


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120.0),
        ("999999", 3_600.0),
        ((NOW + timedelta(seconds=90)).strftime("%a, %d %b %Y %H:%M:%S GMT"), 90.0),
        ((NOW - timedelta(seconds=90)).strftime("%a, %d %b %Y %H:%M:%S GMT"), 0.0),
        (None, 30.0),
        ("soon", 30.0),
        ("Mon, 01 Jan 2024 00:00:00", 30.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float) -> None:
    assert retry_after_seconds(header, NOW) == seconds
