"""Questions to a graph server over HTTP: guarded Cypher, and the documents nearest to a question."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from sluice.contracts.api import DocumentsRequest
from sluice.graph.cypher.guard import guard
from sluice.graph.cypher.parse import NEO4J
from sluice.graph.settings import GraphSettings
from sluice.workers.processes.watches.graph import GraphServerFeed
from tests.support.api_keys import bearer
from tests.support.bolt.server import FakeBoltServer
from tests.support.bolt.store import Table, node_value
from tests.support.bolt.world import fake_server, settings
from tests.support.graph.corpus import FILES
from tests.support.in_process import Instance, MakeInstance

STAGES = ("chunk", "embed", "index", "graph")
QUESTION = "MATCH (d:Document) WHERE d.path STARTS WITH $start RETURN d, count(*) AS n"


@pytest.fixture
def fake() -> Iterator[FakeBoltServer]:
    fake = fake_server()
    with fake.serving():
        yield fake


@pytest.fixture
def http(serve: Callable[..., TestClient], fake: FakeBoltServer, make_instance: MakeInstance) -> TestClient:
    """An instance whose corpus `docs` was fed to the server."""
    told = {"url": fake.url, "user": "neo4j", "password": "right"}
    instance: Instance = make_instance(graph=told)
    documents = [{"file_path": path, "text": text} for path, text in FILES.items()]
    instance.service.add_documents(DocumentsRequest.model_validate({"corpus": "docs", "documents": documents}))
    instance.works(*STAGES)  # type: ignore[arg-type]
    GraphServerFeed(instance.context).look()
    return serve(graph=settings(fake.url), embed=instance.context.settings.embed)


def test_the_documents_nearest_to_a_question_come_with_what_they_are_linked_to(http: TestClient) -> None:
    found = http.get("/v1/graph/nearest", params={"question": "how is a cart paid?", "corpus": "docs", "top_k": 3})
    assert found.status_code == 200
    paths = [one["path"] for one in found.json()["documents"]]
    assert len(paths) == 3
    assert {"docs/checkout.md", "shop/checkout.py"} & set(paths)
    assert found.json()["by_vector_index"]
    assert found.json()["linked"], "names lead from one to another"
    assert all(link["names"] for link in found.json()["linked"])


def test_a_question_in_cypher_is_guarded_before_it_is_sent(http: TestClient, fake: FakeBoltServer) -> None:
    statement = guard(QUESTION, {"start": "shop/"}, "docs", 5, NEO4J)
    seen: list[dict[str, Any]] = []

    def answer(given: dict[str, Any]) -> Table:
        seen.append(given)
        properties = {"id": "d1", "path": "shop/cart.py", "as_of": 3, "sha256": "ab", "embedding": [0.1]}
        return Table(("d", "n"), [[node_value("Document", properties), 2]] * 6)

    fake.store.extra[statement.text] = answer
    asked = {"query": QUESTION, "corpus": "docs", "parameters": {"start": "shop/"}, "limit": 5, "server": True}
    found = http.post("/v1/graph/query", json=asked).json()
    assert found["rows"] == [[{"id": "d1", "path": "shop/cart.py", "label": "Document"}, 2]] * 5
    assert (found["is_cut"], found["behind"]) == (True, 0)
    assert found["generation"].startswith("server@")
    assert seen[0]["corpus"] == "docs"
    assert (fake.modes[-1], fake.ended[-1]) == ("r", "rollback")


def test_the_status_of_a_graph_says_up_to_where_the_server_was_fed(http: TestClient, fake: FakeBoltServer) -> None:
    status = http.get("/v1/graph/status", params={"corpus": "docs"}).json()
    assert status["server_version"] == status["version"] > 0
    fake.store.content.nodes.clear()
    assert "server_version" not in http.get("/v1/graph/status", params={"corpus": "docs"}).json()


def test_what_writes_is_refused_and_not_sent(http: TestClient, fake: FakeBoltServer) -> None:
    before = len(fake.statements)
    asked = {"query": "MATCH (d:Document) DETACH DELETE d", "corpus": "docs", "server": True}
    refused = http.post("/v1/graph/query", json=asked)
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_question")
    assert len(fake.statements) == before


def test_a_key_asks_the_server_about_its_own_corpora_alone(http: TestClient) -> None:
    others = bearer(http, "agent", "elsewhere")
    asked = {"query": "MATCH (d:Document) RETURN d", "corpus": "docs", "server": True}
    assert http.post("/v1/graph/query", json=asked, headers=others).status_code == 403
    assert http.get("/v1/graph/nearest?question=x&corpus=docs", headers=others).status_code == 403


def test_without_a_server_both_say_so(make_instance: MakeInstance, serve: Callable[..., TestClient]) -> None:
    instance = make_instance()
    instance.adds("one")
    instance.works(*STAGES)  # type: ignore[arg-type]
    http = serve(graph=GraphSettings())
    asked = {"query": "MATCH (d:Document) RETURN d", "server": True}
    for answer in (http.post("/v1/graph/query", json=asked), http.get("/v1/graph/nearest?question=x")):
        assert answer.status_code == 404
        assert "no graph server is configured" in answer.text


def test_a_server_that_is_away_is_unavailable(http: TestClient, fake: FakeBoltServer) -> None:
    fake.behaviour.password = "changed"
    http.app.state.instance.context.graph_server.close()  # type: ignore[attr-defined]
    answer = http.get("/v1/graph/nearest", params={"question": "x", "corpus": "docs"})
    assert answer.status_code == 503
    assert answer.json()["code"] == "unavailable"
