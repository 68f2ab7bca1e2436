"""What the server answers on: /v1/graph, /health/neo4j. Written by `.ci/client_models.py` from the server's OpenAPI description: do not edit."""

# fmt: off
from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from sluice_client.models.base import Model
from sluice_client.models.answers import EdgeType, GraphPath, NodeLabel, Origin


class CypherResult(Model):  # Rows of a Cypher question, and the generation of the graph that they come from
    columns: list[str]
    rows: list[list[Any]]
    is_cut: bool = False
    generation: str
    behind: int = 0
    duration_ms: float

class GraphProof(Model):  # The graph rebuilt from the journal, compared with the incremental one: by `sluice graph
    corpus: str
    documents: int
    edges: int
    grown_sha256: str
    rebuilt_sha256: str
    differing: list[str] = []

class GraphServerHealth(Model):  # Whether the graph server answers
    status: Literal['healthy', 'unhealthy'] | str
    message: str

class GraphStatus(Model):  # The state of a corpus's graph
    corpus: str
    documents: int
    edges: int
    version: int
    graph_sha256: str
    parser_version: str
    generation: str | None
    published_version: int
    published_nodes: int = 0
    published_edges: int = 0
    published_at: datetime | None = None
    cypher_version: int | None = None
    server_version: int | None = None
    problem: str | None = None

class Linked(Model):  # Documents linked to a failing test that touches a module.
    module: str
    tests: list[NodeView]
    documents: list[LinkedDocument]
    generation: str

class LinkedDocument(Model):  # A document that is linked to the requested module, and the path to it.
    document: NodeView
    score: float
    path: GraphPath

class NearDocument(Model):  # A document near to a question
    document_id: str
    path: str | None = None
    url: str | None = None
    title: str | None = None
    score: float

class NearLink(Model):  # A document that a near one refers or links to, by `shared` names; `names` are some of them.
    from_document_id: str
    document_id: str
    path: str | None = None
    url: str | None = None
    title: str | None = None
    names: list[str]
    shared: int

class NearestDocuments(Model):  # The documents that a graph server ranks nearest to a question, and the documents
    documents: list[NearDocument]
    linked: list[NearLink]
    by_vector_index: bool

class NeighbourView(Model):  # A node next to another, and the edge between them.
    node: NodeView
    edge: EdgeType
    direction: Literal['out', 'in'] | str
    origin: Origin
    lines: list[int] = []
    detail: str = ''
    candidates: int = 1

class Neighbours(Model):  # A node and its neighbours, the surest edges first.
    node: NodeView
    neighbours: list[NeighbourView]
    total: int
    generation: str

class NodeView(Model):  # A node: `id` is its label and key, like `Symbol:python:shop.cart.Cart`; `name` is for people.
    id: str
    label: NodeLabel
    name: str
    path: str | None = None
    url: str | None = None
    title: str | None = None
