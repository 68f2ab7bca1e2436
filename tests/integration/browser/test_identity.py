"""A rendered page is known by the response that its document came from, on a real Chromium, whatever its scripts do."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from sluice.contracts.document import document_id_for
from sluice.contracts.errors import InvalidSetting, PolicyRefused, Unavailable
from sluice.contracts.ingest import CrawlDirected
from sluice.ingest.browser.browser import Browser
from sluice.ingest.crawl.crawled_page import CrawledPage, withdrawal_in
from sluice.ingest.egress.proxy import EgressProxy
from sluice.ingest.settings import CrawlSettings
from tests.support.played_crawler import crawler_through

ATTACK = "<p>the attacker's own text, which the victim never had</p>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    made = Browser(CrawlSettings())
    try:
        made.assert_sandboxed()
    except InvalidSetting as error:
        pytest.skip(f"no Chromium here: {error}")
    else:
        yield made
    finally:
        made.close()


@pytest.fixture
def crawl(proxy: EgressProxy, authorities: ssl.SSLContext, browser: Browser) -> Any:
    """Crawl one address in the browser."""

    def run(url: str) -> CrawledPage:
        crawler = crawler_through(proxy, authorities, browser)  # type: ignore[arg-type]
        page = crawler.crawl(CrawlDirected(url=url, render="always"), run_id="run_identity")
        assert isinstance(page, CrawledPage)
        return page

    return run


@pytest.mark.parametrize(
    "script",
    [
        "history.replaceState(null, '', '/victim')",
        "history.pushState(null, '', '/victim')",
        "onload = () => { history.replaceState(null, '', '/victim'); setTimeout(() => { location.href = '/nothing' }) }",
        "onload = () => { location.href = 'javascript:\"<p>the attacker\\'s own text, made by a script\"' }",
    ],
)
def test_the_address_that_a_script_shows_is_not_the_page_s(site: Any, crawl: Any, script: str) -> None:
    site.html("/attacker", f"{ATTACK}<script>{script}</script>", ETag='"attacker"')
    site.put("/nothing", status=204)
    site.html("/victim", "<p>the victim's text</p>")
    page = crawl(site.url("/attacker"))
    assert (page.url, page.final_url, page.etag) == (site.url("/attacker"), site.url("/attacker"), '"attacker"')
    assert b"attacker's own text" in page.body


def test_a_navigation_without_a_document_changes_neither_address_nor_status(site: Any, crawl: Any) -> None:
    """A status of 204, or an address from which nothing was shown, is not what the text came from."""
    site.html("/attacker", f"{ATTACK}<script>setTimeout(() => {{ location.href = '/victim' }}, 50)</script>")
    site.put("/victim", status=204, X_Robots_Tag="noindex")
    page = crawl(site.url("/attacker"))
    assert (page.final_url, page.status) == (site.url("/attacker"), 200)


def test_a_page_that_asks_not_to_be_indexed_withdraws_none_but_itself(site: Any, crawl: Any) -> None:
    shown = "<script>history.replaceState(null, '', '/victim')</script>"
    site.html("/attacker", f"<meta name=robots content=noindex><link rel=canonical href=/victim>{ATTACK}{shown}")
    with pytest.raises(PolicyRefused) as refused:
        crawl(site.url("/attacker"))
    withdrawal = withdrawal_in(refused.value)
    assert withdrawal is not None
    assert withdrawal.addresses == (site.url("/attacker"),)
    assert document_id_for(site.url("/victim")) not in withdrawal.document_ids


def test_where_a_page_truly_goes_it_is_known_by_what_answered_there(site: Any, crawl: Any) -> None:
    site.put("/old", status=302, Location="/moved")
    site.html("/moved", "<p>moved</p><script>location.replace('/new')</script>")
    site.html("/new", "<p>what the new address answers</p>", ETag='"new"')
    page = crawl(site.url("/old"))
    assert (page.url, page.final_url, page.etag) == (site.url("/old"), site.url("/new"), '"new"')
    assert b"what the new address answers" in page.body


def test_a_document_that_no_site_sent_is_none(site: Any, crawl: Any) -> None:
    site.html(
        "/attacker", "<script>location.href = URL.createObjectURL(new Blob(['<p>made'], {type: 'text/html'}))</script>"
    )
    with pytest.raises(Unavailable, match="that no site sent"):
        crawl(site.url("/attacker"))


def test_robots_directives_that_a_browser_s_answer_sends_on_several_lines_all_count(site: Any, crawl: Any) -> None:
    def answer(handler: Any) -> None:
        handler.send_response(200)
        for name, value in (("X-Robots-Tag", "otherbot: nofollow"), ("x-robots-tag", "nosnippet")):
            handler.send_header(name, value)
        handler.send_header("Content-Type", "text/html")
        handler.end_headers()
        handler.wfile.write(b"<p>spoken of on two lines")

    site.call("/tagged", answer)
    assert crawl(site.url("/tagged")).nosnippet
