"""Webhooks over HTTP: what a key may have, what is shown once, what is refused and why."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from sluice.contracts.event import new_run_id
from sluice.ledger.ledger import Ledger, NewRun
from tests.support.api_keys import bearer

URL = "https://example.org/hook"
PARTS = {"url": URL, "types": ["run.finished"]}


def made(http: TestClient, **fields: Any) -> dict[str, Any]:
    response = http.post("/v1/webhooks", json=PARTS | fields)
    assert response.status_code == 201, response.text
    assert response.headers["location"] == f"/v1/webhooks/{response.json()['id']}"
    webhook: dict[str, Any] = response.json()
    return webhook


def ends(ledger: Ledger, corpus: str = "docs") -> str:
    run_id = new_run_id()
    ledger.create_run(NewRun(run_id, "gate", corpus, "0" * 64), [])
    ledger.cancel(run_id)
    return run_id


def test_a_secret_is_shown_once(http: TestClient) -> None:
    webhook = made(http)
    assert webhook["secret"].startswith("whsec_")
    shown = http.get(f"/v1/webhooks/{webhook['id']}").json()
    assert "secret" not in shown
    assert http.get("/v1/webhooks").json() == {"data": [shown], "next_cursor": None}
    rotated = http.post(f"/v1/webhooks/{webhook['id']}/rotate").json()
    assert rotated["secret"] not in (webhook["secret"], "")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"url": "http://example.org/"}, "egress.allow"),
        ({"url": "https://localhost/"}, "no name of the public web"),
        ({"url": "https://example.org:8443/"}, "port 8443 is not open"),
        ({"url": "ftp://example.org/"}, "https"),
        ({"url": "https://a:b@example.org/"}, "password"),
        ({"types": ["run.started"]}, "types"),
        ({"types": []}, "types"),
        ({"corpora": ["Not A Name"]}, "corpora"),
        ({"urls": URL}, "urls"),
    ],
)
def test_what_cannot_be_is_refused_with_field_and_remedy(http: TestClient, fields: dict[str, Any], told: str) -> None:
    response = http.post("/v1/webhooks", json=PARTS | fields)
    assert response.status_code == 422
    assert told in response.text
    assert response.json()["errors"][0]["pointer"].startswith("/")


def test_deliveries_are_listed_in_parts_and_sent_again(http: TestClient, ledger: Ledger) -> None:
    webhook = made(http)
    runs = [ends(ledger) for _ in range(3)]
    path = f"/v1/webhooks/{webhook['id']}"
    first = http.get(f"{path}/deliveries", params={"limit": 2}).json()
    rest = http.get(f"{path}/deliveries", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [one["run_id"] for one in first["data"] + rest["data"]] == runs[::-1]
    assert {one["status"] for one in first["data"]} == {"pending"}
    assert http.post(f"{path}/replay", json={"ids": [rest["data"][0]["id"]]}).json() == {"replayed": 1}
    assert http.post(f"{path}/replay", json={"since": "2020-01-01T00:00:00Z"}).json() == {"replayed": 3}
    assert http.post(f"{path}/replay", json={}).status_code == 422
    assert http.post(f"{path}/test").status_code == 202
    assert http.get(path).json()["pending"] == 4


def test_it_is_changed_disabled_and_removed(http: TestClient, ledger: Ledger) -> None:
    path = f"/v1/webhooks/{made(http)['id']}"
    changed = http.patch(path, json={"types": ["answer.ready"], "description": "ours"}).json()
    assert (changed["types"], changed["description"], changed["url"]) == (["answer.ready"], "ours", URL)
    assert http.patch(path, json={"enabled": False}).json()["disabled_because"] == "by local"
    assert http.post(f"{path}/test").status_code == 409
    assert http.patch(path, json={"enabled": True}).json()["disabled_at"] is None
    assert http.delete(path).status_code == 204
    for response in (http.get(path), http.delete(path), http.post(f"{path}/rotate"), http.get(f"{path}/deliveries")):
        assert response.status_code == 404


def test_a_key_has_its_own_webhooks_of_its_corpora(http: TestClient, ledger: Ledger) -> None:
    agent, other = (bearer(http, "agent", "docs") for _ in range(2))
    operator = bearer(http, "operator")

    def as_key(headers: dict[str, str]) -> dict[str, Any]:
        return {"headers": headers}

    response = http.post("/v1/webhooks", json=PARTS, **as_key(agent))
    assert response.status_code == 201, response.text
    webhook = response.json()
    assert webhook["corpora"] == ["docs"]
    path = f"/v1/webhooks/{webhook['id']}"
    assert http.get(path, **as_key(other)).status_code == 404
    assert http.get("/v1/webhooks", **as_key(other)).json()["data"] == []
    assert http.get(path, **as_key(operator)).status_code == 200
    assert http.post("/v1/webhooks", json=PARTS | {"corpora": ["secret"]}, **as_key(agent)).status_code == 403
    for kind in ("dead_letter.parked", "defence.tripped"):
        refused = http.post("/v1/webhooks", json=PARTS | {"types": [kind]}, **as_key(agent))
        assert (refused.status_code, kind in refused.text) == (403, True)
    assert http.patch(path, json={"corpora": ["secret"]}, **as_key(agent)).status_code == 403
    ends(ledger, "secret")
    run_id = ends(ledger, "docs")
    listed = http.get(f"{path}/deliveries", **as_key(agent)).json()["data"]
    assert [one["run_id"] for one in listed] == [run_id]


def test_what_an_operator_changes_keeps_to_the_key_that_made_it(http: TestClient) -> None:
    agent, operator = {"headers": bearer(http, "agent", "docs")}, {"headers": bearer(http, "operator")}
    path = f"/v1/webhooks/{http.post('/v1/webhooks', json=PARTS, **agent).json()['id']}"
    for fields in ({"corpora": ["secret"]}, {"types": ["dead_letter.parked"]}):
        assert http.patch(path, json=fields, **operator).status_code == 403
    assert http.patch(path, json={"corpora": []}, **operator).json()["corpora"] == ["docs"]
    disabled = http.patch(path, json={"enabled": False}, **operator).json()
    assert disabled["disabled_because"].startswith("by key_")
    assert http.patch(path, json={"enabled": True}, **agent).json()["disabled_at"] is None


@pytest.mark.parametrize("kind", ["change", "delete", "deliveries", "rotate", "test", "replay"])
def test_of_another_keys_webhook_nothing_is_said_or_done(http: TestClient, kind: str) -> None:
    agent, other = {"headers": bearer(http, "agent", "docs")}, {"headers": bearer(http, "operator", "docs")}
    path = f"/v1/webhooks/{http.post('/v1/webhooks', json=PARTS, **agent).json()['id']}"
    response = {
        "change": lambda: http.patch(path, json={"enabled": False}, **other),
        "delete": lambda: http.delete(path, **other),
        "deliveries": lambda: http.get(f"{path}/deliveries", **other),
        "rotate": lambda: http.post(f"{path}/rotate", **other),
        "test": lambda: http.post(f"{path}/test", **other),
        "replay": lambda: http.post(f"{path}/replay", json={"since": "2020-01-01T00:00:00Z"}, **other),
    }[kind]()
    assert response.status_code == 404
    shown = http.get(path, **agent).json()
    assert (shown["disabled_at"], shown["pending"]) == (None, 0)


def test_a_secret_in_the_address_is_shown_to_nobody(http: TestClient, ledger: Ledger) -> None:
    webhook = made(http, url="https://example.org/hook?team=4&token=very-secret-word")
    path = f"/v1/webhooks/{webhook['id']}"
    for response in (http.get(path), http.get("/v1/webhooks"), http.patch(path, json={"description": "ours"})):
        assert "team=4&token=***" in response.text
        assert "very-secret-word" not in response.text
    ends(ledger)
    assert [one.url.endswith("token=very-secret-word") for one in ledger.webhooks.claim({}, 1, 1)] == [True]
