"""`/docs` without the internet: every file is this interface's own, under a strict policy."""

from __future__ import annotations

import re

import pytest
from starlette.testclient import TestClient


def test_the_page_and_what_it_loads_come_from_here(http: TestClient) -> None:
    page = http.get("/docs")
    assert page.status_code == 200
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(loaded) == 4
    for path in loaded:
        assert "//" not in path
        found = http.get(f"/{path}")
        assert found.status_code == 200
        assert found.headers["X-Content-Type-Options"] == "nosniff"
        assert len(found.content) > 100


def test_a_strict_policy_keeps_the_page_to_its_origin(http: TestClient) -> None:
    policy = http.get("/docs").headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "<script>" not in http.get("/docs").text


@pytest.mark.parametrize("name", ["..%2f..%2fetc%2fpasswd", "__init__.py", "nothing.js"])
def test_no_other_file_is_given(http: TestClient, name: str) -> None:
    assert http.get(f"/docs/{name}").status_code == 404


def test_the_start_script_names_the_description(http: TestClient) -> None:
    assert '"/openapi.json"' in http.get("/docs/start.js").text
    assert http.get("/openapi.json").json()["info"]["title"] == "Sluice"
