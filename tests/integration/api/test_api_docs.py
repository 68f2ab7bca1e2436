"""`/docs` without the internet: every file is this interface's own, under a strict policy."""

from __future__ import annotations

import re

import pytest
from starlette.testclient import TestClient

from sluice.api.app import descriptions


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


def test_the_description_says_of_requests_and_tags_what_they_are(http: TestClient) -> None:
    told = http.get("/openapi.json").json()
    operations = [one for path in told["paths"].values() for one in path.values()]
    assert {tag for one in operations for tag in one.get("tags", ())} == {tag["name"] for tag in told["tags"]}
    assert [{}, {"HTTPBearer": []}] in [one.get("security") for one in operations], "no key is needed on loopback"
    shapes = told["components"]["schemas"]
    fields = ((name, field, told) for name, one in shapes.items() for field, told in one.get("properties", {}).items())
    assert [f"{name}.{field}" for name, field, told in fields if not told.get("description")] == []
    parameters = {(one["operationId"], told["name"]): told for one in operations for told in one.get("parameters", ())}
    assert [name for name, told in parameters.items() if not told.get("description")] == []


def test_the_table_of_descriptions_holds_nothing_that_is_not_there(http: TestClient) -> None:
    shapes, table = http.get("/openapi.json").json()["components"]["schemas"], dict(descriptions())
    table.pop("tags")
    table.pop("parameters")
    every = table.pop("every")
    assert every.keys() <= {field for shape in shapes.values() for field in shape.get("properties", {})}
    for name, told in table.items():
        said = {field: shapes[name]["properties"][field]["description"] for field in told}
        assert said == told, "a docstring in the code says it already"
