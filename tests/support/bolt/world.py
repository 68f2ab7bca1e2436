"""A graph server for tests: a fake one over real sockets, or the one that SLUICE_TEST_NEO4J_URI names."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import SecretStr

from sluice.contracts.graph.model import Edge, EdgeType, Node, NodeLabel, Origin, document_node, symbol, unknown
from sluice.graph.servers.server import GraphServer
from sluice.graph.servers.statements import DialectName, ServerDocument
from sluice.graph.settings import GraphSettings
from tests.support.bolt.server import Behaviour, FakeBoltServer
from tests.support.bolt.store import Store, Table, edge_value, node_value

MODEL = "model-a"
NODES = "MATCH (n {corpus: $corpus}) WHERE n.id IS NOT NULL RETURN labels(n)[0] AS label, n.id AS id ORDER BY label, id"
EDGES = (
    "MATCH (a {corpus: $corpus})-[r]->(b) "
    "RETURN type(r) AS type, a.id AS source, b.id AS target, r.owner AS owner ORDER BY type, source, target, owner"
)
WHOLE_NODES = "MATCH (n {corpus: $corpus}) WHERE n.id IS NOT NULL RETURN n"
WHOLE_EDGES = "MATCH ({corpus: $corpus})-[r]->() RETURN r"
LOOK_SECONDS = 5.0


@dataclass
class World:
    """A server with two corpora of this test alone."""

    settings: GraphSettings
    fake: FakeBoltServer | None = None
    corpus: str = field(default_factory=lambda: f"c{uuid.uuid4().hex[:8]}")
    other: str = field(default_factory=lambda: f"c{uuid.uuid4().hex[:8]}")

    def __post_init__(self) -> None:
        self.server = GraphServer(self.settings, allow)

    def nodes(self, corpus: str | None = None) -> set[tuple[str, str]]:
        rows = self.server.query(NODES, {"corpus": corpus or self.corpus}, 1_000, LOOK_SECONDS).rows
        return {(row[0], row[1]) for row in rows if row[0] != "RemovedDocument"}

    def edges(self, corpus: str | None = None) -> list[tuple[Any, ...]]:
        return sorted(self.server.query(EDGES, {"corpus": corpus or self.corpus}, 1_000, LOOK_SECONDS).rows)


def settings(url: str, *, user: str = "neo4j", password: str = "right", timeout_seconds: float = 5.0) -> GraphSettings:
    return GraphSettings(url=url, user=user, password=SecretStr(password), timeout_seconds=timeout_seconds)


def allow(host: str, port: int) -> None:
    """Rules of egress that let everything out."""


def fake_server(kind: DialectName = "neo4j", **told: Any) -> FakeBoltServer:
    agents = {"neo4j": "Neo4j/5.26.0", "memgraph": "Neo4j/v5.11.0 compatible graph database server - Memgraph"}
    behaviour = {name: told.pop(name) for name in list(told) if name in Behaviour.__dataclass_fields__}
    store = Store(kind, **told)
    store.extra[NODES] = lambda given: Table(("label", "id"), [[n[0], n[2]] for n in _of(store, given) if n[2]])
    store.extra[EDGES] = lambda given: Table(
        ("type", "source", "target", "owner"), [list(edge) for edge in store.edges(given["corpus"])]
    )
    store.extra[WHOLE_NODES] = lambda given: Table(
        ("n",), [[node_value(key[0], store.content.nodes[key])] for key in _of(store, given) if key[2]]
    )
    store.extra[WHOLE_EDGES] = lambda given: Table(
        ("r",),
        [
            [edge_value(edge.type, edge.properties)]
            for edge in store.content.edges.values()
            if edge.properties["corpus"] == given["corpus"]
        ],
    )
    return FakeBoltServer(store, Behaviour(**{"agent": agents[kind], **behaviour}))


@contextlib.contextmanager
def connected(fake: FakeBoltServer, **told: Any) -> Iterator[World]:
    with fake.serving():
        world = World(settings(fake.url, **told), fake)
        try:
            yield world
        finally:
            world.server.close()


@contextlib.contextmanager
def real_server() -> Iterator[World]:
    url = os.environ.get("SLUICE_TEST_NEO4J_URI")
    if not url:
        pytest.skip("no real server: set SLUICE_TEST_NEO4J_URI (and …_USER, …_PASSWORD) to run this against one")
    user = os.environ.get("SLUICE_TEST_NEO4J_USER", "neo4j")
    password = os.environ.get("SLUICE_TEST_NEO4J_PASSWORD", "")
    world = World(settings(url, user=user, password=password, timeout_seconds=30.0))
    try:
        yield world
    finally:
        for corpus in (world.corpus, world.other):
            world.server.drop_corpus(corpus)
        world.server.close()


def document(
    name: str, as_of: int = 1, *edges: Edge, vector: tuple[float, ...] | None = None, **told: Any
) -> ServerDocument:
    """A document whose row's hash follows from what it holds."""
    made = ServerDocument(
        document_id=name,
        as_of=as_of,
        sha256=f"{name}:{len(edges)}",
        path=f"{name}.py",
        url=None,
        title=None,
        language="python",
        content_hash=f"hash of {name}",
        updated_at="2026-02-01T12:00:00+00:00",
        edges=edges,
        embedding_version=MODEL if vector else None,
        embedding=vector,
    )
    return made._replace(**told)


def defines(owner: str, name: str) -> tuple[Edge, Edge]:
    """The edges of a document that defines `name`: by its whole name, and by its last part."""
    own = document_node(owner)
    return (
        Edge(EdgeType.DEFINED_IN, symbol("python", f"{owner}.{name}"), own, Origin.DEFINITION, (1, 3), "function"),
        Edge(EdgeType.DEFINED_IN, unknown("python", name), own, Origin.DEFINITION, (1, 3), "function"),
    )


def refers(owner: str, name: str) -> Edge:
    return Edge(EdgeType.REFERS_TO, document_node(owner), symbol("python", name), Origin.IMPORT, (2,))


def alias(name: str, meaning: str) -> Edge:
    return Edge(EdgeType.ALIAS_OF, symbol("python", name), symbol("python", meaning), Origin.IMPORT, (1,))


def links(owner: str, address: str) -> Edge:
    return Edge(EdgeType.LINKS_TO, document_node(owner), Node(NodeLabel.URL, address), Origin.LINK, (1,), "text")


def _of(store: Store, given: dict[str, Any]) -> list[tuple[str, str, str]]:
    return sorted(key for key in store.content.nodes if key[1] == given["corpus"])
