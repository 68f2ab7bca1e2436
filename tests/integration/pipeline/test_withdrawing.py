"""A page that was indexed and may be so no longer is taken out of the index, once, and it is known why."""

from __future__ import annotations

from datetime import timedelta

import pytest
import redis

from sluice.contracts.api import DocumentsRequest
from sluice.contracts.document import document_id_for
from sluice.contracts.event import Done, Event, Outcome
from sluice.contracts.index import DocumentIndexed
from sluice.contracts.ingest import CrawlDirected, PageWithdrawn, SearchCompleted, SearchResult
from sluice.contracts.retrieval import Query, Strategy
from sluice.trust.source_trust import submission_id_for
from sluice.workers.handlers import HANDLERS
from sluice.workers.runtime.observers import utc_now
from tests.support.in_process import Instance, MakeInstance
from tests.support.searching import searched
from tests.support.site import Site
from tests.support.valkey import Valkey

TEXT = """<p>A canal lock raises boats between stretches of water at different levels, by means of a chamber with gates.</p>
<p>The keeper opens the paddles first, so that the levels meet, and only then the gates; that takes ten minutes.</p>"""
PAGE = f"<title>Locks</title><main><h1>Locks</h1>{TEXT}</main>"
NOINDEX = f"<meta name=robots content=noindex>{PAGE}"
STAGES = ("crawl", "chunk", "embed", "index")


@pytest.fixture
def instance(make_instance: MakeInstance, site: Site) -> Instance:
    site.html("/page", PAGE)
    settings = {"enabled": True, "render": "never", "requests_per_second_per_host": 50.0, "breaker_reset_seconds": 1}
    return make_instance(crawl=settings, egress={"allow": [site.address]})


def crawl(instance: Instance, url: str) -> str:
    """The run of a crawl that has been carried out."""
    run_id = instance.begins(CrawlDirected(url=url))
    instance.works(*STAGES)
    return run_id


def kinds(instance: Instance, run_id: str) -> list[str]:
    return [event.kind for _, event in instance.context.ledger.events_after(run_id, 0)]


def found(instance: Instance, words: str = "paddles keeper") -> list[str]:
    """The ids of the documents that a search for `words` finds."""
    query, context = Query(query=words, corpus="docs", strategy=Strategy.BM25), instance.context
    return [chunk.document_id for chunk in searched(query, context)[0].chunks]


@pytest.mark.parametrize(
    ("body", "status", "headers", "by"),
    [
        (NOINDEX, 200, {}, "noindex"),
        (PAGE, 200, {"X_Robots_Tag": "noindex"}, "noindex"),
        (PAGE, 200, {"X_Robots_Tag": "unavailable_after: 2020-01-01"}, "noindex"),
        ("", 404, {}, "not_found"),
        ("", 410, {}, "gone"),
    ],
    ids=["meta", "header", "expired", "404", "410"],
)
def test_a_page_that_may_be_in_the_index_no_longer_is_not_found_any_more(
    instance: Instance, site: Site, body: str, status: int, headers: dict[str, str], by: str
) -> None:
    url = site.url("/page")
    crawl(instance, url)
    assert found(instance) == [document_id_for(url)]
    site.put("/page", body, status, Content_Type="text/html", **headers)
    run_id = crawl(instance, url)
    assert found(instance) == []
    told = kinds(instance, run_id)
    assert told == [
        *("CrawlDirected", "GapFound", "PageWithdrawn", "DocumentIndexed"),
        *("SnapshotPublished", "GraphDirected", "RunFinished"),
    ]
    known = instance.context.page_memory.withdrawn("docs", url)
    assert known is not None
    assert known.by == by
    again = crawl(instance, url)
    assert "PageWithdrawn" not in kinds(instance, again), "there is nothing left to withdraw"


def test_a_page_that_says_so_with_a_304_goes_too(instance: Instance, site: Site) -> None:
    url = site.url("/page")
    site.html("/page", PAGE, ETag='"1"')
    crawl(instance, url)
    site.put("/page", "", 304, X_Robots_Tag="noindex")
    crawl(instance, url)
    assert found(instance) == []


def test_a_page_that_comes_back_is_read_anew(instance: Instance, site: Site) -> None:
    url = site.url("/page")
    crawl(instance, url)
    site.put("/page", "", 404)
    crawl(instance, url)
    site.html("/page", PAGE)
    assert "ChunksEmbedded" in kinds(instance, crawl(instance, url))
    assert found(instance) == [document_id_for(url)]
    assert instance.context.page_memory.withdrawn("docs", url) is None


@pytest.mark.parametrize("status", [503, 500, 403, 429])
def test_what_is_no_answer_about_the_page_withdraws_nothing(instance: Instance, site: Site, status: int) -> None:
    url = site.url("/page")
    crawl(instance, url)
    site.put("/page", NOINDEX, status, Content_Type="text/html", X_Robots_Tag="noindex")
    assert "PageWithdrawn" not in kinds(instance, crawl(instance, url))
    assert found(instance) == [document_id_for(url)]


def test_a_site_that_forbids_to_look_withdraws_nothing(
    instance: Instance, make_instance: MakeInstance, site: Site, valkey: Valkey
) -> None:
    url = site.url("/page")
    crawl(instance, url)
    with redis.Redis.from_url(str(valkey.settings.broker_location)) as broker:
        broker.delete(*broker.keys("*robots*"))
    site.put("/robots.txt", "User-agent: *\nDisallow: /")
    site.put("/page", NOINDEX, 410, Content_Type="text/html")
    later = make_instance(crawl=instance.context.settings.crawl, egress=instance.context.settings.egress)
    run_id = later.begins(CrawlDirected(url=url))
    later.works("crawl")
    assert [gap.reason for gap in later.gaps(run_id)] == ["robots"]
    assert "PageWithdrawn" not in kinds(later, run_id)


def test_a_page_that_was_never_indexed_is_no_event_and_makes_no_corpus(instance: Instance, site: Site) -> None:
    assert "PageWithdrawn" not in kinds(instance, crawl(instance, site.url("/nowhere")))
    assert instance.context.readers.names() == ()
    crawl(instance, site.url("/page"))
    assert "PageWithdrawn" not in kinds(instance, crawl(instance, site.url("/nowhere")))


def test_nobody_withdraws_a_page_by_having_once_led_to_it(instance: Instance, site: Site) -> None:
    """An address that redirected to somebody's page, and now answers 410, speaks for itself alone."""
    site.put("/alias", status=302, Location="/page")
    crawl(instance, site.url("/alias"))
    site.put("/alias", status=410)
    crawl(instance, site.url("/alias"))
    assert found(instance) == [document_id_for(site.url("/page"))]


def test_what_searches_showed_of_the_page_goes_with_it(instance: Instance, site: Site) -> None:
    url = site.url("/page")
    result = SearchResult(url=url, title="Locks", snippet="The keeper opens the paddles first.", rank=1)
    shown = SearchCompleted(
        query="locks", provider="searxng", results=(result,), cost_usd=0, elapsed_ms=1, searched_at=utc_now()
    )
    instance.begins(shown)
    instance.works("chunk", "embed", "index")
    assert len(found(instance)) == 1
    site.put("/page", "", 410)
    crawl(instance, url)
    assert found(instance) == []


def test_what_was_handed_in_under_the_same_address_stays(instance: Instance, site: Site) -> None:
    url = site.url("/page")
    crawl(instance, url)
    document = {"url": url, "text": "The keeper of this note opens paddles."}
    request = DocumentsRequest.model_validate({"corpus": "docs", "documents": [document]})
    instance.service.add_documents(request)
    instance.works(*STAGES)
    assert len(found(instance)) == 2
    site.put("/page", "", 410)
    crawl(instance, url)
    assert found(instance) == [submission_id_for(None, url)]


def test_a_withdrawal_may_be_carried_out_twice_and_never_takes_what_was_read_since(
    instance: Instance, site: Site
) -> None:
    url = site.url("/page")
    crawl(instance, url)
    ids = (document_id_for(url),)
    early = withdrawn(PageWithdrawn(url=url, document_ids=ids, by="gone", seen_at=utc_now() - timedelta(hours=1)))
    assert removed(HANDLERS["PageWithdrawn"](early, instance.context)) == ()
    assert found(instance) == list(ids)
    assert instance.context.page_memory.recall("docs", url) is not None
    now = withdrawn(PageWithdrawn(url=url, document_ids=ids, by="gone", seen_at=utc_now()))
    assert [removed(HANDLERS["PageWithdrawn"](now, instance.context)) for _ in range(2)] == [ids, ()]
    assert found(instance) == []


def withdrawn(body: PageWithdrawn) -> Event:
    return Event.of(body, run_id="run_1", corpus="docs")


def removed(outcome: Outcome) -> tuple[str, ...]:
    """The documents that a handler has removed."""
    assert isinstance(outcome, Done)
    [indexed] = [emit.body for emit in outcome.emits if isinstance(emit.body, DocumentIndexed)]
    return indexed.document_ids
