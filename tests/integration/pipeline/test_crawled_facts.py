"""What a page says of itself, and what it asks for, holds from the crawl to the answer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from sluice.contracts.api import GateRequest
from sluice.contracts.index import AnswerReady
from sluice.contracts.ingest import CrawlDirected
from sluice.contracts.plan import Plan
from sluice.contracts.retrieval import Filters, Query, Retrieval
from tests.support.in_process import Instance, MakeInstance
from tests.support.searching import searched
from tests.support.site import Site

BODY = """<main><h1>Locks of the canal</h1>
<p>A canal lock raises boats between stretches of water at different levels, by means of a chamber with gates.</p>
<p>The keeper opens the paddles first, so that the levels meet, and only then the gates; that takes ten minutes.</p>
</main>"""
PAGE = f"<html lang=en><title>Locks</title>{BODY}"
LICENCE = "https://creativecommons.org/licenses/by/4.0/"
TOLD = f"""<html lang=en><head><title>Locks</title><meta property="og:site_name" content="The Canal Review">
<meta name=author content="Ada Keeper"><meta property="article:published_time" content="2024-05-06T07:08:09Z">
<link rel=license href="{LICENCE}"></head>{BODY}"""


@pytest.fixture
def instance(make_instance: MakeInstance, site: Site) -> Instance:
    settings = {"enabled": True, "render": "never", "requests_per_second_per_host": 50.0}
    return make_instance(crawl=settings, egress={"allow": [site.address]})


def crawl(instance: Instance, url: str) -> list[str]:
    """Crawl a page and index it; the kinds of the events."""
    run_id = instance.begins(CrawlDirected(url=url))
    instance.works("crawl", "chunk", "embed", "index")
    return [event.kind for _, event in instance.context.ledger.events_after(run_id, 0)]


def search(instance: Instance, words: str = "who opens the paddles", **conditions: Any) -> Retrieval:
    query = Query(query=words, corpus="docs", filters=Filters.model_validate(conditions))
    return searched(query, instance.context)[0]


@pytest.mark.parametrize(
    ("page", "headers"),
    [
        (f"<meta name=robots content=nosnippet>{PAGE}", {}),
        (f"<meta name=robots content='max-snippet:0'>{PAGE}", {}),
        (PAGE, {"X_Robots_Tag": "nosnippet"}),
    ],
    ids=["nosnippet", "max-snippet:0", "header"],
)
def test_a_page_that_wants_no_text_shown_is_found_and_cited_without_it(
    instance: Instance, site: Site, page: str, headers: dict[str, str]
) -> None:
    site.html("/page", page, **headers)
    crawl(instance, site.url("/page"))
    [chunk] = search(instance).chunks
    assert (chunk.url, chunk.title, chunk.text, chunk.section_path) == (site.url("/page"), "Locks", "", ())
    assert chunk.dense_distance is not None
    assert chunk.lexical_score, "its text was searched"
    answer = answered(instance, "who opens the paddles of a lock?")
    assert [(one.url, one.title) for one in answer.citations] == [(site.url("/page"), "Locks")]
    assert "keeper" not in answer.model_dump_json().lower()


def test_what_a_page_asks_for_holds_although_its_content_stays_the_same(instance: Instance, site: Site) -> None:
    url = site.url("/page")
    for headers, shows in (({}, True), ({"X_Robots_Tag": "nosnippet"}, False), ({}, True)):
        site.html("/page", PAGE, **headers)
        assert "ChunksEmbedded" in crawl(instance, url)
        assert bool(search(instance).chunks[0].text) == shows
        assert crawl(instance, url)[1] == "PageUnchanged"


def test_a_page_that_was_not_modified_may_ask_for_it_from_now_on(instance: Instance, site: Site) -> None:
    url, tag = site.url("/page"), {}

    def answer(handler: Any) -> None:
        is_known = handler.headers.get("If-None-Match") == '"1"'
        handler.send_response(304 if is_known else 200)
        for name, value in {"ETag": '"1"', "Content-Type": "text/html", **tag}.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", "0" if is_known else str(len(PAGE)))
        handler.end_headers()
        handler.wfile.write(b"" if is_known else PAGE.encode())

    site.call("/page", answer)
    crawl(instance, url)
    assert crawl(instance, url)[1] == "PageUnchanged"
    tag["X-Robots-Tag"] = "nosnippet"
    assert "ChunksEmbedded" in crawl(instance, url)
    assert search(instance).chunks[0].text == ""
    assert crawl(instance, url)[1] == "PageUnchanged"


def test_whose_a_page_is_and_what_may_be_done_with_it_comes_out_with_its_citation(
    instance: Instance, site: Site
) -> None:
    site.html("/page", TOLD)
    crawl(instance, site.url("/page"))
    [chunk] = search(instance).chunks
    assert chunk.metadata == {"licence": LICENCE, "site_name": "The Canal Review"}
    assert (chunk.provenance.author, chunk.language) == ("Ada Keeper", "en")
    [citation] = answered(instance, "who opens the paddles of a lock?").citations
    assert (citation.licence, citation.site_name, citation.author) == (LICENCE, "The Canal Review", "Ada Keeper")
    assert citation.published_at == datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)


def test_a_query_is_narrowed_by_licence_and_by_site(instance: Instance, site: Site) -> None:
    site.html("/open", TOLD)
    other = TOLD.replace("boats", "barges").replace("ten minutes", "an hour").replace("keeper", "master of the lock")
    site.html("/closed", other.replace(LICENCE, "https://example.com/all-rights-reserved"))
    for path in ("/open", "/closed"):
        crawl(instance, site.url(path))
    assert len({chunk.url for chunk in search(instance).chunks}) == 2
    found = search(instance, metadata={"licence": LICENCE})
    assert {chunk.url for chunk in found.chunks} == {site.url("/open")}
    assert search(instance, metadata={"site_name": "Another"}).chunks == ()


def answered(instance: Instance, question: str) -> Any:
    """The answer to a question, from what is indexed."""
    run_id = instance.service.ask(GateRequest(query=question, corpus="docs", plan=Plan.RETRIEVE)).run_id
    instance.works("query", "gate", "query")
    [ready] = instance.context.ledger.events_of_kind(run_id, AnswerReady.kind)
    return ready.body_as(AnswerReady).answer
