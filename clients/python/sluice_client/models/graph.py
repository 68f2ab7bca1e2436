"""What the server answers on: /v1/graph, /health/neo4j. Written by `.ci/client_models.py` from the server's OpenAPI description: do not edit."""

# fmt: off
from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from sluice_client.models.base import Model
from sluice_client.models.answers import EdgeType, GraphPath, NodeLabel, Origin


class CypherResult(Model):  # Rows of a Cypher question, and the generation of the graph that they come from.
    columns: list[str]
    rows: list[list[Any]]
    is_cut: bool = False
    generation: str
    behind: int = 0
    duration_ms: float

class GraphProof(Model):  # The graph read anew from the journal, beside the one that grew: by `sluice graph rebuild
    corpus: str
    documents: int
    edges: int
    grown_sha256: str
    rebuilt_sha256: str
    differing: list[str] = []

class GraphServerHealth(Model):  # Whether the graph server answers, in the words of the decision record.
    status: Literal['healthy', 'unhealthy'] | str
    message: str

class GraphStatus(Model):  # How the graph of a corpus stands
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

class LinkedDocument(Model):  # A document that is linked to what was asked for, and how.
    document: NodeView
    score: float
    path: GraphPath

class NearDocument(Model):  # A document near to a question: `score` is the cosine of the two, in [-1, 1].
    document_id: str
    path: str | None = None
    url: str | None = None
    title: str | None = None
    score: float

class NearLink(Model):  # A document that one of the near ones refers or links to, by `shared` names; `names` are some
    from_document_id: str
    document_id: str
    path: str | None = None
    url: str | None = None
    title: str | None = None
    names: list[str]
    shared: int

class NearestDocuments(Model):  # The documents that a graph server finds nearest to a question, and what these are
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

class Neighbours(Model):  # A node and what is next to it, the surest edges first.
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
