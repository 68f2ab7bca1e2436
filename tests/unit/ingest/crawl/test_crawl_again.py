"""A page that was read before, the ways on from a page, and what a crawl tells of itself."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from sluice.contracts.errors import Overloaded, PolicyRefused
from sluice.contracts.ingest import CrawlDirected, PageLink, RememberedPage
from sluice.ingest.crawl.crawler import CrawledPage, UnchangedPage
from sluice.ingest.crawl.page_visit import BudgetMeter
from sluice.ingest.egress.proxy import EgressProxy
from tests.support.played_crawler import PROSE, SHELL, ShowingBrowser, crawler_through

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
PNG = b"\x89PNG picture"


class KeptPages:
    """A memory that holds what it was told."""

    def __init__(self, *pages: RememberedPage) -> None:
        self.pages = {page.url: page for page in pages}

    def recall(self, corpus: str, url: str) -> RememberedPage | None:
        return self.pages.get(url)

    def remember(self, corpus: str, page: RememberedPage, *, run_id: str) -> None:
        self.pages[page.url] = page

    def confirm(self, corpus: str, checksums: Mapping[str, str], *, run_id: str) -> None: ...

    def seen_again(self, corpus: str, url: str, at: datetime, *, asked: bool = True) -> None: ...

    def seen_at(self, corpus: str, document_ids: Sequence[str]) -> dict[str, datetime]:
        return {}

    def forget(self, corpus: str, document_ids: Sequence[str]) -> None: ...


def kept(url: str, body: str = PROSE, **changes: Any) -> RememberedPage:
    """A page as it was read a while ago."""
    page = RememberedPage(
        url=url,
        final_url=url,
        document_id="doc_1",
        body_sha256=hashlib.sha256(body.encode()).hexdigest(),
        fetched_at=NOW,
        etag='"v1"',
        links=(PageLink(url + "/child", "child"),),
    )
    return replace(page, **changes)


Crawl = Callable[..., CrawledPage | UnchangedPage]


@pytest.fixture
def crawl(proxy: EgressProxy, authorities: ssl.SSLContext) -> Crawl:
    """Crawl one page with parts of the test's own."""

    def run(
        url: str, *, meter: BudgetMeter | None = None, directed: dict[str, Any] | None = None, **context: Any
    ) -> Any:
        notes: list[tuple[str, str]] | None = context.pop("notes", None)
        crawler = crawler_through(proxy, authorities, **context)
        asked = CrawlDirected(url=url, **{"page_allowance": 9, **(directed or {})})
        note = (lambda about, what: notes.append((about, what))) if notes is not None else lambda about, what: None
        return crawler.crawl(asked, meter, note=note)

    return run


def conditional(body: str, etag: str, **headers: str) -> Callable[[Any], None]:
    """A page that answers 304 to whoever has its version."""

    def answer(handler: Any) -> None:
        known = handler.headers.get("If-None-Match") == etag
        handler.send_response(304 if known else 200)
        for name, value in {"ETag": etag, "Content-Type": "text/html", **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", "0" if known else str(len(body)))
        handler.end_headers()
        handler.wfile.write(b"" if known else body.encode())

    return answer


def test_a_page_that_was_not_modified_is_not_read_again_but_followed(site: Any, crawl: Crawl) -> None:
    url = site.url("/page")
    site.call("/page", conditional(PROSE, '"v1"'))
    page = crawl(url, memory=KeptPages(kept(url)))
    assert isinstance(page, UnchangedPage)
    assert (page.by, page.links) == ("not_modified", (url + "/child",))
    assert site.asked[-1].headers["if-none-match"] == '"v1"'
    assert isinstance(crawl(url, memory=KeptPages()), CrawledPage)
    assert "if-none-match" not in site.asked[-1].headers
    assert isinstance(crawl(url, memory=KeptPages(kept(url, etag='"v0"', body="old"))), CrawledPage)


def test_what_a_site_asks_of_robots_holds_for_a_page_that_was_not_modified_too(site: Any, crawl: Crawl) -> None:
    for path, robots in (("/gone", "noindex"), ("/ends", "nofollow")):
        site.call(path, conditional(PROSE, '"v1"', X_Robots_Tag=robots))
    with pytest.raises(PolicyRefused, match="not to be indexed"):
        crawl(site.url("/gone"), memory=KeptPages(kept(site.url("/gone"))))
    assert crawl(site.url("/ends"), memory=KeptPages(kept(site.url("/ends")))).links == ()


def test_the_same_content_without_a_validator_is_known_again(site: Any, crawl: Crawl) -> None:
    site.html("/page", PROSE)
    page = crawl(site.url("/page"), memory=KeptPages(kept(site.url("/page"), etag=None)))
    assert isinstance(page, UnchangedPage)
    assert page.by == "same_content"
    other = crawl(site.url("/page"), memory=KeptPages(kept(site.url("/page"), body="else", etag=None)))
    assert isinstance(other, CrawledPage)


def test_a_page_that_its_scripts_fill_is_never_asked_for_conditionally(site: Any, crawl: Crawl) -> None:
    url = site.url("/app")
    site.call("/app", conditional(SHELL, '"v1"'))
    page = crawl(url, memory=KeptPages(kept(url, rendered=True)), browser=ShowingBrowser(PROSE + "<p>news"))
    assert isinstance(page, CrawledPage)
    assert page.rendered
    again = crawl(url, memory=KeptPages(kept(url, rendered=True)), browser=ShowingBrowser(PROSE))
    assert isinstance(again, UnchangedPage)


def test_a_run_begins_with_the_sites_own_map_and_leaves_traps_out(site: Any, crawl: Crawl) -> None:
    site.put("/robots.txt", f"User-agent: *\nDisallow: /closed\nSitemap: {site.url('/map.xml')}")
    entries = "".join(f"<url><loc>{site.url(path)}</loc></url>" for path in ("/deep/hidden", "/start"))
    site.put("/map.xml", f"<urlset>{entries}</urlset>", Content_Type="application/xml")
    site.html("/start", PROSE + "<a href=/linked>a</a><a href='/a/b/a/b/a/b/a/b/a/b'>trap</a>")
    notes: list[tuple[str, str]] = []
    page = crawl(site.url("/start"), notes=notes)
    assert set(page.links) == {site.url("/linked"), site.url("/deep/hidden")}
    assert [what for about, what in notes if about == "trap"]
    assert site.paths() == ["/robots.txt", "/start", "/map.xml"]
    deeper = crawl(site.url("/start"), directed={"depth": 1, "max_depth": 2})
    assert deeper.links == (site.url("/linked"),)
    assert site.paths().count("/map.xml") == 1


def test_a_map_that_robots_may_not_read_or_that_fails_is_none(site: Any, crawl: Crawl) -> None:
    site.html("/start", PROSE + "<a href=/linked>a</a>")
    for robots, status in (("Disallow: /map.xml\n", 200), ("", 500)):
        site.put("/robots.txt", f"User-agent: *\n{robots}Sitemap: {site.url('/map.xml')}")
        site.put("/map.xml", f"<urlset><url><loc>{site.url('/x')}</loc></url></urlset>", status)
        assert crawl(site.url("/start")).links == (site.url("/linked"),)


def test_a_page_without_room_for_more_is_the_end_of_its_way(site: Any, crawl: Crawl) -> None:
    site.put("/robots.txt", f"Sitemap: {site.url('/map.xml')}")
    site.html("/start", PROSE + "<a href=/linked>a</a>")
    assert crawl(site.url("/start"), directed={"page_allowance": 1}).links == ()
    assert crawl(site.url("/start"), directed={"depth": 1, "max_depth": 1}).links == ()
    assert "/map.xml" not in site.paths()


def test_what_a_page_says_of_itself_comes_along(site: Any, crawl: Crawl) -> None:
    head = f"<link rel=canonical href='{site.url('/page')}'><meta name=robots content=noarchive>"
    site.html("/page", head + PROSE)
    page = crawl(site.url("/page?ref=x"))
    assert isinstance(page, CrawledPage)
    assert (page.canonical_url, page.noarchive) == (site.url("/page"), True)


def test_a_picture_is_taken_where_it_is_asked_for_and_allowed(site: Any, crawl: Crawl) -> None:
    site.html("/page", PROSE)
    wanted = {"screenshot": True}
    browser = ShowingBrowser(screenshot=PNG)
    page = crawl(site.url("/page"), directed=wanted, browser=browser)
    assert (page.screenshot, page.rendered, browser.asked[0]["screenshot"]) == (PNG, True, True)
    shy = ShowingBrowser(PROSE + "<meta name=robots content=noarchive>", screenshot=PNG)
    assert crawl(site.url("/page"), directed=wanted, browser=shy).screenshot is None
    assert not crawl(site.url("/page"), directed=wanted).rendered, "there is no browser: the page alone"


def test_a_host_that_is_asked_too_often_gets_longer_pauses(
    site: Any, proxy: EgressProxy, authorities: ssl.SSLContext
) -> None:
    crawler = crawler_through(proxy, authorities, requests_per_second_per_host=50.0, max_rate_wait_seconds=0.2)
    site.put("/busy", "later", 429, Retry_After="5")
    with pytest.raises(Overloaded, match="429"):
        crawler.crawl(CrawlDirected(url=site.url("/busy")))
    with pytest.raises(Overloaded, match="rate") as caught:
        crawler.crawl(CrawlDirected(url=site.url("/other")))
    assert caught.value.retry_after_seconds > 3
    assert "/other" not in site.paths()


def test_what_was_refused_on_the_way_is_told_with_the_page(site: Any, crawl: Crawl) -> None:
    site.put("/away", status=302, Location="http://10.0.0.1/admin")
    meter = BudgetMeter(CrawlDirected(url=site.url("/away")).allowance)
    with pytest.raises(PolicyRefused):
        crawl(site.url("/away"), meter=meter)
    assert meter.egress is not None
    assert [(refusal.host, refusal.rule, count) for refusal, count in meter.egress.refusals] == [
        ("10.0.0.1", "address", 1)
    ]
    assert meter.egress.bytes_in > 0


def test_every_decision_is_told_to_whoever_asks(site: Any, crawl: Crawl) -> None:
    site.put("/robots.txt", "User-agent: *\nAllow: /page")
    site.html("/page", PROSE + "<a href=/next>next</a>")
    notes: list[tuple[str, str]] = []
    crawl(site.url("/page"), notes=notes)
    told = dict(notes)
    assert [about for about, _ in notes] == ["address", "robots", "turn", "answer", "directives", "sitemap", "link"]
    assert "Allow: /page" in told["robots"]
    assert told["link"] == site.url("/next")
