"""Reads the graph of a corpus: all of it page by page, in one consistent view, or chosen documents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import bindparam, select, text

from sluice.contracts.gate import GateRequested
from sluice.contracts.graph.model import CitationRow, DocumentRow, Edge, Node, NodeLabel
from sluice.ledger.graph.changes import rows_by_id, standing, totals_of
from sluice.ledger.graph.rows import GraphRow, Standing, StoredEdge, Totals, read_edge
from sluice.ledger.schema.tables import AnyRow, citations, events, graph_documents, graph_edges
from sluice.ledger.transaction import Transaction

DOCUMENTS_AT_ONCE = 200
"""Documents read per page: some megabytes with their edges."""

_DOCUMENT, _EDGE = graph_documents.c, graph_edges.c
_OF_CORPUS = _DOCUMENT.corpus == bindparam("of_corpus")
_AFTER = _DOCUMENT.document_id > bindparam("after")
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
