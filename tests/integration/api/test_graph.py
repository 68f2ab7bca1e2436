"""The graph over HTTP: an indexed tree with a failing test is asked, and a key reads its own corpora alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from sluice.contracts.api import DocumentsRequest
from sluice.contracts.graph.api import GraphStatus
from sluice.graph.arm import DAMAGED
from sluice.graph.extract.tool_lists import FACTS_KEY, TESTS
from sluice.graph.generations.publish import FILE, POINTER, discard
from sluice.workers.processes.watches.graph import CypherFiles
from sluice_client import SluiceClient
from sluice_client.errors import Forbidden, InvalidInput, InvalidQuestion, NotFound
from tests.support.api_keys import bearer
from tests.support.graph.corpus import FILES
from tests.support.in_process import Instance, MakeInstance

CART = "Symbol:python:shop.cart.Cart"
REFERRING = "MATCH (d:Document)-[r:REFERS_TO]->(s:Symbol) WHERE s.name = $name RETURN DISTINCT d.path ORDER BY d.path"
NEEDS_A_SERVER = "/v1/graph/nearest"
STAGES = ("chunk", "embed", "index", "graph")


@pytest.fixture
def instance(make_instance: MakeInstance) -> Instance:
    """A corpus `docs` with the files of a small shop, indexed and read into its graph."""
    instance = make_instance()
    facts = {"report.txt": {FACTS_KEY: TESTS}}
    documents = [{"file_path": path, "text": text, "metadata": facts.get(path, {})} for path, text in FILES.items()]
    instance.service.add_documents(DocumentsRequest.model_validate({"corpus": "docs", "documents": documents}))
    instance.works(*STAGES)  # type: ignore[arg-type]
    CypherFiles(instance.context).look()
    return instance


@pytest.fixture
def client(http: TestClient, instance: Instance) -> SluiceClient:
    def carry(request: httpx2.Request) -> httpx2.Response:
        answer = http.request(request.method, str(request.url), content=request.content, headers=dict(request.headers))
        return httpx2.Response(answer.status_code, content=answer.content, request=request)

    return SluiceClient("http://127.0.0.1", transport=httpx2.MockTransport(carry))


def test_a_question_in_cypher_is_answered_from_the_published_generation(client: SluiceClient) -> None:
    found = client.graph_query(REFERRING, "docs", parameters={"name": "Cart"})
    paths = [row[0] for row in found.rows]
    assert {"shop/cart.py", "shop/checkout.py", "tests/test_checkout.py"} <= set(paths)
    assert (found.behind, found.is_cut) == (0, False)
    facts = client.graph_query("MATCH (d:Document) RETURN d.language, d.updated_at ORDER BY d.path LIMIT 1", "docs")
    assert all(facts.rows[0])
    cut = client.graph_query(REFERRING, "docs", parameters={"name": "Cart"}, limit=1)
    assert (cut.rows, cut.is_cut, cut.generation) == (found.rows[:1], True, found.generation)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("MATCH (d:Document) SET d.path = 'x' RETURN d", "line 1, column 20: "),
        ("MATCH (d:Document)\nRETURN d.path,", "line 2, column 15: "),
        ("MATCH (d:Nothing) RETURN d", "Nothing"),
    ],
)
def test_a_question_that_is_wrong_or_writes_is_refused_with_line_and_column(
    http: TestClient, instance: Instance, query: str, told: str
) -> None:
    refused = http.post("/v1/graph/query", json={"query": query, "corpus": "docs"})
    assert refused.status_code == 400
    problem = refused.json()
    assert (problem["code"], problem["field"]) == ("invalid_question", "query")
    assert told in problem["message"]


def test_the_client_tells_a_wrong_question_from_a_wrong_field(client: SluiceClient) -> None:
    with pytest.raises(InvalidQuestion, match="query: "):
        client.graph_query("MATCH (d", "docs")
    with pytest.raises(InvalidQuestion, match="parameters: name is not given"):
        client.graph_query(REFERRING, "docs")
    with pytest.raises(InvalidInput, match="limit"):
        client.graph_query(REFERRING, "docs", limit=0)


def test_what_is_next_to_a_node_is_found_by_its_id_its_path_or_its_name(client: SluiceClient) -> None:
    found = client.graph_neighbours(CART, "docs")
    assert found.node.id == CART
    by_type = {(one.edge, one.direction, one.node.path) for one in found.neighbours}
    assert {("DEFINED_IN", "out", "shop/cart.py"), ("REFERS_TO", "in", "tests/test_checkout.py")} <= by_type
    assert client.graph_neighbours("shop.cart.Cart", "docs") == found
    linking = client.graph_neighbours("docs/cart.md", "docs", direction="in", edges=("LINKS_TO",), limit=1)
    assert [one.node.path for one in linking.neighbours] == ["docs/checkout.md"]


def test_documents_linked_to_a_failing_test_that_touches_a_module(client: SluiceClient) -> None:
    found = client.graph_linked("shop.checkout", "docs")
    assert [test.name for test in found.tests] == ["tests/test_checkout.py", "tests.test_checkout.test_pay"]
    paths = [one.document.path for one in found.documents]
    assert "shop/checkout.py" in paths
    assert all(str(one.path) for one in found.documents)
    assert client.graph_linked("shop/checkout.py", "docs").tests == found.tests


def test_the_status_tells_how_the_graph_stands_and_a_rebuild_gives_the_same_graph(
    client: SluiceClient, instance: Instance
) -> None:
    before = GraphStatus.model_validate_json(client.graph_status("docs").model_dump_json())
    assert (before.documents, before.behind, before.problem) == (len(FILES), 0, None)
    accepted = client.rebuild_graph("docs")
    instance.works("graph")
    assert client.run(accepted.run_id).status == "finished"
    after = client.graph_status("docs")
    assert after.graph_sha256 == before.graph_sha256


def test_what_is_not_there_is_not_found(client: SluiceClient, instance: Instance) -> None:
    for ask in (
        lambda: client.graph_status("nothing"),
        lambda: client.graph_query("MATCH (d:Document) RETURN d.path", "nothing"),
        lambda: client.graph_linked("shop.nothing", "docs"),
        lambda: client.graph_neighbours("Symbol:python:shop.Basket", "docs"),
    ):
        with pytest.raises(NotFound):
            ask()


def test_health_tells_of_each_graph_and_is_ill_only_where_a_damaged_one_has_no_other(
    http: TestClient, serve: Callable[..., TestClient], instance: Instance
) -> None:
    def graph(of: TestClient = http) -> dict[str, Any]:
        told: dict[str, Any] = of.get("/healthz").json()["checks"]["graph"]
        return told

    assert graph()["ok"]
    assert graph()["facts"]["corpora"]["docs"]["behind"] == 0
    folder = instance.context.graphs.folder("docs")
    file = folder / POINTER / FILE
    body = bytearray(file.read_bytes())
    body[len(body) // 2] ^= 1
    file.rename(file.with_suffix(".away"))
    file.write_bytes(bytes(body))
    stands = graph()
    assert (stands["ok"], stands["facts"]["corpora"]["docs"]["problem"]) == (True, DAMAGED), "the older one is read on"
    late = serve()
    assert not graph(late)["ok"]
    assert graph(late)["detail"] == f"docs: {DAMAGED}"
    assert late.get("/v1/graph/neighbours/Cart", params={"corpus": "docs"}).status_code == 503
    discard(folder)
    last = serve()
    assert graph(last)["ok"], "a graph that is not there is no illness"
    assert last.get("/v1/graph/neighbours/Cart", params={"corpus": "docs"}).status_code == 404


def routes(corpus: str) -> list[tuple[str, str, dict[str, str] | None, dict[str, Any] | None]]:
    """Every route of the graph, asked about a corpus: method, path, parameters, body."""
    return [
        ("POST", "/v1/graph/query", None, {"query": REFERRING, "parameters": {"name": "Cart"}, "corpus": corpus}),
        ("GET", f"/v1/graph/neighbours/{CART}", {"corpus": corpus}, None),
        ("GET", "/v1/graph/linked", {"corpus": corpus, "module": "shop.checkout"}, None),
        ("GET", "/v1/graph/nearest", {"corpus": corpus, "question": "What does paying take?"}, None),
        ("GET", "/v1/graph/status", {"corpus": corpus}, None),
        ("POST", "/v1/graph/prove", None, {"corpus": corpus}),
        ("POST", "/v1/graph/rebuild", None, {"corpus": corpus}),
    ]


def test_a_key_lists_the_graphs_of_its_own_corpora_alone(http: TestClient, instance: Instance) -> None:
    own, other = bearer(http, "agent", "docs"), bearer(http, "operator", "elsewhere")
    assert [one["corpus"] for one in http.get("/v1/graph", headers=own).json()["data"]] == ["docs"]
    assert http.get("/v1/graph", headers=other).json()["data"] == []
    assert http.get("/v1/graph").status_code == 401


def test_a_key_reads_the_graphs_of_its_own_corpora_alone(http: TestClient, instance: Instance) -> None:
    own, other = bearer(http, "operator", "docs"), bearer(http, "operator", "elsewhere")
    for method, path, params, body in routes("docs"):
        told = http.request(method, path, params=params, json=body, headers=own)
        assert told.status_code in ((404,) if path == NEEDS_A_SERVER else (200, 202)), (path, told.text)
        refused = http.request(method, path, params=params, json=body, headers=other)
        assert (refused.status_code, "'docs'" in refused.json()["message"]) == (403, True), path
        assert http.request(method, path, params=params, json=body).status_code == 401, path


def test_an_agent_s_key_asks_and_does_not_rebuild(http: TestClient, instance: Instance) -> None:
    agent = bearer(http, "agent", "docs")
    answered = {
        path: http.request(method, path, params=params, json=body, headers=agent).status_code
        for method, path, params, body in routes("docs")
    }
    assert answered.pop("/v1/graph/rebuild") == answered.pop("/v1/graph/prove") == 403
    assert answered.pop(NEEDS_A_SERVER) == 404
    assert set(answered.values()) == {200}


def test_every_route_of_the_graph_is_asked_by_a_key_above(http: TestClient) -> None:
    """One that is added without a check is found here."""
    described = http.get("/openapi.json").json()["paths"]
    found = {(method.upper(), path) for path, of in described.items() for method in of if path.startswith("/v1/graph")}
    checked = {(method, path.replace(CART, "{node_id}")) for method, path, _, _ in routes("docs")}
    assert found == {("GET", "/v1/graph"), *checked}


def test_nothing_is_asked_of_the_ledger_s_secrets_through_a_question(client: SluiceClient) -> None:
    """The question of a key is about one corpus, whatever its text says of others."""
    found = client.graph_query("MATCH (d:Document) WHERE d.corpus <> 'docs' RETURN d.path", "docs")
    assert found.rows == []
    with pytest.raises((InvalidQuestion, Forbidden)):
        client.graph_query("LOAD FROM '/etc/passwd' RETURN *", "docs")
