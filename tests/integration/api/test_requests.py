"""Each request has a place: an id, an idempotency key, a health that its sender may rely on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from starlette.testclient import TestClient

from sluice.contracts.event import QUEUES
from sluice.workers.settings import PoolSettings

GATE = "/v1/gate"
BODY = {"query": "How long is a lease?"}


def keyed(http: TestClient, key: str, **fields: Any) -> Any:
    return http.post(GATE, json={**BODY, **fields}, headers={"Idempotency-Key": key})


@pytest.mark.parametrize(("first", "again"), [("once", '"once"'), ('"a \\"b\\""', 'a "b"')])
def test_a_key_is_the_same_in_quotes_and_bare(http: TestClient, first: str, again: str) -> None:
    assert keyed(http, first).json()["run_id"] == keyed(http, again).json()["run_id"]


def test_a_key_with_another_body_is_refused(http: TestClient) -> None:
    assert keyed(http, "once").status_code == 202
    refused = keyed(http, "once", corpus="other")
    assert (refused.status_code, refused.json()["code"]) == (422, "idempotency_key_reused")
    assert refused.json()["remedy"]
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
