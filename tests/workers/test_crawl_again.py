"""A page that is crawled again costs a question to its site and nothing more, while the index holds it."""

from __future__ import annotations

from typing import Any

import pytest

from contracts.document import document_id_for
from contracts.ingest import CrawlDirected, DocumentsRemoved
from tests.ingest.conftest import Site
from tests.workers.instance import Instance, MakeInstance

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
    return [event.kind for _, event in instance.parts.ledger.events_after(run_id, 0)]


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


def test_what_was_refused_on_the_way_is_an_event_of_the_run(instance: Instance, site: Site) -> None:
    site.put("/away", status=302, Location="http://10.0.0.1/admin")
    run_id = instance.begins(CrawlDirected(url=site.url("/away")))
    instance.works("crawl")
    [refused] = [e for _, e in instance.parts.ledger.events_after(run_id, 0) if e.kind == "EgressRefused"]
    assert (refused.body.host, refused.body.rule, refused.body.purpose) == ("10.0.0.1", "address", "crawl")
    [gap] = instance.gaps(run_id)
    assert gap.reason == "egress"


def test_operators_see_what_was_done_to_each_host(instance: Instance, site: Site) -> None:
    site.put("/robots.txt", "User-agent: *\nDisallow: /closed")
    for path in ("/page", "/closed"):
        crawled(instance, site.url(path), "crawl")
    instance.works("crawl")
    [row] = instance.parts.host_figures.top(10, instance.today)
    assert (row.host, row.requests, row.pages, row.robots_refusals) == ("127.0.0.1", 1, 1, 1)
    assert row.received_bytes == len(PAGE)
    assert row.interval_seconds >= 0.02
