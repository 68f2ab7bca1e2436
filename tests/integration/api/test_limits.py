"""What a key may send: until its end, so many requests a minute; and which web pages may."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
import redis
from starlette.testclient import TestClient

from sluice.contracts.errors import InvalidInput
from sluice.ledger.ledger import Ledger
from sluice.workers.service import callers
from sluice.workers.service.callers import ApiKeys
from tests.support.api_keys import bearer
from tests.support.valkey import Valkey

PAGE = "https://console.example.com"


def own_key(http: TestClient, rate: int | None, expires_at: datetime | None = None) -> dict[str, str]:
    """The header of a new key with its own limit and end."""
    ledger: Ledger = http.app.state.instance.context.ledger  # type: ignore[attr-defined]
    _, key = ApiKeys(ledger).create("of a test", "agent", (), expires_at, rate)
    http.app.state.instance.keys = ApiKeys(ledger)  # type: ignore[attr-defined] # forgets what it had read
    return {"Authorization": f"Bearer {key}"}


def test_a_key_ends_at_its_moment(http: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    header = own_key(http, None, datetime.now(UTC) + timedelta(days=90))
    assert http.get("/v1/runs", headers=header).status_code == 200

    class Later(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime.now(UTC) + timedelta(days=91)

    monkeypatch.setattr(callers, "datetime", Later)
    refused = http.get("/v1/runs", headers=header)
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")
    assert "expired" in refused.json()["detail"]


def test_an_end_that_has_passed_is_refused(ledger: Ledger) -> None:
    with pytest.raises(InvalidInput, match="has passed"):
        ApiKeys(ledger).create("late", "agent", (), datetime.now(UTC))


def test_a_key_may_send_its_share_and_is_told_when_there_is_room_again(http: TestClient) -> None:
    header, other = own_key(http, 3), own_key(http, 0)
    sent = [http.get("/v1/runs", headers=header) for _ in range(5)]
    assert [one.status_code for one in sent] == [200, 200, 200, 429, 429]
    assert [one.headers["RateLimit"].partition(";t")[0] for one in sent[:3]] == [f'"requests";r={r}' for r in (2, 1, 0)]
    assert {one.headers["RateLimit-Policy"] for one in sent} == {'"requests";q=3;w=60;qu="requests"'}
    refused = sent[3]
    assert (refused.json()["code"], refused.json()["retryable"]) == ("rate_limited", True)
    assert 15 < int(refused.headers["Retry-After"]) <= 20
    unlimited = http.get("/v1/runs", headers=other)
    assert unlimited.status_code == 200
    assert "RateLimit" not in unlimited.headers


def test_a_write_counts_once_and_a_refused_key_counts_for_nobody(http: TestClient) -> None:
    header = own_key(http, 2)
    for _ in range(2):
        assert http.post("/v1/gate", json={"query": "What is a lease?"}, headers=header).status_code == 202
    assert http.post("/v1/gate", json={"query": "What is a lease?"}, headers=header).status_code == 429
    assert http.get("/healthz", headers=header).status_code == 503, "its answer needs no place"
    assert http.get("/v1/runs", headers={"Authorization": "Bearer slk_none"}).status_code == 401


def test_the_setting_is_the_limit_of_each_key_that_has_none(serve: Callable[..., TestClient]) -> None:
    http = serve(requests_per_minute=6, requests_at_once=2)
    header, other = bearer(http, "agent"), bearer(http, "agent")
    sent = [http.get("/v1/runs", headers=header) for _ in range(3)]
    assert [one.status_code for one in sent] == [200, 200, 429]
    assert sent[0].headers["RateLimit-Policy"] == '"requests";q=2;w=20;qu="requests"'
    assert 1 < int(sent[2].headers["Retry-After"]) <= 10
    assert http.get("/v1/runs", headers=other).status_code == 200


def test_the_bucket_is_in_the_broker_and_leaves_it_by_itself(http: TestClient, valkey: Valkey) -> None:
    header = own_key(http, 6)
    http.get("/v1/runs", headers=header)
    with redis.Redis.from_url(valkey.settings.broker_location) as client:
        [key] = client.keys("*:rate:*")  # type: ignore[misc]
        assert 0 < client.pttl(key) <= 10_001  # type: ignore[operator]


def test_without_the_broker_a_process_counts_alone(serve: Callable[..., TestClient]) -> None:
    http = serve(broker_url="redis://127.0.0.1:1/0")
    header = own_key(http, 2)
    assert [http.get("/v1/stages", headers=header).status_code for _ in range(3)] == [403, 403, 429]


def test_a_page_of_a_listed_origin_may_read_and_write(serve: Callable[..., TestClient]) -> None:
    http = serve(cors_origins=(PAGE,))
    asked = {"Origin": PAGE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "Authorization"}
    assert http.options("/v1/gate", headers=asked).headers["Access-Control-Allow-Origin"] == PAGE
    header = {"Origin": PAGE, "Sec-Fetch-Site": "cross-site"}
    written = http.post("/v1/gate", json={"query": "What is a lease?"}, headers=header)
    assert (written.status_code, written.headers["Access-Control-Allow-Origin"]) == (202, PAGE)
    assert "X-Request-Id" in written.headers["Access-Control-Expose-Headers"]
    other = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    refused = http.post("/v1/gate", json={"query": "What is a lease?"}, headers=other)
    assert (refused.status_code, "Access-Control-Allow-Origin" in refused.headers) == (403, False)


def test_without_the_setting_no_page_may(http: TestClient) -> None:
    assert "Access-Control-Allow-Origin" not in http.get("/v1/runs", headers={"Origin": PAGE}).headers
    assert http.post("/v1/gate", json={"query": "a lease?"}, headers={"Origin": PAGE}).status_code == 403
