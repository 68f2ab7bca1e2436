"""Rows of the graph's tables.

The hash of a document's row covers the document's identity and its edges, as the database returns them. The hash of a
corpus is the sum of its rows' hashes modulo 2^256, so it depends on the rows, not on the order in which they came.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sluice.contracts.graph.model import Edge, EdgeType, Node, NodeLabel, Origin
from sluice.ledger.schema.columns import storable

MODULUS = 2**256
EMPTY_SHA256 = "0" * 64
"""The hash of a graph without documents."""


class Identity(NamedTuple):
    """Identity of a document's row: where it is unchanged, the edges are up to date."""

    content_sha256: str
    facts_sha256: str
    """Hash of the other inputs of the edges: the inspection's verdicts, the language, the metadata."""
    parser_version: str
    path: str | None = None
    url: str | None = None
    title: str | None = None
    embedding_version: str | None = None
    """The embedding model of the corpus's vectors. No edge depends on it."""


class GraphRow(NamedTuple):
    """A document with the edges made from its text."""

    document_id: str
    identity: Identity
    edges: tuple[Edge, ...]


class Standing(NamedTuple):
    """The graph's state of a document. A tombstone marks one that left the index: its identity is empty."""

    document_id: str
    as_of: int
    """The journal offset of the index that it was read from."""
    is_tombstone: bool
    identity: Identity
    edges: int
    sha256: str


class Totals(NamedTuple):
    """The sums over a corpus. `version` counts the changes of documents; `as_of` is the highest offset read."""

    version: int = 0
    sha256: str = EMPTY_SHA256
    documents: int = 0
    edges: int = 0
    as_of: int = 0


class Written(NamedTuple):
    """Result of a change: counts of documents, and the sums after it."""

    totals: Totals
    replaced: int = 0
    """Rows that changed; `totals.version` grew by these and by `removed`."""
    removed: int = 0
    unchanged: int = 0
    outdated: int = 0
    """Rows left alone: the graph has them at a later offset."""
    contested: tuple[str, ...] = ()
    """Documents of `keep` whose identity differs now: the caller must read them anew."""


class StoredEdge(NamedTuple):
    """An edge in its columns; a key of None is that of the owning document."""

    type: str
    source_label: str
    source_key: str | None
    target_label: str
    target_key: str | None
    origin: str
    lines: str
    detail: str


def row_sha256(row: GraphRow) -> str:
    """Return the hash of a document's row. It covers neither the parser's version nor the embedding's."""
    known = row.identity
    told = [row.document_id, known.content_sha256, known.path, known.url, known.title]
    edges = sorted(stored_edges(row), key=lambda edge: tuple(part or "" for part in edge))
    clean = [None if part is None else storable(part) for part in told]
    return hashlib.sha256(json.dumps([clean, edges], separators=(",", ":")).encode()).hexdigest()


def sum_sha256(hashes: Iterable[str], start: str = EMPTY_SHA256) -> str:
    """Return the sum of hashes modulo 2^256, in hexadecimal."""
    return f"{sum((int(one, 16) for one in hashes), int(start, 16)) % MODULUS:064x}"


def difference(total: str, sha256: str) -> str:
    """Subtract one hash from a sum of hashes."""
    return f"{(int(total, 16) - int(sha256, 16)) % MODULUS:064x}"


def stored_edges(row: GraphRow) -> list[StoredEdge]:
    """Return the edges of a row as stored in columns, in their order."""
    return [_stored(edge, row.document_id) for edge in row.edges]


def read_edge(stored: Sequence[Any], owner: Node) -> Edge:
    """Decode an edge from columns in the order of `StoredEdge`. `owner` is the node of the owning document."""
    kind, source_label, source_key, target_label, target_key, origin, lines, detail = stored
    return Edge(
        _TYPES[kind],
        owner if source_key is None else Node(_LABELS[source_label], source_key),
        owner if target_key is None else Node(_LABELS[target_label], target_key),
        _ORIGINS[origin],
        tuple(map(int, lines.split(","))) if lines else (),
        detail,
    )


_TYPES = {kind.value: kind for kind in EdgeType}
_LABELS = {label.value: label for label in NodeLabel}
_ORIGINS = {origin.value: origin for origin in Origin}


def _stored(edge: Edge, document_id: str) -> StoredEdge:
    own = Node(NodeLabel.DOCUMENT, document_id)
    return StoredEdge(
        edge.type.value,
        edge.source.label.value,
        None if edge.source == own else storable(edge.source.key),
        edge.target.label.value,
        None if edge.target == own else storable(edge.target.key),
        edge.origin.value,
        ",".join(map(str, edge.lines)),
        storable(edge.detail),
    )
