"""A page that is crawled again costs a question to its site and nothing more, while the index holds it."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from sluice.contracts.document import document_id_for
from sluice.contracts.ingest import CrawlDirected, DocumentsRemoved
from tests.support.in_process import Instance, MakeInstance
from tests.support.site import Site

PAGE = """<title>Locks</title><main><h1>Locks</h1>
<p>A canal lock raises boats between stretches of water at different levels, by means of a chamber with gates.</p>
<p>The keeper opens the paddles first, so that the levels meet, and only then the gates; that takes ten minutes.</p>
</main>"""
STAGES = ("crawl", "chunk", "embed", "index")


@pytest.fixture
def instance(make_instance: MakeInstance, site: Site) -> Instance:
    site.html("/page", PAGE)
    settings = {"enabled": True, "render": "never", "requests_per_second_per_host": 50.0}
    return make_instance(crawl=settings, egress={"allow": [site.address]})


def crawled(instance: Instance, url: str, *stages: Any) -> list[str]:
    """The kinds of a crawl's events, in their order."""
    run_id = instance.begins(CrawlDirected(url=url))
    instance.works(*(stages or STAGES))
    return [event.kind for _, event in instance.context.ledger.events_after(run_id, 0)]


def test_an_unchanged_page_is_not_read_again(instance: Instance, site: Site) -> None:
    first = crawled(instance, site.url("/page"))
    assert "ChunksEmbedded" in first
    assert crawled(instance, site.url("/page")) == ["CrawlDirected", "PageUnchanged", "RunFinished"]
    site.html("/page", PAGE.replace("paddles", "sluices"))
    assert crawled(instance, site.url("/page")) == first
    assert crawled(instance, site.url("/page"))[1] == "PageUnchanged"


def test_a_page_that_was_removed_from_the_corpus_is_read_anew(instance: Instance, site: Site) -> None:
    first = crawled(instance, site.url("/page"))
    instance.begins(DocumentsRemoved(document_ids=(document_id_for(site.url("/page")),)))
    instance.works("index")
    assert crawled(instance, site.url("/page")) == first


def test_a_page_whose_reading_never_came_to_the_index_is_read_anew(instance: Instance, site: Site) -> None:
    assert crawled(instance, site.url("/page"), "crawl") == ["CrawlDirected", "PageCrawled"]
    again = crawled(instance, site.url("/page"), "crawl")
    assert again == ["CrawlDirected", "PageCrawled"]


def test_a_way_of_ever_new_characters_ends_before_its_third_page(instance: Instance, site: Site) -> None:
    """Every page links to another of its kind: what each hop alone takes for a page, the way shows to have no end."""

    def lead_on(handler: Any) -> None:
        body = f"<title>Play</title>{PAGE}<a href='/play?t={secrets.token_hex(16)}'>on</a>".encode()
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    site.call("/play", lead_on)
    first = site.url(f"/play?t={secrets.token_hex(16)}")
    run_id = instance.begins(CrawlDirected(url=first, max_depth=5, page_allowance=20))
    instance.works("crawl")
    ledger = instance.context.ledger
    asked = [event.body_as(CrawlDirected) for event in ledger.events_of_kind(run_id, CrawlDirected.kind)]
    assert len(asked) == 2
    assert asked[1].came_by == (first,)


def test_a_page_knows_by_which_pages_the_run_came_to_it(instance: Instance, site: Site) -> None:
    site.put("/start", status=302, Location="/landing")
    site.html("/landing", PAGE + "<a href='/calendar/2031/05/'>calendar</a>")
    site.html("/calendar/2031/05/", PAGE + "<a href='/calendar/2031/06/'>next month</a><a href='/about'>about</a>")
    site.html("/about", PAGE)
    run_id = instance.begins(CrawlDirected(url=site.url("/start"), max_depth=5, page_allowance=20))
    instance.works("crawl")
    crawls = instance.context.ledger.events_of_kind(run_id, CrawlDirected.kind)
    assert [(event.body.url, event.body.came_by) for event in crawls] == [
        (site.url("/start"), ()),
        (site.url("/calendar/2031/05/"), (site.url("/landing"),)),
        (site.url("/about"), (site.url("/landing"), site.url("/calendar/2031/05/"))),
    ]


def test_what_was_refused_on_the_way_is_an_event_of_the_run(instance: Instance, site: Site) -> None:
    site.put("/away", status=302, Location="http://10.0.0.1/admin")
    run_id = instance.begins(CrawlDirected(url=site.url("/away")))
    instance.works("crawl")
    [refused] = [e for _, e in instance.context.ledger.events_after(run_id, 0) if e.kind == "EgressRefused"]
    assert (refused.body.host, refused.body.rule, refused.body.purpose) == ("10.0.0.1", "address", "crawl")
    [gap] = instance.gaps(run_id)
    assert gap.reason == "egress"


def test_operators_see_what_was_done_to_each_host(instance: Instance, site: Site) -> None:
    site.put("/robots.txt", "User-agent: *\nDisallow: /closed")
    for path in ("/page", "/closed"):
        crawled(instance, site.url(path), "crawl")
    instance.works("crawl")
    [row] = instance.context.host_stats.top(10, instance.today)
    assert (row.host, row.requests, row.pages, row.robots_refusals) == ("127.0.0.1", 1, 1, 1)
    assert row.received_bytes == len(PAGE)
    assert row.interval_seconds >= 0.02
