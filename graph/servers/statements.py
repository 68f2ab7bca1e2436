"""The statements for graph servers, from `statements.toml`, and the rows of data that they take.

Labels, types and properties are those of `graph.schema`, so that a Cypher query means the same to a server and to the
engine's file: a node is known by `(corpus, id)`, where `id` is `Node.key`. An edge also has the document that made it
(`owner`), so a document's edges can be deleted. Two more labels serve the feeding alone: `RemovedDocument` keeps the
id of a document that left, with the journal offset (`as_of`) of its leaving, so that a late write does not bring it
back; `GraphFeed` records the last change fed of a corpus.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple, get_args

from sluice.contracts.graph.model import Edge, EdgeType, Node, NodeLabel
from sluice.graph.schema import EDGE_ENDS, named

REMOVED = "RemovedDocument"
NAMED = (NodeLabel.SYMBOL, NodeLabel.URL, NodeLabel.TOOL, NodeLabel.CONVERSATION)
"""Labels of nodes that stand for a name: they live while an edge touches them."""
BETWEEN_SYMBOLS = (EdgeType.ALIAS_OF, EdgeType.INHERITS, EdgeType.HAS_TYPE)
"""Edges that do not touch their owner: the index of `owner` finds them."""
VECTOR_INDEX = "document_embedding"
DialectName = Literal["neo4j", "memgraph"]


class EdgeKind(NamedTuple):
    """An edge's type with the labels that it connects; statements cannot take these as parameters."""

    type: EdgeType
    source: NodeLabel
    target: NodeLabel


EDGE_KINDS = tuple(EdgeKind(kind, *ends) for kind, pairs in EDGE_ENDS.items() for ends in pairs)


class Dialect(NamedTuple):
    """The statements of one kind of server."""

    name: DialectName
    schema: tuple[str, ...]
    """Constraints and indexes without the vectors'; each may exist already."""
    vector_index: tuple[str, ...]
    """Statements that create it, with `<dimension>`; the first that the server accepts counts."""
    vector_index_info: str
    delete_orphans: Mapping[NodeLabel, str]
    nearest: str
    nearest_exactly: str


def dialect_of(agent: str) -> Dialect:
    """Return the dialect of a server by its agent: `Neo4j/5.26.0`, or `Neo4j/v5.11.0 compatible … - Memgraph`."""
    return dialects()["memgraph" if "memgraph" in agent.lower() else "neo4j"]


@cache
def dialects() -> dict[DialectName, Dialect]:
    """Return the dialects by their names."""
    return {name: _dialect(name, _texts()[name]) for name in get_args(DialectName)}


def _dialect(name: DialectName, texts: Mapping[str, Any]) -> Dialect:
    labels = [_filled(text, name=one.lower(), label=one) for text in texts["of_each_label"] for one in _ALL_LABELS]
    edges = [_filled(texts["of_each_edge"], name=one.lower(), type=one) for one in BETWEEN_SYMBOLS]
    orphans = {one: _filled(statement("delete_orphans"), label=one, untouched=texts["untouched"]) for one in NAMED}
    shared = {key: texts[key].strip() for key in ("vector_index_info", "nearest", "nearest_exactly")}
    return Dialect(
        name, (*labels, texts["of_feed"], *edges), tuple(texts["vector_index"]), delete_orphans=orphans, **shared
    )


_ALL_LABELS = (*NodeLabel, REMOVED)


def statement(name: str) -> str:
    """Return a statement for every server."""
    return str(_texts()[name])


def statements(name: str) -> tuple[str, ...]:
    """Return statements that belong together."""
    return tuple(_texts()[name])


@cache
def delete_edges() -> tuple[str, ...]:
    """Return the statements that delete documents' edges: first those at the documents, then those between symbols."""
    between = (_filled(statement("delete_edges_between_symbols"), type=one) for one in BETWEEN_SYMBOLS)
    return (statement("delete_own_edges"), *between)


@cache
def create_edges() -> dict[EdgeKind, str]:
    """Return the statement for each kind of edge.

    Documents already exist and are matched first, as Cypher has no MATCH behind a MERGE; names are made.
    """
    made: dict[EdgeKind, str] = {}
    for kind in EDGE_KINDS:
        ends = [_end("a", kind.source, "source"), _end("b", kind.target, "target")]
        first, second = reversed(ends) if kind.target is NodeLabel.DOCUMENT else ends
        made[kind] = _filled(statement("create_edges"), first=first, second=second, type=kind.type)
    return made


def _end(variable: str, label: NodeLabel, field: str) -> str:
    node = f"({variable}:{label} {{corpus: $corpus, id: row.{field}}})"
    if label is NodeLabel.DOCUMENT:
        return f"MATCH {node}"
    return f"MERGE {node} ON CREATE SET {variable} += row.{field}_named"


def _filled(text: str, **words: str) -> str:
    return re.sub(r"<(\w+)>", lambda at: words[at[1]], text)


@cache
def _texts() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("statements.toml").read_text("utf-8"))


class Feed(NamedTuple):
    """The state of a corpus on the server: the ledger's count of changes, its hash of the graph, the vectors' model."""

    version: int
    sha256: str
    embedding_version: str | None = None
    citations_sha256: str | None = None
    """Hash of the citations, which the graph's hash does not cover."""
    dimension: int | None = None
    """Dimension of the server's vector index."""


class Fed(NamedTuple):
    """Result of feeding documents."""

    stored: int = 0
    removed: int = 0
    outdated: tuple[str, ...] = ()
    """Ids of the documents that the server holds as of a later offset."""

    def plus(self, other: Fed) -> Fed:
        """Return the sum of both."""
        return Fed(self.stored + other.stored, self.removed + other.removed, self.outdated + other.outdated)


class ServerDocument(NamedTuple):
    """A document for a graph server."""

    document_id: str
    as_of: int
    """The journal offset of the index from which it was read."""
    sha256: str
    """Hash of its row in the ledger: equal rows are not fed again."""
    path: str | None
    url: str | None
    title: str | None
    language: str | None
    content_hash: str
    updated_at: str
    """Time at which its row was written, in ISO 8601 and UTC."""
    edges: tuple[Edge, ...]
    embedding_version: str | None = None
    """The model of `embedding`."""
    embedding: tuple[float, ...] | None = None
    """Scaled to length 1."""


def document_row(corpus: str, document: ServerDocument) -> dict[str, Any]:
    """Return a document as a row of `merge_documents`."""
    properties = {
        "corpus": corpus,
        "id": document.document_id,
        "as_of": document.as_of,
        "sha256": document.sha256,
        "path": document.path,
        "url": document.url,
        "title": document.title,
        "language": document.language,
        "updated_at": document.updated_at,
        "content_hash": document.content_hash,
        "embedding_version": document.embedding_version,
        "embedding": list(document.embedding) if document.embedding else None,
    }
    return {
        "id": document.document_id,
        "as_of": document.as_of,
        "properties": {name: value for name, value in properties.items() if value is not None},
    }


def edge_row(corpus: str, owner: str, edge: Edge) -> dict[str, Any]:
    """Return an edge as a row of `create_edges`."""
    properties = {
        "corpus": corpus,
        "owner": owner,
        "origin": edge.origin.value,
        "lines": list(edge.lines),
        "detail": edge.detail,
        **({"line": edge.lines[0]} if edge.lines else {}),
    }
    return {**ends(edge.source, edge.target), "properties": properties}


def ends(source: Node, target: Node) -> dict[str, Any]:
    """Return the ids of the two ends, and the properties in their keys."""
    return {"source": source.key, "target": target.key, "source_named": named(source), "target_named": named(target)}
