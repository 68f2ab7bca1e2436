"""A web page of another origin cannot make a browser change anything here, whatever it sends."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers
from starlette.testclient import TestClient

from sluice.api.access import is_own

FOREIGN = [
    {"Origin": "https://evil.example"},
    {"Origin": "http://127.0.0.1:9999"},
    {"Origin": "http://localhost"},
    {"Origin": "null"},
    {"Origin": "http://[::"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "cross-site"},
]
CHANGES = [
    ("POST", "/v1/stages/crawl/pause?why=because"),
    ("POST", "/v1/gate"),
    ("DELETE", "/v1/runs/run_1"),
    ("PUT", "/v1/dead-letters/dead_1/payload"),
    ("PATCH", "/v1/runs/run_1"),
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_a_page_of_another_origin_changes_nothing(http: TestClient, headers: dict[str, str]) -> None:
    for method, path in CHANGES:
        refused = http.request(method, path, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), (method, path)
        assert refused.json()["remedy"]
    assert all(stage["paused_because"] is None for stage in http.get("/v1/stages").json()["data"])


@pytest.mark.parametrize(
    "headers", [{}, {"Origin": "http://127.0.0.1"}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}]
)
def test_programs_and_pages_of_this_origin_may(http: TestClient, headers: dict[str, str]) -> None:
    assert http.post("/v1/stages/crawl/pause", params={"why": "a test"}, headers=headers).status_code == 200


def test_reading_is_not_concerned(http: TestClient) -> None:
    assert http.get("/v1/runs", headers={"Origin": "https://evil.example"}).status_code == 200


def test_a_default_port_may_be_written_or_left_out_and_a_proxy_may_speak_tls() -> None:
    assert is_own(Headers({"Origin": "https://sluice.example", "Host": "sluice.example:443"}))
    assert is_own(Headers({"Origin": "https://sluice.example", "Host": "Sluice.Example"}))
    assert not is_own(Headers({"Origin": "https://sluice.example:8443", "Host": "sluice.example"}))
