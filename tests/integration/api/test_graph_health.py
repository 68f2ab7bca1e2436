"""/health/neo4j: as the decision record has it."""

from __future__ import annotations

from collections.abc import Callable

from starlette.testclient import TestClient

from sluice.graph.generations.publish import FILE, POINTER
from sluice.graph.settings import GraphSettings
from tests.support.api_keys import bearer
from tests.support.bolt.world import fake_server, settings

PATH = "/health/neo4j"


def test_a_server_that_answers_is_healthy_and_one_that_is_gone_is_not(serve: Callable[..., TestClient]) -> None:
    fake = fake_server()
    with fake.serving():
        http = serve(graph=settings(fake.url, timeout_seconds=1.0))
        healthy = http.get(PATH)
        assert healthy.status_code == 200
        assert healthy.json() == {"status": "healthy", "message": "Neo4j connection successful"}
    unhealthy = http.get(PATH)
    assert unhealthy.status_code == 503
    assert unhealthy.json()["status"] == "unhealthy"
    assert f"127.0.0.1:{fake.port}" in unhealthy.json()["message"]
    whole = bearer(http, "operator")
    assert http.get(PATH).json()["message"] == "the graph server does not answer", "to a stranger no more"
    assert f"127.0.0.1:{fake.port}" in http.get(PATH, headers=whole).json()["message"]


def test_a_refused_password_is_told_without_the_password(serve: Callable[..., TestClient]) -> None:
    fake = fake_server()
    with fake.serving():
        answer = serve(graph=settings(fake.url, password="hunter2-hunter2")).get(PATH)
    assert answer.status_code == 503
    assert "refuses it" in answer.json()["message"]
    assert "hunter2" not in answer.text


def test_without_a_server_the_graphs_files_are_what_is_healthy_or_not(serve: Callable[..., TestClient]) -> None:
    http = serve(graph=GraphSettings())
    answer = http.get(PATH)
    assert answer.status_code == 200
    assert "no graph server is configured: set graph.url, or NEO4J_URI" in answer.json()["message"]

    context = http.app.state.instance.context  # type: ignore[attr-defined]
    (context.settings.index_root / "docs" / "journal").mkdir(parents=True)
    pointer = context.graphs.folder("docs") / POINTER
    (pointer.parent / "damaged").mkdir(parents=True)
    (pointer.parent / "damaged" / FILE).write_bytes(b"no graph")
    pointer.symlink_to("damaged")
    damaged = http.get(PATH, headers=bearer(http, "operator"))
    assert (damaged.status_code, damaged.json()["message"]) == (503, "the graph is damaged: docs")
