"""The data for a server: documents as rows of its statements, and the record of the last change fed."""

from __future__ import annotations

from typing import Any, NamedTuple

from sluice.contracts.graph.model import Edge, Node
from sluice.graph.schema import named


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
    """Return a document as a row of `MERGE_DOCUMENTS`."""
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
    """Return an edge as a row of `CREATE_EDGES`."""
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
