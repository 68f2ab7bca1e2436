"""Requests and responses of the graph's interfaces."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, field_validator

from sluice.contracts.base import CorpusName, LaterText, Moment, Switch, Value, is_none
from sluice.contracts.graph.model import EdgeType, GraphPath, NodeLabel, Origin

Cell = JsonValue
"""A value in a row of a Cypher result; nodes and edges are objects of their properties."""


class CypherRequest(Value):
    """A Cypher question about one corpus. Read only: MATCH, WHERE, WITH, UNWIND, RETURN, ORDER BY, SKIP, LIMIT."""

    query: Annotated[str, Field(min_length=1, max_length=10_000)]
    corpus: CorpusName = "default"
    parameters: dict[str, str | int | float | bool | list[str | int | float | bool] | None] = Field(
        default_factory=dict
    )
    limit: Annotated[int, Field(ge=1, le=10_000)] = 100
    """The most rows; a smaller LIMIT in the query takes precedence."""
    timeout_seconds: Annotated[float, Field(gt=0, le=30)] = 5.0
    server: Switch = False
    """Whether to query the instance's Neo4j or Memgraph instead of the published file."""

    @field_validator("parameters", mode="before")
    @classmethod
    def _name_the_parameter(cls, value: Any) -> Any:
        for name, given in value.items() if isinstance(value, dict) else ():
            items = given if isinstance(given, list | tuple) else [given]
            if given is not None and not all(isinstance(item, str | int | float) for item in items):
                raise ValueError(f"${name} is a text, a number, true, false or null, or a list of these without null")
        return value


class CypherResult(Value):
    """Rows of a Cypher question, and the generation of the graph that they come from. `server@7` is a graph server that
    has the changes up to the seventh."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    is_cut: bool = False
    """Whether there were more rows than the limit."""
    generation: str
    behind: Annotated[int, Field(ge=0)] = 0
    """Changes of the graph that the generation does not contain yet."""
    duration_ms: float


MAX_NODE_CHARACTERS = 4_096
"""Longest name or id of a node in a request."""


class NodeView(Value):
    """A node: `id` is its label and key, like `Symbol:python:shop.cart.Cart`; `name` is for people."""

    id: str
    label: NodeLabel
    name: str
    path: LaterText = None
    url: LaterText = None
    title: LaterText = None


class NeighbourView(Value):
    """A node next to another, and the edge between them."""

    node: NodeView
    edge: EdgeType
    direction: Literal["out", "in"]
    origin: Origin
    lines: tuple[int, ...] = ()
    detail: str = ""
    candidates: Annotated[int, Field(ge=1)] = 1


class Neighbours(Value):
    """A node and its neighbours, the surest edges first."""

    node: NodeView
    neighbours: tuple[NeighbourView, ...]
    total: int
    generation: str


DocumentKind = Literal["docs", "code", "tests"]
"""Pages of prose, source code, and tests, by the path of a document."""


class LinkedDocument(Value):
    """A document that is linked to the requested module, and the path to it. `score` compares those of one `kind`: the
    best has 1."""

    document: NodeView
    kind: DocumentKind = "docs"
    score: float
    path: GraphPath


class Linked(Value):
    """Documents linked to a failing test that touches a module."""

    module: str
    tests: tuple[NodeView, ...]
    """The failing tests that touch the module; all tests that do, where the request is not limited to failing ones."""
    documents: tuple[LinkedDocument, ...]
    generation: str


class NearDocument(Value):
    """A document near to a question. `score` is the cosine of the two, in [-1, 1]."""

    document_id: str
    path: LaterText = None
    url: LaterText = None
    title: LaterText = None
    score: float


class NearLink(Value):
    """A document that a near one refers or links to, by `shared` names; `names` are some of them."""

    from_document_id: str
    document_id: str
    path: LaterText = None
    url: LaterText = None
    title: LaterText = None
    names: tuple[str, ...]
    shared: int


class NearestDocuments(Value):
    """The documents that a graph server ranks nearest to a question, and the documents linked to them."""

    documents: tuple[NearDocument, ...]
    linked: tuple[NearLink, ...]
    by_vector_index: bool
    """Whether the server's vector index found them; otherwise every vector was compared."""


class GraphStatus(Value):
    """The state of a corpus's graph. `generation` None: nothing is published yet."""

    corpus: CorpusName
    documents: int
    edges: int
    """Edges of documents, in the ledger."""
    version: int
    """Changes of the graph, counted in the ledger."""
    graph_sha256: str
    """The hash of the whole graph in the ledger: equal graphs have equal hashes, whatever the order of changes."""
    parser_version: str
    generation: str | None
    published_version: int
    published_nodes: int = 0
    published_edges: int = 0
    published_at: Annotated[Moment | None, Field(exclude_if=is_none)] = None
    cypher_version: Annotated[int | None, Field(exclude_if=is_none)] = None
    """Changes that the file of the Cypher engine covers; None where there is no file."""
    server_version: Annotated[int | None, Field(exclude_if=is_none)] = None
    """Changes that the graph server has received; None without a server, before its first feed, or if it is down."""
    problem: LaterText = None

    @property
    def behind(self) -> int:
        """Return the number of changes that are not published yet."""
        return max(0, self.version - self.published_version)


class RebuildRequest(Value):
    """`POST /v1/graph/rebuild` and `/prove`: read every document of a corpus again, into its graph or to compare."""

    corpus: CorpusName = "default"


class GraphServerHealth(Value):
    """Whether the graph server answers. The decision record fixes the words."""

    status: Literal["healthy", "unhealthy"]
    message: str

    def without_details(self) -> GraphServerHealth:
        """Return the health without the server's address, for callers that may not see it."""
        return self.model_copy(update={"message": "the graph server does not answer"})


class GraphProof(Value):
    """The graph rebuilt from the journal, compared with the incremental one: by `sluice graph rebuild --prove`."""

    corpus: CorpusName
    documents: int
    edges: int
    grown_sha256: str
    rebuilt_sha256: str
    differing: tuple[str, ...] = ()
    """Ids of documents whose edges differ, the first hundred."""

    @property
    def is_equal(self) -> bool:
        """Return whether both are the same graph."""
        return self.grown_sha256 == self.rebuilt_sha256
