"""Corpora and documents over HTTP: made, listed, described, changed, counted, forgotten and deleted."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from sluice.contracts import ingest
from sluice.contracts.event import Done, Event, new_run_id
from sluice.contracts.operations.transfer import ExportDirected
from sluice.ledger.ledger import Ledger
from sluice.workers import transfer
from tests.support.api_keys import bearer
from tests.support.in_process import Instance, MakeInstance

CORPORA, DOCUMENTS = "/v1/corpora", "/v1/documents"
STAGES = ("chunk", "embed", "index", "graph")


def ok(response: Any, status: int = 200) -> Any:
    assert response.status_code == status, response.text
    return response.json()


@pytest.fixture
def workers(make_instance: MakeInstance, http: TestClient) -> Instance:
    return make_instance()


def add(http: TestClient, workers: Instance, corpus: str, *documents: dict[str, Any], **more: Any) -> None:
    ok(http.post(DOCUMENTS, json={"corpus": corpus, "documents": documents, "create_corpus": True, **more}), 202)
    finish(workers)


def finish(workers: Instance) -> None:
    for _ in range(3):
        workers.works(*STAGES)


@pytest.fixture
def filled(http: TestClient, workers: Instance) -> TestClient:
    documents = [
        {
            "id": f"notes/{n}",
            "text": f"Ferrets sleep in box {n}.",
            "title": f"Box {n}",
            "metadata": {"n": n, "odd": n % 2 == 1},
        }
        for n in range(7)
    ]
    add(http, workers, "pets", *documents)
    return http


def ids(http: TestClient, **parameters: Any) -> list[str]:
    found: list[str] = []
    cursor = None
    while True:
        page = ok(
            http.get(
                DOCUMENTS,
                params={"corpus": "pets", "cursor": cursor, **parameters}
                if cursor
                else {"corpus": "pets", **parameters},
            )
        )
        found += [one["id"] for one in page["data"]]
        cursor = page["next_cursor"]
        if cursor is None:
            return found


def test_a_corpus_is_made_described_changed_and_listed(http: TestClient) -> None:
    made = http.post(CORPORA, json={"name": "docs", "description": "manuals"})
    assert (ok(made, 201)["version"], made.headers["Location"], made.headers["ETag"]) == (1, f"{CORPORA}/docs", '"1"')
    ok(http.post(CORPORA, json={"name": "docs"}), 409)
    changed = ok(
        http.patch(f"{CORPORA}/docs", json={"search": False, "description": None}, headers={"If-Match": '"1"'})
    )
    assert (changed["version"], changed["settings"]["description"], changed["policy"]["search"]) == (2, "", False)
    ok(http.patch(f"{CORPORA}/docs", json={"crawl": False}, headers={"If-Match": '"1"'}), 412)
    ok(http.patch(f"{CORPORA}/docs", json={}), 422)
    assert [one["name"] for one in ok(http.get(CORPORA))["data"]] == ["default", "docs"]
    assert ok(http.get(f"{CORPORA}/docs"))["documents"] == 0
    ok(http.get(f"{CORPORA}/nowhere"), 404)


def test_a_corpus_that_is_not_there_is_not_asked_and_not_filled_unless_it_is_to_be_made(
    http: TestClient, ledger: Ledger
) -> None:
    document = {"id": "a", "text": "words"}
    ok(http.post("/v1/gate", json={"corpus": "nowhere", "query": "ferrets"}), 404)
    ok(http.post(DOCUMENTS, json={"corpus": "nowhere", "documents": [document]}), 404)
    ok(http.get(DOCUMENTS, params={"corpus": "nowhere"}), 404)
    refused = http.post("/v1/uploads", files={"file": ("a.txt", b"words")}, data={"corpus": "nowhere"})
    assert "create_corpus" in ok(refused, 404)["detail"]
    assert ledger.runs(10) == []
    ok(http.post(DOCUMENTS, json={"corpus": "nowhere", "documents": [document], "create_corpus": True}), 202)
    ok(http.post("/v1/gate", json={"corpus": "nowhere", "query": "ferrets"}), 202)
    ok(http.post("/v1/gate", json={"query": "ferrets"}), 202)


def test_documents_are_listed_in_parts_in_either_order_and_by_condition(filled: TestClient) -> None:
    everything = [f"notes/{n}" for n in range(7)]
    assert ids(filled, limit=2) == everything
    assert ids(filled, limit=3, order="-id") == everything[::-1]
    assert sorted(ids(filled, limit=4, order="-fetched_at")) == everything
    assert ids(filled, where="metadata.n >= 2 and not metadata.odd = true", limit=1) == [
        "notes/2",
        "notes/4",
        "notes/6",
    ]
    assert ids(filled, q="BOX 3") == ["notes/3"]
    assert ids(filled, where="trust > .99") == []
    count = ok(filled.get(f"{DOCUMENTS}/count", params={"corpus": "pets", "where": "metadata.odd = true"}))
    assert count["documents"] == 3
    wrong = ok(filled.get(DOCUMENTS, params={"corpus": "pets", "where": "trust >"}), 422)
    assert "at character 8" in wrong["detail"]


def test_a_document_whose_id_has_slashes_is_got_with_its_passages_and_links(
    filled: TestClient, workers: Instance
) -> None:
    add(filled, workers, "pets", {"id": "a/text", "text": "A page that [links](https://example.org/x) away."})
    told = {"corpus": "pets"}
    one = ok(filled.get(f"{DOCUMENTS}/{quote('a/text', safe='')}", params=told))
    assert (one["id"], one["chunks"], one["origin"]) == ("a/text", 1, "operator")
    text = ok(filled.get(f"{DOCUMENTS}/{quote('a/text', safe='')}/text", params=told))
    assert text["document_id"] == "a/text"
    [chunk] = ok(filled.get(f"{DOCUMENTS}/{quote('a/text', safe='')}/chunks", params=told))["data"]
    assert chunk["text"].startswith("A page")
    ok(filled.get(f"{DOCUMENTS}/notes/1/links", params=told))
    assert filled.head(f"{DOCUMENTS}/notes/1", params=told).status_code == 200
    assert filled.head(f"{DOCUMENTS}/notes/99", params=told).status_code == 404


def test_metadata_is_changed_without_embedding_again(filled: TestClient, workers: Instance) -> None:
    told = {"corpus": "pets"}
    before = ok(filled.get(f"{DOCUMENTS}/notes/1", params=told))
    ok(filled.patch(f"{DOCUMENTS}/notes/1", params=told, json={"metadata": {"team": "cats", "odd": None}}), 202)
    finish(workers)
    after = ok(filled.get(f"{DOCUMENTS}/notes/1", params=told))
    assert after["metadata"] == {"n": 1, "team": "cats"}
    assert {**after, "metadata": None} == {**before, "metadata": None}
    ok(filled.patch(f"{DOCUMENTS}/notes/1", params=told, json={"metadata": {}}), 422)


def test_documents_are_forgotten_by_a_condition_after_a_dry_run(filled: TestClient, workers: Instance) -> None:
    request = {"corpus": "pets", "where": "metadata.n < 5", "keep_out": False}
    would = ok(filled.post("/v1/forget", params={"dry_run": True}, json=request))
    assert (would["documents"], would["examples"][0]) == (5, "notes/0")
    run = ok(filled.post("/v1/forget", json=request), 202)["run_id"]
    finish(workers)
    assert ids(filled) == ["notes/5", "notes/6"]
    assert workers.context.ledger.run(run).status == "finished"


def test_a_deleted_corpus_is_gone_with_all_of_it_and_may_be_made_anew(filled: TestClient, workers: Instance) -> None:
    run = ok(filled.delete(f"{CORPORA}/pets"), 202)["run_id"]
    ok(filled.get(f"{CORPORA}/pets"), 404)
    ok(filled.post("/v1/gate", json={"corpus": "pets", "query": "ferrets"}), 404)
    finish(workers)
    assert workers.context.ledger.run(run).status == "finished"
    assert ok(filled.post(CORPORA, json={"name": "pets"}), 201)["documents"] == 0


def test_a_key_sees_and_touches_its_own_corpora(filled: TestClient) -> None:
    theirs = bearer(filled, "agent", "pets")
    assert [one["name"] for one in ok(filled.get(CORPORA, headers=theirs))["data"]] == ["pets"]
    ok(filled.get(f"{CORPORA}/default", headers=theirs), 403)
    ok(filled.patch(f"{CORPORA}/pets", json={"search": False}, headers=theirs), 403)
    ok(filled.delete(f"{CORPORA}/pets", headers=theirs), 403)


def test_a_batch_of_questions_has_a_status_for_each(filled: TestClient) -> None:
    items = [{"query": "ferrets", "corpus": "pets"}, {"query": ""}, {"query": "a", "corpus": "nowhere"}, {"query": "b"}]
    results = ok(filled.post("/v1/gate/batch", json={"requests": items}))["results"]
    assert [one["status"] for one in results] == [202, 422, 404, 202]
    assert results[1]["body"]["code"] == "invalid_input"
    ok(filled.post("/v1/gate/batch", json={"requests": items * 26}), 422)


@pytest.mark.parametrize("in_shares", [False, True])
def test_an_exported_corpus_is_imported_equal(
    filled: TestClient, workers: Instance, monkeypatch: pytest.MonkeyPatch, in_shares: bool
) -> None:
    if in_shares:
        monkeypatch.setattr(transfer, "SHARE_SECONDS", 0)
        monkeypatch.setattr(transfer, "CHUNKS_AT_ONCE", 3)
    run = ok(filled.post(f"{CORPORA}/pets/export"), 202)
    ok(filled.get(run["links"]["artefact"]), 404)
    ok(filled.post(f"{CORPORA}/pets/import", json={"artefact_id": "art_" + 24 * "0"}), 404)
    finish(workers)
    file = filled.get(run["links"]["artefact"])
    assert (file.status_code, file.headers["content-type"]) == (200, "application/x-tar")
    ok(filled.post(f"{CORPORA}/copy/import", json={"artefact_id": run["links"]["artefact"].rsplit("/")[-1]}), 404)
    ok(filled.post(CORPORA, json={"name": "copy"}), 201)
    brought = ok(
        filled.post(f"{CORPORA}/copy/import", json={"artefact_id": run["links"]["artefact"].rsplit("/")[-1]}), 202
    )
    finish(workers)
    assert workers.context.ledger.run(brought["run_id"]).status == "finished"
    readers = workers.context.readers
    first, second = readers.reader("pets"), readers.reader("copy")
    assert first.corpus_hash().served == second.corpus_hash().served  # type: ignore[union-attr]
    for facts in first.all_facts():
        assert second.document(facts.document_id) == facts
        assert second.chunks(facts.document_id) == first.chunks(facts.document_id)
        assert (second.vectors(facts.document_id) == first.vectors(facts.document_id)).all()  # type: ignore[union-attr]


def exported(http: TestClient, workers: Instance, corpus: str) -> tuple[str, bytes]:
    """An export's address, and its file."""
    link = ok(http.post(f"{CORPORA}/{corpus}/export"), 202)["links"]["artefact"]
    finish(workers)
    return link, http.get(link).content


def test_what_another_instance_exported_is_inspected_and_embedded_like_any_submission(
    filled: TestClient, workers: Instance
) -> None:
    _, file = exported(filled, workers, "pets")
    tar = {"Content-Type": "application/x-tar"}
    ok(filled.post("/v1/artefacts", content=b"no tar", headers=tar), 422)
    ok(filled.post("/v1/artefacts", content=file[:-20_000], headers=tar), 422)
    ok(filled.post("/v1/artefacts", content=file), 415)
    ok(filled.post("/v1/artefacts", content=file, headers=tar | bearer(filled, "agent")), 403)
    operator = bearer(filled, "operator")
    taken = filled.post("/v1/artefacts", content=file, headers=tar | operator)
    artefact_id = ok(taken, 201)["id"]
    assert taken.headers["Location"] == f"/v1/artefacts/{artefact_id}"
    assert filled.get(taken.headers["Location"], headers=operator).content == file
    ok(filled.post(CORPORA, json={"name": "copy"}, headers=operator), 201)
    run = ok(filled.post(f"{CORPORA}/copy/import", json={"artefact_id": artefact_id}, headers=operator), 202)["run_id"]
    finish(workers)
    kinds = [event.kind for _, event in workers.context.ledger.events_after(run, 0, 100)]
    assert "DocumentChunked" in kinds
    first, second = workers.context.readers.reader("pets"), workers.context.readers.reader("copy")
    for facts in first.all_facts():
        there = second.document(facts.document_id)
        assert there is not None
        assert (there.checksum, there.provenance.run_id) == (facts.checksum, run)
        assert there.inspected_at != facts.inspected_at
        assert (second.vectors(facts.document_id) == first.vectors(facts.document_id)).all()  # type: ignore[union-attr]


def test_an_export_goes_with_what_is_forgotten(filled: TestClient, workers: Instance) -> None:
    link, _ = exported(filled, workers, "pets")
    other = exported(filled, workers, "default")[0]
    request = {"corpus": "pets", "document_id": "notes/3"}
    proof = ok(filled.post("/v1/forgotten/prove", json=request))
    assert [link.rpartition("/")[2]] in [one["found"] for one in proof["traces"]]
    ok(filled.post("/v1/forget", json=request), 202)
    finish(workers)
    ok(filled.get(link), 404)
    assert filled.get(other).status_code == 200
    assert not [one for one in ok(filled.post("/v1/forgotten/prove", json=request))["traces"] if one["found"]]


def test_an_export_that_was_under_way_begins_anew_after_something_was_forgotten(
    filled: TestClient, workers: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "SHARE_SECONDS", 0)
    context, body = workers.context, ExportDirected(artefact_id="art_" + 24 * "1")
    counts = []
    for share in range(4):
        event = Event.of(body, run_id=new_run_id(), corpus="pets")
        done = transfer.on_export_directed(event, context.readers, context.artefacts)
        assert isinstance(done, Done)
        [following] = done.emits
        assert isinstance(following.body, ExportDirected)
        assert following.body.so_far is not None
        body = following.body
        counts.append(following.body.so_far.documents)
        if share == 1:
            ok(filled.post("/v1/forget", json={"corpus": "pets", "document_id": "notes/0"}), 202)
            finish(workers)
    assert counts == [1, 2, 1, 2]
    assert body.after == "notes/2", "the forgotten document is left out"


def test_many_documents_are_forgotten_in_parts(
    filled: TestClient, workers: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "IDS_AT_ONCE", 3)
    run = ok(filled.post("/v1/forget", json={"corpus": "pets", "where": "metadata.n < 6"}), 202)["run_id"]
    finish(workers)
    assert ids(filled) == ["notes/6"]
    assert workers.context.ledger.run(run).status == "finished"
    told = [event for _, event in workers.context.ledger.events_after(run, 0, 100)]
    assert [len(one.body.document_ids) for one in told if one.kind == "DocumentsRemoved"] == [3, 3]
