"""The crawler with a real Chromium: what it renders, what it reaches, and how long it waits."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sluice.contracts.errors import InvalidSetting, PolicyRefused, Unavailable
from sluice.contracts.ingest import CrawlDirected
from sluice.ingest.browser.browser import Browser
from sluice.ingest.browser.page import RenderLimits
from sluice.ingest.egress.proxy import EgressProxy, Refusal
from sluice.ingest.settings import CrawlSettings, EgressSettings
from tests.support.played_crawler import PROSE, crawler_through
from tests.support.site import Site


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    running = Browser(CrawlSettings(browser_pages=1))
    try:
        running.assert_sandboxed()
    except InvalidSetting as error:
        running.close()
        pytest.skip(f"no Chromium on this machine: {error}")
    yield running
    running.close()


def test_the_shell_is_filled_and_nothing_but_the_site_is_reached(
    site: Site, proxy: EgressProxy, authorities: ssl.SSLContext, refusals: list[Refusal], browser: Browser
) -> None:
    site.html("/app", "<div id=root></div><img src='http://10.0.0.1/pixel'><script src=/app.js></script>")
    script = "document.getElementById('root').textContent = 'rendered'; fetch('http://169.254.169.254/').catch(() => 0)"
    site.put("/app.js", script, Content_Type="text/javascript")
    page = crawler_through(proxy, authorities, browser).crawl(CrawlDirected(url=site.url("/app")))
    assert page.rendered
    assert b"rendered" in page.body
    assert {(refusal.host, refusal.rule) for refusal in refusals} == {
        ("10.0.0.1", "address"),
        ("169.254.169.254", "address"),
    }


def test_no_service_that_was_opened_to_search_is_reached(
    site: Site, make_site: Callable[[], Site], browser: Browser
) -> None:
    engine = make_site()
    site.html("/app", "<div id=root></div><script src=/app.js></script>")
    attack = f"fetch('{engine.url('/search?q=x')}', {{mode: 'no-cors'}}).finally(() => root.textContent = 'rendered')"
    site.put("/app.js", attack, Content_Type="text/javascript")
    refused: list[Refusal] = []
    allow = (site.address, f"search={engine.address}")
    with EgressProxy(EgressSettings(allow=allow), on_refusal=refused.append) as proxy:
        page = browser.render(
            site.url("/app"), proxy_url=proxy.url_for("crawl"), user_agent="T", limits=RenderLimits(9.0, 10_000)
        )
    assert "rendered" in page.html
    assert engine.asked == []
    assert {refusal.port for refusal in refused} == {engine.port}


def test_each_line_of_the_header_speaks_for_itself(
    site: Site, proxy: EgressProxy, authorities: ssl.SSLContext, browser: Browser
) -> None:
    lines = (b"X-Robots-Tag: otherbot: nofollow", b"x-robots-tag: noindex", b"X-Robots-Tag: thirdbot: nosnippet")
    page = f"{PROSE}<a href=/x>x</a>".encode()
    head = b"\r\n".join((b"HTTP/1.1 200 OK", b"Content-Type: text/html", b"Content-Length: %d" % len(page), *lines))
    site.call("/page", lambda handler: handler.wfile.write(head + b"\r\n\r\n" + page))
    with pytest.raises(PolicyRefused) as caught:
        crawler_through(proxy, authorities, browser).crawl(CrawlDirected(url=site.url("/page"), render="always"))
    assert caught.value.rule == "noindex"


def test_the_deadline_of_a_page_covers_what_it_waits_for(
    site: Site, proxy: EgressProxy, authorities: ssl.SSLContext, browser: Browser
) -> None:
    """One tab for two pages that never end: the second waits for the first."""
    site.html("/busy", "<p>spinning</p><script>while (true) {}</script>")
    crawler = crawler_through(proxy, authorities, browser, page_deadline_seconds=2.5)

    def crawl(_: int) -> float:
        started = time.monotonic()
        with pytest.raises(Unavailable):
            crawler.crawl(CrawlDirected(url=site.url("/busy"), render="always"))
        return time.monotonic() - started

    with ThreadPoolExecutor(2) as threads:
        assert max(threads.map(crawl, range(2))) < 15
