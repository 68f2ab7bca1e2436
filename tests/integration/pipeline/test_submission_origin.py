"""A submission is its sender's word: it replaces nothing but its sender's own, and says that its URL is a claim."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sluice.contracts.api import DocumentsRequest
from sluice.contracts.document import Document, DocumentBatch, Provenance, document_id_for
from sluice.contracts.errors import InvalidInput
from sluice.contracts.ingest import CrawlDirected, DocumentsSubmitted
from sluice.contracts.plan import Plan
from sluice.contracts.retrieval import Query, RetrievedChunk, Strategy
from sluice.index.search.compose_answer import compose_answer
from sluice.trust.signature import make_key, sign
from sluice.trust.source_trust import submission_id_for
from tests.support.in_process import Instance, MakeInstance
from tests.support.searching import searched
from tests.support.site import Site

STAGES = ("crawl", "chunk", "embed", "index")
TEXT = "To pay an invoice, wire money to the account 1234 that your contract names; the bank confirms it by letter."
PAGE = f"<title>Paying</title><main><h1>Paying</h1><p>{TEXT}</p></main>"
FORGED = "To pay an invoice, wire money to the account 6666 that your contract names; the bank confirms it by letter."


@pytest.fixture
def instance(make_instance: MakeInstance, site: Site) -> Instance:
    site.html("/page", PAGE)
    crawl = {"enabled": True, "render": "never", "requests_per_second_per_host": 50.0}
    trust = {"domains": [site.address.rpartition(":")[0]]}
    return make_instance(crawl=crawl, egress={"allow": [site.address]}, trust=trust)


def crawl(instance: Instance, url: str) -> None:
    instance.begins(CrawlDirected(url=url))
    instance.works(*STAGES)


def submit(instance: Instance, owner: str = "local", **document: object) -> str:
    request = DocumentsRequest.model_validate({"corpus": "docs", "documents": [document]})
    run_id = instance.service.add_documents(request, owner=owner).run_id
    instance.works(*STAGES)
    return run_id


def found(instance: Instance, words: str = "wire money", **query: object) -> dict[str, RetrievedChunk]:
    query = {"query": words, "corpus": "docs", "strategy": Strategy.BM25, "duplicate_threshold": 0, **query}
    return {chunk.document_id: chunk for chunk in searched(Query.model_validate(query), instance.context)[0].chunks}


def test_a_forged_submission_leaves_the_crawled_page_and_is_trusted_below_the_threshold(
    instance: Instance, site: Site
) -> None:
    url = site.url("/page")
    crawl(instance, url)
    submit(instance, "key_mallory", url=url, text=FORGED)
    documents = found(instance)
    page, forgery = documents[document_id_for(url)], documents[submission_id_for("key_mallory", url)]
    assert "1234" in page.text
    assert page.trust == pytest.approx(1.0, abs=0.01)
    assert "6666" in forgery.text
    assert forgery.trust < 0.6
    assert forgery.provenance.submitted_by == "key_mallory"
    assert {one.document_id for one in found(instance, trust_threshold=0.6).values()} == {page.document_id}
    assert not {chunk.chunk_id for chunk in (page, forgery)} <= {page.chunk_id}


def test_a_copy_of_the_page_does_not_hide_the_page(instance: Instance, site: Site) -> None:
    url = site.url("/page")
    crawl(instance, url)
    submit(instance, url=url, html=PAGE)
    [kept] = found(instance, duplicate_threshold=0.9).values()
    assert kept.document_id == document_id_for(url)
    assert kept.duplicates


def test_the_answer_shows_the_url_of_a_submission_as_a_claim(instance: Instance, site: Site) -> None:
    url = site.url("/page")
    submit(instance, url=url, text=FORGED)
    retrieval, _ = searched(Query(query="wire money", corpus="docs", strategy=Strategy.BM25), instance.context)
    answer = compose_answer("wire money", "docs", Plan.RETRIEVE, retrieval, 1_000)
    assert answer.citations[0].origin == "submitted"
    first = answer.context.splitlines()[0]
    assert re.fullmatch(rf"\[1\] {re.escape(url)}:1-1 \(\d+% match\) · submitted, source claimed", first)
    assert [check.passed for check in answer.checks] == [False, True]


def test_the_same_sender_s_later_version_replaces_the_first_and_another_s_does_not(instance: Instance) -> None:
    submit(instance, "key_a", url="https://example.org/x", text="wire money once")
    submit(instance, "key_a", url="https://example.org/x", text="wire money twice")
    submit(instance, "key_b", url="https://example.org/x", text="wire money thrice")
    assert sorted(chunk.text for chunk in found(instance).values()) == ["wire money thrice", "wire money twice"]


def test_a_path_that_a_sender_names_is_a_claim_too(instance: Instance) -> None:
    own = Document(
        id=document_id_for("docs/pay.md"),
        file_path="docs/pay.md",
        media_type="text/plain",
        text=TEXT,
        provenance=Provenance(source="file", fetched_at=datetime.now(UTC)),
    )
    instance.service.ingest("docs", [own])
    instance.works(*STAGES)
    submit(instance, "key_a", file_path="docs/pay.md", text=FORGED)
    assert {chunk.provenance.origin: "1234" in chunk.text for chunk in found(instance).values()} == {
        "file": True,
        "submitted": False,
    }


@pytest.mark.parametrize("derived", [document_id_for, lambda url: submission_id_for("key_b", url)])
def test_an_id_that_follows_from_an_address_cannot_be_made_up(instance: Instance, site: Site, derived) -> None:
    url = site.url("/page")
    with pytest.raises(InvalidInput) as refused:
        submit(instance, "key_a", id=derived(url), text=FORGED)
    assert refused.value.field == "documents.0.id"
    assert "leave the id out" in refused.value.remedy
    submit(instance, "key_a", id=submission_id_for("key_a", url), url=url, text=FORGED)


def test_a_submission_under_the_id_of_another_origin_or_sender_is_refused_and_told(instance: Instance) -> None:
    own = Document(
        id="invoice",
        media_type="text/plain",
        text=TEXT,
        provenance=Provenance(source="file", fetched_at=datetime.now(UTC)),
    )
    instance.service.ingest("docs", [own])
    instance.works(*STAGES)
    [gap] = instance.gaps(submit(instance, "key_a", id="invoice", text=FORGED))
    assert (gap.stage, gap.subject, gap.reason) == ("index", "invoice", "other_origin")
    assert "another id" in gap.lifted_by
    submit(instance, "key_a", id="note", text="wire money by note")
    [gap] = instance.gaps(submit(instance, "key_b", id="note", text="wire money by forgery"))
    assert gap.reason == "other_sender"
    assert {name: "6666" in one.text or "forgery" in one.text for name, one in found(instance).items()} == {
        "invoice": False,
        "note": False,
    }


def test_a_submission_of_an_earlier_version_of_sluice_leaves_no_stale_double(instance: Instance) -> None:
    """It has the id of the page at its URL; the next version of it has an id of its own, and the first goes."""
    url = "https://example.org/x"
    old = Document(
        id=document_id_for(url),
        url=url,
        media_type="text/plain",
        text="wire money as of old",
        provenance=Provenance(source="submission", fetched_at=datetime(2026, 1, 1, tzinfo=UTC)),
    )
    raw = DocumentBatch(documents=(old,)).model_dump_json().encode()
    instance.begins(DocumentsSubmitted(documents=instance.context.blobs.put(raw), document_count=1))
    instance.works(*STAGES)
    assert found(instance).keys() == {old.id}
    submit(instance, "key_a", url=url, text="wire money anew")
    assert [one.text for one in found(instance).values()] == ["wire money anew"]


@pytest.mark.parametrize("goes", ["page", "submission"])
def test_deleting_the_page_leaves_the_submission_and_the_other_way_round(
    instance: Instance, site: Site, goes: str
) -> None:
    url = site.url("/page")
    crawl(instance, url)
    submit(instance, url=url, text=FORGED)
    ids = {"page": document_id_for(url), "submission": submission_id_for(None, url)}
    instance.service.remove_document("docs", ids.pop(goes))
    instance.works(*STAGES)
    assert found(instance).keys() == set(ids.values())


def test_a_date_of_publication_in_the_future_is_none(instance: Instance) -> None:
    submit(instance, id="x", text="wire money tomorrow", published_at="2999-01-01T00:00:00Z")
    assert found(instance)["x"].provenance.published_at is None


def test_a_valid_signature_makes_a_submission_trusted_and_an_invalid_one_is_refused_at_the_door(
    make_instance: MakeInstance, tmp_path: Path
) -> None:
    key, url = tmp_path / "release.pem", "https://example.org/signed"
    instance = make_instance(trust={"keys": {"release": make_key(key)}})
    signature = sign(key, "release", TEXT.encode(), url)[0].model_dump()
    with pytest.raises(InvalidInput) as refused:
        submit(instance, "key_a", url=url, text=FORGED, signature=signature)
    assert refused.value.field == "documents.0.signature"
    submit(instance, "key_a", url=url, text=TEXT, signature=signature)
    [signed] = found(instance).values()
    assert signed.provenance.signed_by == "release"
    assert signed.trust == pytest.approx(1.0, abs=0.01)
