"""Rows of the graph: all of a corpus page by page, in one consistent view, or of chosen documents.

The hash of a row covers the identity and the edges of its document, as the database returns them. The hash of a corpus
is the sum of the hashes of its rows modulo 2^256, so it depends on the rows, not on the order in which they came.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import bindparam, select, text

from sluice.contracts.gate import GateRequested
from sluice.contracts.graph.model import CitationRow, DocumentRow, Edge, EdgeType, Node, NodeLabel, Origin
from sluice.ledger.schema.tables import AnyRow, citations, events, graph_corpora, graph_documents, graph_edges, storable
from sluice.ledger.transaction import Transaction

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


DOCUMENTS_AT_ONCE = 200
"""Documents read per page: some megabytes with their edges."""

_DOCUMENT, _EDGE = graph_documents.c, graph_edges.c
_OF_CORPUS = _DOCUMENT.corpus == bindparam("of_corpus")
_AFTER = _DOCUMENT.document_id > bindparam("after")
_ONE = select(graph_documents).where(_OF_CORPUS, _DOCUMENT.document_id == bindparam("of_document"))
_EVERY_PAGE = select(graph_documents).where(_OF_CORPUS, _AFTER).order_by(_DOCUMENT.document_id).limit(bindparam("most"))
_STORED = [_EDGE[name] for name in StoredEdge._fields]
_EDGES_OF_ONE = select(*_STORED).where(_EDGE.document == bindparam("of_number")).order_by(_EDGE.ordinal)
_EDGES = (
    select(_EDGE.document, *_STORED)
    .join(graph_documents, _EDGE.document == _DOCUMENT.number)
    .where(_OF_CORPUS, _AFTER, _DOCUMENT.document_id <= bindparam("last"))
    .order_by(_DOCUMENT.document_id, _EDGE.ordinal)
)
_CITED = (
    select(citations.c.document_id, citations.c.run_id)
    .distinct()
    .join(
        graph_documents, (_DOCUMENT.corpus == citations.c.corpus) & (_DOCUMENT.document_id == citations.c.document_id)
    )
    .where(citations.c.corpus == bindparam("of_corpus"), _DOCUMENT.is_tombstone == 0)
    .order_by(citations.c.document_id, citations.c.run_id)
)
_REQUEST = select(events.c.payload).where(events.c.run_id == bindparam("of_run"), events.c.kind == GateRequested.kind)
_ONE_MOMENT = text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")


class FullRow(NamedTuple):
    """A document of the graph: its state, when its row was written (seconds since the epoch), its edges."""

    standing: Standing
    updated_at: float
    edges: tuple[Edge, ...]


def totals_of(connection: Transaction, corpus: str) -> Totals:
    """Return the sums over a corpus; zeros for one without a graph."""
    row = connection.select(graph_corpora, {"corpus": corpus}).first()
    return totals_in(row) if row else Totals()


def totals_in(row: AnyRow) -> Totals:
    """Convert a row of `graph_corpora`."""
    return Totals(*(getattr(row, name) for name in Totals._fields))


def standing(row: AnyRow) -> Standing:
    """Convert a row of `graph_documents`."""
    identity = Identity(*(getattr(row, name) for name in Identity._fields))
    return Standing(row.document_id, row.as_of, bool(row.is_tombstone), identity, row.edges, row.sha256)


def rows_by_id(connection: Transaction, corpus: str, document_ids: Sequence[str]) -> dict[str, AnyRow]:
    """Return these documents' rows of `graph_documents`, by id."""
    asked = [{"of_corpus": corpus, "of_document": one} for one in dict.fromkeys(document_ids)]
    return {row.document_id: row for row in connection.execute_each(_ONE, asked)}


def rows_of(connection: Transaction, corpus: str, document_ids: Sequence[str]) -> Iterator[FullRow]:
    """Yield the documents that have a row; a tombstone has no edges."""
    for row in rows_by_id(connection, corpus, document_ids).values():
        owner = Node(NodeLabel.DOCUMENT, row.document_id)
        edges = () if row.is_tombstone else connection.execute(_EDGES_OF_ONE, {"of_number": row.number}).all()
        yield FullRow(standing(row), row.updated_at, tuple(read_edge(edge, owner) for edge in edges))


class Snapshot:
    """The graph of one corpus as it was when the snapshot was made, for as long as its transaction lasts."""

    def __init__(self, connection: Transaction, corpus: str) -> None:
        """`connection` must not have read anything yet."""
        self._connection = connection
        self._corpus = corpus
        if connection.dialect == "postgresql":  # SQLite reads one snapshot by itself
            connection.execute(_ONE_MOMENT)
        self.totals: Totals = totals_of(connection, corpus)

    def rows(self) -> Iterator[DocumentRow]:
        """Yield every document with its edges, in the order of ids."""
        for row, edges in self._documents():
            yield DocumentRow(row.document_id, row.path, row.url, row.title, edges)

    def full_rows(self) -> Iterator[GraphRow]:
        """Yield every document with its edges and its identity, in the order of ids."""
        for row, edges in self._documents():
            yield GraphRow(row.document_id, standing(row).identity, edges)

    def standing(self) -> Iterator[Standing]:
        """Yield the graph's state of every document, tombstones included, in the order of ids."""
        for page in self._pages():
            yield from map(standing, page)

    def updated_at(self) -> Iterator[tuple[str, float]]:
        """Yield when the row of each document was last written, in seconds since 1970."""
        for page in self._pages():
            yield from ((row.document_id, row.updated_at) for row in page if not row.is_tombstone)

    def citations(self) -> Iterator[CitationRow]:
        """Yield each document with a conversation that cites it, each pair once, in the order of the ids."""
        pairs = self._connection.execute(_CITED, {"of_corpus": self._corpus}).all()
        names = {run_id: self._conversation(run_id) for run_id in dict.fromkeys(row.run_id for row in pairs)}
        for document_id, conversation in dict.fromkeys((row.document_id, names[row.run_id]) for row in pairs):
            yield CitationRow(document_id, conversation)

    def _documents(self) -> Iterator[tuple[AnyRow, tuple[Edge, ...]]]:
        after = ""
        for page in self._pages():
            edges = self._edges_between(after, page[-1].document_id)
            after = page[-1].document_id
            for row in page:
                if not row.is_tombstone:
                    owner = Node(NodeLabel.DOCUMENT, row.document_id)
                    yield row, tuple([read_edge(edge, owner) for edge in edges.get(row.number, ())])

    def _conversation(self, run_id: str) -> str:
        """Return the session that a run belongs to; the run's own id where it names none."""
        payload = self._connection.execute(_REQUEST, {"of_run": run_id}).scalar()
        if payload is None or '"session_id"' not in payload:
            return run_id
        return str(json.loads(payload)["body"].get("session_id") or run_id)

    def _pages(self) -> Iterator[list[AnyRow]]:
        after = ""
        while True:
            asked = {"of_corpus": self._corpus, "after": after, "most": DOCUMENTS_AT_ONCE}
            page = self._connection.execute(_EVERY_PAGE, asked).all()
            if page:
                yield page
                after = page[-1].document_id
            if len(page) < DOCUMENTS_AT_ONCE:
                return

    def _edges_between(self, after: str, last: str) -> dict[int, list[Any]]:
        """Return the edges of the documents after the id `after`, up to `last`, by document number."""
        asked = {"of_corpus": self._corpus, "after": after, "last": last}
        found = self._connection.execute(_EDGES, asked).all()
        return {number: [row[1:] for row in rows] for number, rows in groupby(found, key=itemgetter(0))}
