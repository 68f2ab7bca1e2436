"""Routes for the graph of indexed documents: Cypher queries, a node's neighbours, documents linked to a failing test.

Each corpus has its own graph, and a key reads those of its corpora. See docs/graph.md. The decision record names the
path `/health/neo4j` for the graph server's health.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response

from sluice.api.access import AnyCaller, Corpus, Operator, WholeCaller, instance_of
from sluice.api.lists import whole
from sluice.api.problems import problems
from sluice.api.requests import about_run
from sluice.contracts.api import Page, RunAccepted
from sluice.contracts.graph import api
from sluice.contracts.graph.model import EdgeType
from sluice.contracts.retrieval import MAX_QUERY_CHARACTERS
from sluice.workers.service.graphs import check_graph_server

graph = APIRouter(prefix="/v1/graph", tags=["graph"])
health = APIRouter(tags=["operations"])
ROUTERS = (graph, health)

Kind = Annotated[api.DocumentKind | None, Query(description="Only documents of this kind")]
RESPONSES: dict[int | str, dict[str, Any]] = {
    **problems(404),
    503: {"model": api.GraphServerHealth, "description": "It does not answer, or refuses"},
}


@graph.post("/query", responses=problems(400, 404, 413, 429, 503, 504), summary="Ask in Cypher")
def query(request: Request, body: api.CypherRequest, caller: AnyCaller) -> api.CypherResult:
    """Answer MATCH, WHERE, WITH, UNWIND of a parameter, RETURN, ORDER BY, SKIP and LIMIT; nothing that writes. A query
    that cannot be read is refused (400), and the message names line and column."""
    return instance_of(request).graph.query(body, caller)


@graph.get("/nearest", responses=problems(404, 503, 504), summary="Documents near to a question")
def nearest(
    request: Request,
    caller: AnyCaller,
    question: Annotated[str, Query(min_length=1, max_length=MAX_QUERY_CHARACTERS)],
    corpus: Corpus = "default",
    top_k: Annotated[int, Query(ge=1, le=100)] = 8,
) -> api.NearestDocuments:
    """Search the vector index of the instance's Neo4j or Memgraph; add the documents that the found ones link to."""
    return instance_of(request).graph.nearest(corpus, question, caller, top_k=top_k)


@graph.get("/neighbours/{node_id:path}", responses=problems(404, 503), summary="What is next to a node")
def neighbours(
    request: Request,
    node_id: Annotated[
        str,
        Path(
            max_length=api.MAX_NODE_CHARACTERS,
            description="Label and key, such as Symbol:python:shop.cart.Cart; a document's path; a symbol's import "
            "path, or its end, where that is plain",
        ),
    ],
    caller: AnyCaller,
    corpus: Corpus = "default",
    direction: Annotated[Literal["out", "in"] | None, Query(description="Only edges that leave it, or arrive")] = None,
    edge: Annotated[list[EdgeType] | None, Query(description="Only edges of these types. Repeatable")] = None,
    kind: Kind = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 50,
) -> api.Neighbours:
    """Return the surest edges first. A name that means several nodes is refused (422), and the remedy lists them."""
    return instance_of(request).graph.neighbours(
        corpus, node_id, caller, direction=direction, types=tuple(edge or ()), limit=limit, kind=kind
    )


@graph.get("/linked", responses=problems(404, 503), summary="Documents linked to a failing test of a module")
def linked(
    request: Request,
    caller: AnyCaller,
    module: Annotated[
        str,
        Query(
            min_length=1,
            max_length=api.MAX_NODE_CHARACTERS,
            description="A module, another symbol, or a path: shop.cart, src/shop/cart.py",
        ),
    ],
    corpus: Corpus = "default",
    failing: Annotated[bool, Query(description="Only tests that a report names as failing; false: all tests")] = True,
    kind: Kind = None,
    top_k: Annotated[int, Query(ge=1, le=100)] = 10,
) -> api.Linked:
    """Return the tests that touch the module, and the documents that are linked to these tests, each with the path that
    leads to it. Pages, code and tests are ranked apart: the best of each has the score 1."""
    return instance_of(request).graph.linked(corpus, module, caller, failing=failing, top_k=top_k, kind=kind)


@graph.get("/status", responses=problems(404, 503), summary="How the graph of a corpus stands")
def status(request: Request, caller: AnyCaller, corpus: Corpus = "default") -> api.GraphStatus:
    """Return the counts in the ledger, the published graph, and how far it is behind."""
    return instance_of(request).graph.status(corpus, caller)


@graph.get("", responses=problems(503), summary="How the graph of each corpus stands")
def every(request: Request, caller: AnyCaller) -> Page[api.GraphStatus]:
    """Return `/v1/graph/status` of each corpus that the key may see and that has a graph."""
    return whole(instance_of(request).graph.every(caller))


@graph.post("/prove", responses=problems(404, 503), summary="Does the graph hold what its documents say?")
def prove(request: Request, body: api.RebuildRequest, caller: Operator) -> api.GraphProof:
    """Read every document of the index anew and compare; changes nothing. Takes about as long as a rebuild."""
    return instance_of(request).graph.prove(body.corpus, caller)


@graph.post(
    "/rebuild",
    status_code=202,
    responses=problems(404, 429, 503, 507),
    summary="Read every document of a corpus into its graph anew",
)
def rebuild(request: Request, body: api.RebuildRequest, caller: Operator) -> RunAccepted:
    """Begin a rebuild; the graph answers meanwhile. If `graph_sha256` of the status is the same when the run is
    finished, the graph that was kept up document by document equalled the rebuilt one."""
    return about_run(request, instance_of(request).graph.rebuild(body.corpus, caller))


@health.get("/health/neo4j", responses=RESPONSES, summary="Does the graph server answer?")
def neo4j_health(request: Request, response: Response, caller: WholeCaller) -> api.GraphServerHealth:
    """Check Neo4j or Memgraph, or the graph's files if none is configured: 200 if they answer, else 503. Only a caller
    that may see every corpus sees why it fails."""
    health = check_graph_server(instance_of(request).context)
    response.status_code = 200 if health.status == "healthy" else 503
    return health if caller or health.status == "healthy" else health.without_details()
