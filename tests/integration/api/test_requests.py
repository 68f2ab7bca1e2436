"""Each request has a place: an id, an idempotency key, a health that its sender may rely on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pydantic import SecretStr
from starlette.testclient import TestClient

from sluice.contracts.event import QUEUES
from sluice.contracts.retrieval import RetrievalPort
from sluice.index.settings import ObjectStoreSettings
from sluice.workers.service import instance
from sluice.workers.settings import PoolSettings
from sluice_client import SluiceClient

GATE = "/v1/gate"
BODY = {"query": "How long is a lease?"}


def keyed(http: TestClient, key: str, **fields: Any) -> Any:
    return http.post(GATE, json={**BODY, **fields}, headers={"Idempotency-Key": key})


@pytest.mark.parametrize(("first", "again"), [("once", '"once"'), ('"a \\"b\\""', 'a "b"')])
def test_a_key_is_the_same_in_quotes_and_bare(http: TestClient, first: str, again: str) -> None:
    assert keyed(http, first).json()["run_id"] == keyed(http, again).json()["run_id"]


def test_a_key_with_another_body_is_refused(http: TestClient) -> None:
    assert keyed(http, "once").status_code == 202
    refused = keyed(http, "once", query="other")
    assert (refused.status_code, refused.json()["code"]) == (422, "idempotency_key_reused")
    assert refused.json()["remedy"]
    assert [one["header"] for one in refused.json()["errors"]] == ["Idempotency-Key"]
    assert not refused.json()["retryable"]


def test_an_empty_key_is_refused_by_name(http: TestClient) -> None:
    refused = keyed(http, '""')
    assert (refused.status_code, refused.json()["errors"][0]["header"]) == (422, "Idempotency-Key")


def test_the_same_request_is_asked_to_come_again_until_the_first_one_is_recorded(
    http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = http.app.state.instance.service  # type: ignore[attr-defined]
    recording, may_end, record = Event(), Event(), service.ask

    def slowly(*told: Any, **named: Any) -> Any:
        recording.set()
        assert may_end.wait(10)
        return record(*told, **named)

    monkeypatch.setattr(service, "ask", slowly)
    with ThreadPoolExecutor(1) as beside:
        first = beside.submit(keyed, http, "once")
        assert recording.wait(10)
        second = keyed(http, '"once"')
        may_end.set()
        run_id = first.result().json()["run_id"]
    assert (second.status_code, second.json()["code"]) == (409, "idempotency_in_progress")
    assert second.json()["retryable"]
    assert second.headers["Retry-After"] == "1"
    assert keyed(http, "once").json()["run_id"] == run_id


def test_a_site_that_is_no_domain_is_refused_before_anything_is_recorded(http: TestClient) -> None:
    search = {"locale": "de", "sites": ["docs.python.org"], "freshness": "year"}
    assert http.post(GATE, json={**BODY, "search": search}).status_code == 202
    refused = http.post(GATE, json={**BODY, "search": {"sites": ["co.uk"]}})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/search/sites")
    assert len(http.get("/v1/runs").json()["data"]) == 1


def test_without_its_rabbitmq_an_instance_is_ready_takes_requests_and_says_what_it_lacks(
    serve: Callable[..., TestClient],
) -> None:
    http = serve(wake_up_url="amqp://guest:hunter2@127.0.0.1:1//")
    assert http.get("/readyz").status_code == 200
    assert http.post(GATE, json=BODY).status_code == 202
    checks = http.get("/healthz").json()["checks"]
    assert (checks["broker"]["ok"], checks["wake_ups"]["ok"]) == (True, False)
    assert "hunter2" not in str(checks)


def test_an_instance_without_workers_lives_and_is_ready_and_is_not_well(http: TestClient) -> None:
    assert http.get("/livez").json() == {"ok": True}
    ready = http.get("/readyz")
    assert (ready.status_code, set(ready.json()["checks"])) == (200, {"broker", "ledger", "disk"})
    health = http.get("/healthz")
    assert (health.status_code, health.json()["checks"]["workers"]["ok"]) == (503, False)
    assert http.head("/livez").status_code == 200


def test_a_stage_of_which_no_worker_is_wanted_is_well(serve: Callable[..., TestClient]) -> None:
    http = serve(pools=PoolSettings(**dict.fromkeys(QUEUES, 0)))  # type: ignore[arg-type]
    assert http.get("/healthz").json()["checks"]["workers"]["ok"]


def test_where_others_scale_the_pools_only_what_waits_for_long_makes_it_ill(
    serve: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    http = serve(object_store=ObjectStoreSettings(url=f"file://{tmp_path}/store"), signing_key=SecretStr("ab" * 32))

    def workers() -> tuple[bool, bool]:
        told = http.get("/healthz").json()["checks"]["workers"]
        return told["ok"], "query" in told["detail"]

    assert workers() == (True, True), "told, and well"
    assert http.post("/v1/stages/query/scale", json={"workers": 2}).status_code == 200
    assert workers() == (False, True), "an operator wants some"
    http.post("/v1/stages/query/scale", json={"workers": None})
    assert http.post("/v1/gate", json={"query": "Who?", "create_corpus": True}).status_code == 202
    assert workers() == (True, True)
    monkeypatch.setattr(instance, "UNSERVED_SECONDS", -1.0)
    assert workers() == (False, True), "an event waits, and nobody comes"


def test_the_head_of_an_answer_about_a_run_names_it(http: TestClient) -> None:
    asked = http.post("/v1/gate", json={"query": "What is a lease?"})
    run_id = asked.json()["run_id"]
    added = http.post("/v1/documents", json={"documents": [{"id": "a", "text": "A lease ends by itself."}]})
    learned = {"project": "shop", "feature": "auth", "text": "Set COOKIE_KEY first.", "reason": "boot fails"}
    told = http.post("/v1/memory/learnings", json=learned)
    flag = http.put("/v1/flags/rerank", json={"enabled": False})
    for answer, named in [
        (asked, run_id),
        (added, added.json()["run_id"]),
        (http.get(f"/v1/runs/{run_id}"), run_id),
        (http.get(f"/v1/runs/{run_id}/events", params={"format": "json"}), run_id),
        (http.delete(f"/v1/runs/{run_id}"), run_id),
        (told, told.json()["run"]["run_id"]),
        (flag, flag.json()["run_id"]),
    ]:
        assert answer.headers["Sluice-Run-Id"] == named, answer.request.url
    assert "Sluice-Run-Id" not in http.get("/v1/runs").headers


def test_a_wrong_field_of_any_letters_is_named(http: TestClient) -> None:
    form = b'--x\r\nContent-Disposition: form-data; name="\xf0\x9f\xa6\xa6"\r\n\r\n1\r\n--x--\r\n'
    refused = http.post("/v1/uploads", content=form, headers={"Content-Type": "multipart/form-data; boundary=x"})
    assert (refused.status_code, [one["pointer"] for one in refused.json()["errors"]]) == (
        422,
        ["/file", "/\U0001f9a6"],
    )


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/runs", "GET, HEAD"),
        ("POST", "/v1/runs/run_1", "DELETE, GET, HEAD"),
        ("DELETE", "/v1/gate", "POST"),
        ("POST", "/v1/documents/a%2Fb", "DELETE, GET, HEAD, PATCH"),
        ("POST", "/livez", "GET, HEAD"),
        ("TRACE", "/v1/keys", "GET, HEAD, POST"),
    ],
)
def test_a_method_that_a_path_lacks_is_told_those_that_it_has(
    http: TestClient, method: str, path: str, allowed: str
) -> None:
    refused = http.request(method, path)
    assert (refused.status_code, refused.headers["Allow"]) == (405, allowed)
    assert refused.json()["code"] == "method_not_allowed"


def test_every_problem_has_its_page(http: TestClient) -> None:
    codes = http.get("/problems/none").json()["detail"].partition(": ")[2].split(", ")
    assert len(codes) > 20
    for code in codes:
        page = http.get(f"/problems/{code}")
        assert (page.status_code, page.text.partition("\n")[0]) == (200, f"# {code}")


def test_the_calls_of_the_retrieval_port_have_their_names(http: TestClient) -> None:
    told = http.get("/v1/stats").json()
    assert (told["corpus"], told["document_count"], told["generation"]) == ("default", 0, None)
    assert http.get("/v1/stats", params={"corpus": "none"}).status_code == 404
    paths = http.get("/openapi.json").json()["paths"]
    named = {operation["operationId"] for path in paths.values() for operation in path.values()}
    for call in ("retrieve", "batch_retrieve", "stats"):
        assert f"retrieval_{call}" in named
        assert hasattr(SluiceClient, call)
        assert hasattr(RetrievalPort, call)
