"""The HTTP interface as an agent meets it: documents in, queries out, and a clear answer to every mistake."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from sluice.ledger.ledger import Ledger
from sluice.workers.data_dir import open_to_others
from sluice_client import SluiceClient
from tests.support.instance import Instance
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(240)

DOCUMENTS = [
    {
        "id": "lease",
        "file_path": "docs/lease.md",
        "text": "# Leases\n\nA lease is renewed by a heartbeat. A lease that runs out frees the event.",
    },
    {
        "id": "blob",
        "file_path": "docs/blob.md",
        "text": "# Blobs\n\nA blob is kept once, under the hash of its content, and compressed.",
    },
    {
        "url": "https://example.com/gate.html",
        "html": "<html><body><h1>Gate</h1><p>The gate weighs coverage and freshness.</p></body></html>",
    },
]


@pytest.fixture(scope="module")
def filled(offline: Instance) -> Instance:
    accepted = offline.http.post(
        "/v1/documents", json={"corpus": "docs", "create_corpus": True, "documents": DOCUMENTS}
    )
    assert accepted.status_code == 202, accepted.text
    run = offline.wait(accepted.json()["run_id"])
    assert run["status"] == "finished", run
    return offline


def query(instance: Instance, text: str, **fields: Any) -> Any:
    return instance.http.post("/v1/query", json={"query": text, "corpus": "docs", **fields})


@pytest.mark.parametrize("strategy", ["bm25", "vector", "hybrid"])
def test_a_submitted_document_is_found_with_every_field(filled: Instance, strategy: str) -> None:
    found = query(filled, "how is a lease renewed", strategy=strategy, top_k=2).json()
    best = found["chunks"][0]
    assert best["document_id"] == "lease"
    assert best["file_path"] == "docs/lease.md"
    assert (best["start_line"], best["end_line"]) == (1, 3)
    assert best["section_path"] == ["Leases"]
    assert best["provenance"]["source"] == "submission"
    assert found["metadata"]["strategy"] == strategy
    assert found["generation"]


def test_a_new_version_replaces_the_old_and_a_deletion_forgets(filled: Instance) -> None:
    for text in ("The otter swims in the first version.", "The heron stands in the second version."):
        accepted = filled.http.post(
            "/v1/documents", json={"corpus": "docs", "documents": [{"id": "zoo", "text": text}]}
        )
        filled.wait(accepted.json()["run_id"])
    texts = [chunk["text"] for chunk in query(filled, "otter heron version", top_k=20).json()["chunks"]]
    assert any("heron" in text for text in texts)
    assert not any("otter" in text for text in texts)
    removed = filled.http.delete("/v1/documents/zoo", params={"corpus": "docs"})
    assert removed.status_code == 202
    filled.wait(removed.json()["run_id"])
    assert "zoo" not in {chunk["document_id"] for chunk in query(filled, "heron version", top_k=20).json()["chunks"]}
    assert filled.http.delete("/v1/documents/zoo", params={"corpus": "docs"}).status_code == 404


def test_read_your_writes_by_journal_offset(filled: Instance) -> None:
    accepted = filled.http.post(
        "/v1/documents", json={"corpus": "docs", "documents": [{"id": "new", "text": "A kingfisher."}]}
    )
    run = filled.wait(accepted.json()["run_id"])
    found = query(filled, "kingfisher", minimum_journal_offset=run["journal_offset"]).json()
    assert found["journal_offset"] >= run["journal_offset"]
    assert found["chunks"][0]["document_id"] == "new"


def test_the_gate_answers_from_the_corpus_and_names_the_veto_when_it_cannot(filled: Instance) -> None:
    covered = filled.ask("How is a lease renewed by a heartbeat?", corpus="docs")
    assert covered["decision"]["plan"] == "retrieve"
    assert covered["answer"]["citations"][0]["source"] == "docs/lease.md:1-3"
    empty = filled.ask("Who won the match?", corpus="never-filled")
    assert empty["decision"]["scored_plan"] == "full_loop"
    assert {veto["name"] for veto in empty["decision"]["vetoes"]} == {"crawl_policy", "search_policy"}
    assert "search.enabled" in " ".join(gap["lifted_by"] for gap in empty["missing"])
    assert "empty_corpus" in {gap["reason"] for gap in empty["missing"]}
    for path, body in (("gate", {}), ("query", {}), ("documents", {"documents": [DOCUMENTS[0]]})):
        named = {"corpus": "never-made"} if body else {"corpus": "never-made", "query": "Who won the match?"}
        refused = filled.http.post(f"/v1/{path}", json=named | body)
        assert refused.status_code == 404
        assert "create_corpus" in refused.text


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"max_tokens": 1}, "max_tokens"), ({"filters": {"document_ids": ["none"]}}, "nothing_found")],
)
def test_an_answer_without_a_passage_says_why(filled: Instance, fields: dict[str, Any], reason: str) -> None:
    run = filled.ask("How is a lease renewed?", corpus="docs", plan="retrieve", **fields)
    assert run["answer"]["citations"] == []
    assert [gap["reason"] for gap in run["answer"]["missing"]] == [reason]
    assert run["missing"] == run["answer"]["missing"]


def test_an_empty_document_among_others_is_a_named_gap(filled: Instance) -> None:
    documents = [{"id": "hollow", "text": ""}, {"id": "whole", "text": "A badger digs."}]
    accepted = filled.http.post("/v1/documents", json={"corpus": "docs", "documents": documents})
    run = filled.wait(accepted.json()["run_id"])
    assert [(gap["subject"], gap["reason"]) for gap in run["missing"]] == [("hollow", "no_text")]


def test_an_idempotency_key_starts_one_run(filled: Instance) -> None:
    body = {"query": "leases", "corpus": "docs"}
    headers = {"Idempotency-Key": "once"}
    first, second = (filled.http.post("/v1/gate", json=body, headers=headers) for _ in range(2))
    assert first.status_code == second.status_code == 202
    assert first.json()["run_id"] == second.json()["run_id"]
    other = filled.http.post("/v1/gate", json={**body, "query": "blobs"}, headers=headers)
    assert other.status_code == 422
    assert other.json()["code"] == "idempotency_key_reused"


def test_feedback_on_a_run_is_recorded_once(filled: Instance) -> None:
    run_id = filled.ask("leases", corpus="docs")["run_id"]
    events = f"/v1/runs/{run_id}/events"
    last_id = [line for line in filled.http.get(events).text.split("\n") if line.startswith("id:")][-1]
    for key in ("thanks", "thanks", "again"):
        body = {"run_id": run_id, "outcome": "success"}
        assert filled.http.post("/v1/feedback", json=body, headers={"Idempotency-Key": key}).status_code == 202
    after = filled.http.get(events, headers={"Last-Event-ID": last_id.removeprefix("id:").strip()}).text
    assert after.split("\n").count("event: FeedbackGiven") == 1


def test_the_event_stream_resumes_behind_the_last_event_id(filled: Instance) -> None:
    run = filled.ask("leases", corpus="docs")
    every = filled.events(run["run_id"])
    with filled.http.stream("GET", f"/v1/runs/{run['run_id']}/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        ids = [line.removeprefix("id:").strip() for line in response.iter_lines() if line.startswith("id:")]
    with filled.http.stream("GET", f"/v1/runs/{run['run_id']}/events", headers={"Last-Event-ID": ids[1]}) as response:
        rest = [line for line in response.iter_lines() if line.startswith("id:")]
    assert len(rest) == len(every) - 2


def test_the_python_client_speaks_to_it(filled: Instance) -> None:
    with SluiceClient(filled.url) as sluice:
        run = sluice.gate("How is a lease renewed by a heartbeat?", corpus="docs", wait=True)
        assert run.answer is not None
        kinds = [event.kind for event in sluice.events(run.run_id)]
        assert kinds[0] == "GateRequested"
        assert kinds[-1] == "RunFinished"
        found = sluice.query("blob", corpus="docs")
        assert found.chunks
        sluice.feedback(run.run_id, chunk_ids_used=[run.answer.chunks[0].chunk_id], outcome="success")
        assert sluice.health().ok


@pytest.mark.parametrize(
    ("path", "body", "status", "field"),
    [
        ("/v1/gate", {}, 422, "query"),
        ("/v1/gate", {"query": "   "}, 422, "query"),
        ("/v1/gate", {"query": "q" * 10_000_000}, 422, "query"),
        ("/v1/documents", {"documents": [{"url": "javascript:alert(1)", "text": "t"}]}, 422, "documents.0.url"),
        ("/v1/gate", {"query": "q", "corpus": "../../etc"}, 422, "corpus"),
        ("/v1/gate", {"query": "q", "profile": "nope"}, 422, "profile"),
        ("/v1/gate", {"query": "q", "plan": "everything"}, 422, "plan"),
        ("/v1/gate", {"query": "q", "seeds": ["file:///etc/passwd"]}, 422, "seeds.0"),
        ("/v1/gate", {"query": "q", "deadline_seconds": -1}, 422, "deadline_seconds"),
        ("/v1/gate", {"query": "q", "surprise": 1}, 422, "surprise"),
        ("/v1/query", {"query": "q", "corpus": "docs", "strategy": "magic"}, 422, "strategy"),
        ("/v1/query", {"query": "q", "corpus": "docs", "top_k": 0}, 422, "top_k"),
        ("/v1/query", {"query": "q", "corpus": "unknown-corpus"}, 404, None),
        ("/v1/documents", {"documents": []}, 422, "documents"),
        ("/v1/documents", {"documents": [{"text": "no name"}]}, 422, "documents.0"),
        (
            "/v1/documents",
            {"documents": [{"id": "a", "data": "***", "media_type": "application/pdf"}]},
            422,
            "documents.0.data",
        ),
        ("/v1/documents", {"documents": [{"url": "http://example.com/"}]}, 403, "crawl.enabled"),
        ("/v1/feedback", {"run_id": "run_nope"}, 404, None),
    ],
)
def test_a_mistake_is_named_with_its_field(
    filled: Instance, path: str, body: dict[str, Any], status: int, field: str | None
) -> None:
    response = filled.http.post(path, json=body)
    assert response.status_code == status, response.text[:500]
    problem = response.json()
    assert problem["code"]
    assert problem["message"]
    assert problem.get("field") == field


def test_what_is_no_json_or_too_large_or_not_there_is_refused(filled: Instance) -> None:
    headers = {"Content-Type": "application/json"}
    assert filled.http.post("/v1/gate", content=b"{not json", headers=headers).status_code == 422
    assert filled.http.post("/v1/gate", content=b" " * 33_000_000, headers=headers).status_code == 413
    assert filled.http.get("/v1/runs/run_nope").status_code == 404
    assert filled.http.get("/v1/nothing").status_code == 404
    assert filled.http.get("/v1/gate").status_code == 405
    assert filled.http.get("/v1/runs/run_nope", headers={"Host": "evil.example"}).status_code == 403


@pytest.mark.parametrize("last_event_id", ["-1", "abc", "1.5", "9" * 30, "9" * 5_000])
def test_a_stream_that_cannot_begin_is_refused_with_a_status(filled: Instance, last_event_id: str) -> None:
    run = filled.ask("leases", corpus="docs")
    events = f"/v1/runs/{run['run_id']}/events"
    refused = filled.http.get(events, headers={"Last-Event-ID": last_event_id})
    assert refused.status_code == 422
    assert refused.json()["field"] == "Last-Event-ID"
    assert filled.http.get("/v1/runs/run_nope/events").status_code == 404
    assert filled.http.get(events, headers={"Last-Event-ID": "9" * 18}).text == ""


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/query", b'{"query": "\xff"}', "body"),
        ("/v1/query", b'{"query": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "body"),
        (
            "/v1/query",
            b'{"query": "q", "filters": {"fetched_after": "0001-01-01T00:00:00+14:00"}}',
            "filters.fetched_after",
        ),
        ("/v1/gate", b'{"query": "q", "limits": {"max_usd": Infinity}}', "limits.max_usd"),
        ("/v1/documents", b'{"documents": [{"id": "a", "text": "t", "metadata": {"x": NaN}}]}', None),
    ],
)
def test_what_json_or_the_calendar_cannot_hold_is_refused(
    filled: Instance, path: str, body: bytes, field: str | None
) -> None:
    refused = filled.http.post(path, content=body, headers={"Content-Type": "application/json"})
    assert refused.status_code == 422, refused.text[:500]
    assert field is None or refused.json()["field"] == field


def test_callers_who_leave_are_no_errors(filled: Instance) -> None:
    body = json.dumps({"query": "leases", "corpus": "docs", "wait": True}).encode()
    head = f"POST /v1/gate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    for _ in range(10):
        with socket.create_connection(("127.0.0.1", filled.port)) as connection:
            connection.sendall(head.encode() + b"\r\n\r\n" + body)
    run = filled.ask("leases", corpus="docs")
    for _ in range(10):
        with filled.http.stream("GET", f"/v1/runs/{run['run_id']}/events") as response:
            next(response.iter_lines())
    filled.http.get("/healthz")
    assert "Traceback" not in (filled.folder / "logs" / "api.log").read_text()


def test_a_second_interface_on_a_taken_port_says_so_and_ends(filled: Instance) -> None:
    second = filled.sluice("api", timeout=30)
    assert second.returncode == 2
    assert "http_port" in second.stderr


def test_openapi_names_every_route_with_its_errors(filled: Instance) -> None:
    paths = filled.http.get("/openapi.json").json()["paths"]
    assert set(paths) >= {
        "/v1/gate",
        "/v1/runs",
        "/v1/runs/{run_id}",
        "/v1/runs/{run_id}/events",
        "/v1/query",
        "/v1/documents",
        "/v1/documents/{document_id}",
        "/v1/feedback",
        "/v1/dead-letters",
        "/healthz",
        "/metrics",
    }
    assert {"200", "202", "409", "422", "503"} <= set(paths["/v1/gate"]["post"]["responses"])
    assert paths["/v1/gate"]["post"]["responses"]["422"]["content"]["application/problem+json"]["schema"][
        "$ref"
    ].endswith("Problem")


def test_a_run_belongs_to_the_trace_of_its_caller(filled: Instance) -> None:
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    headers = {"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"}
    accepted = filled.http.post("/v1/gate", json={"query": "leases", "corpus": "docs"}, headers=headers).json()
    run = filled.wait(accepted["run_id"])
    assert run["traceparent"].split("-")[1] == trace_id
    assert {event["traceparent"].split("-")[1] for event in filled.events(run["run_id"])} == {trace_id}


def test_letters_that_were_mended_are_brought_back_by_the_reconciler(filled: Instance) -> None:
    accepted = filled.http.post("/v1/documents", json={"corpus": "docs", "documents": [DOCUMENTS[1]]}).json()
    filled.wait(accepted["run_id"])
    submitted = filled.events(accepted["run_id"])[0]
    with Ledger(f"sqlite:///{filled.data_dir / 'ledger.sqlite'}") as ledger:
        letter_id = ledger.dead_letters.park_raw(b"{", "chunk", "malformed")
    edited = filled.http.put(f"/v1/dead-letters/{letter_id}/payload", json=submitted)
    assert edited.status_code == 200, edited.text
    begun = filled.http.post("/v1/replays", json={"filter": {"stage": "chunk"}, "per_second": 50}).json()
    until(lambda: filled.http.get(f"/v1/replays/{begun['id']}").json()["succeeded"] == 1)
    letter = filled.http.get(f"/v1/dead-letters/{letter_id}").json()
    assert (letter["status"], letter["replay_id"], letter["replay_count"]) == ("replayed", begun["id"], 1)
    assert letter["replayed_as"] not in (None, submitted["id"])


def test_health_and_metrics_tell_of_every_process(filled: Instance) -> None:
    filled.ask("leases", corpus="docs")
    health = filled.http.get("/healthz").json()
    assert health["ok"] is True
    assert set(health["checks"]) == {"broker", "ledger", "disk", "workers", "embedder", "snapshot", "graph", "gate"}
    metrics = filled.http.get("/metrics").text
    for name in (
        "sluice_gate_decision_total",
        "sluice_query_seconds_count",
        "sluice_event_seconds_count",
        "sluice_embedding_cache_total",
        "sluice_index_publish_seconds_count",
        "sluice_http_requests_total",
    ):
        assert name in metrics


def test_everything_that_is_kept_is_readable_for_its_user_alone(filled: Instance) -> None:
    assert list(open_to_others(filled.data_dir)) == []


def test_keys_close_the_door_and_open_their_own_corpora(filled: Instance) -> None:
    created = filled.sluice("keys", "create", "reader", "--corpus", "docs", "--json")
    assert created.returncode == 0, created.stderr
    key = json.loads(created.stdout)
    try:
        until(lambda: query(filled, "lease").status_code == 401)
        bearer = {"Authorization": f"Bearer {key['key']}"}
        assert (
            filled.http.post("/v1/query", json={"query": "lease", "corpus": "docs"}, headers=bearer).status_code == 200
        )
        assert (
            filled.http.post("/v1/query", json={"query": "lease", "corpus": "other"}, headers=bearer).status_code == 403
        )
        assert filled.http.get("/v1/dead-letters", headers=bearer).status_code == 403
        assert filled.http.get("/healthz").json()["checks"]["snapshot"]["facts"] == {}
        assert filled.http.get("/v1/runs", params={"corpus": "other"}, headers=bearer).status_code == 403
        latest = filled.http.get("/v1/runs", params={"limit": 2}, headers=bearer).json()["data"]
        assert [run["corpus"] for run in latest] == ["docs", "docs"]
        assert filled.http.get("/v1/runs", headers={"Authorization": "Bearer slk_wrong"}).status_code == 401
        assert key["key"] not in filled.sluice("keys", "list", "--json").stdout
    finally:
        assert filled.sluice("keys", "revoke", key["id"]).returncode == 0
    revoked = {"Authorization": f"Bearer {key['key']}"}
    until(lambda: filled.http.get("/v1/runs", headers=revoked).status_code == 401)
    assert query(filled, "lease").status_code == 401
