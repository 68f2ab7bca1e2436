"""API keys over HTTP: an operator of all corpora makes, changes and revokes them; a secret is shown once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from sluice.ledger.audit import actions_on
from sluice.ledger.ledger import Ledger
from tests.support.api_keys import bearer

SOON = (datetime.now(UTC) + timedelta(days=30)).replace(microsecond=0)


def of(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture
def operator(http: TestClient) -> dict[str, str]:
    return bearer(http, "operator")


def made(http: TestClient, operator: dict[str, str], **fields: Any) -> dict[str, Any]:
    response = http.post("/v1/keys", json={"name": "ci", **fields}, headers=operator)
    assert response.status_code == 201, response.text
    told: dict[str, Any] = response.json()
    return told


def test_a_key_is_made_used_changed_and_revoked(http: TestClient, operator: dict[str, str], ledger: Ledger) -> None:
    key = made(http, operator, corpora=["docs"], expires_at=SOON.isoformat(), requests_per_minute=600)
    assert http.get("/v1/runs", headers=of(key["key"])).headers["RateLimit-Policy"].startswith('"requests";q=')

    changed = http.patch(f"/v1/keys/{key['id']}", json={"requests_per_minute": 2}, headers=operator).json()
    assert (changed["requests_per_minute"], changed["expires_at"]) == (2, key["expires_at"])
    answer = http.get("/v1/runs", headers=of(key["key"]))
    assert answer.headers["RateLimit-Policy"] == '"requests";q=2;w=60;qu="requests"'
    assert http.patch(f"/v1/keys/{key['id']}", json={"expires_at": None}, headers=operator).json()["expires_at"] is None
    assert http.patch(f"/v1/keys/{key['id']}", json={}, headers=operator).json()["requests_per_minute"] == 2

    gone = http.delete(f"/v1/keys/{key['id']}", headers=operator)
    assert gone.json()["revoked_at"]
    assert http.delete(f"/v1/keys/{key['id']}", headers=operator).json() == gone.json()
    assert http.get("/v1/runs", headers=of(key["key"])).status_code == 401
    refused = http.patch(f"/v1/keys/{key['id']}", json={"expires_at": None}, headers=operator)
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    with ledger.database.reading() as connection:
        done = [(one.action, one.operator) for one in actions_on(connection, f"key:{key['id']}")]
    assert [action for action, _ in done] == ["key_made", "key_changed", "key_changed", "key_revoked"]
    assert len({by for _, by in done}) == 1


def test_the_secret_is_in_one_answer_alone(http: TestClient, operator: dict[str, str]) -> None:
    key = made(http, operator)
    listed = http.get("/v1/keys", headers=operator)
    assert key["key"] not in listed.text
    assert set(listed.json()) == {"data", "next_cursor"}
    entry = next(one for one in listed.json()["data"] if one["id"] == key["id"])
    assert entry == {name: value for name, value in key.items() if name != "key"}


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"role": "king"}, "/role"),
        ({"corpora": ["../x"]}, "/corpora/0"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "/expires_at"),
        ({"requests_per_minute": -1}, "/requests_per_minute"),
        ({"name": ""}, "/name"),
        ({"rate": 3}, "/rate"),
    ],
)
def test_a_wrong_field_is_named(
    http: TestClient, operator: dict[str, str], fields: dict[str, Any], pointer: str
) -> None:
    refused = http.post("/v1/keys", json={"name": "ci", **fields}, headers=operator)
    assert refused.status_code == 422
    assert [one["pointer"] for one in refused.json()["errors"]] == [pointer]


def test_a_key_that_is_not_there_is_404_and_an_end_that_has_passed_422(
    http: TestClient, operator: dict[str, str]
) -> None:
    assert http.delete("/v1/keys/key_x", headers=operator).status_code == 404
    assert http.patch("/v1/keys/key_x", json={"requests_per_minute": 1}, headers=operator).status_code == 404
    key = made(http, operator)
    passed = {"expires_at": "2020-01-01T00:00:00Z"}
    assert http.patch(f"/v1/keys/{key['id']}", json=passed, headers=operator).status_code == 422


@pytest.mark.parametrize(("role", "corpora"), [("agent", ()), ("operator", ("docs",))])
def test_others_neither_see_nor_make_keys(http: TestClient, role: str, corpora: tuple[str, ...]) -> None:
    header = bearer(http, role, *corpora)
    assert http.get("/v1/keys", headers=header).status_code == 403
    assert http.post("/v1/keys", json={"name": "mine", "role": "operator"}, headers=header).status_code == 403


def test_the_first_key_closes_the_interface(serve: Callable[..., TestClient]) -> None:
    http = serve()
    assert http.get("/v1/runs").status_code == 200
    key = http.post("/v1/keys", json={"name": "first", "role": "operator"}).json()["key"]
    assert http.get("/v1/runs").status_code == 401
    assert http.get("/v1/runs", headers=of(key)).status_code == 200
