"""Reads chosen documents of a graph with all that is known of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import bindparam, select

from sluice.contracts.graph.model import Edge, Node, NodeLabel
from sluice.ledger.graph.changes import rows_by_id, standing
from sluice.ledger.graph.rows import Standing, StoredEdge, read_edge
from sluice.ledger.schema.graph_tables import graph_edges
from sluice.ledger.transaction import Transaction

_EDGES = (
    select(*(graph_edges.c[name] for name in StoredEdge._fields))
    .where(graph_edges.c.document == bindparam("of_number"))
    .order_by(graph_edges.c.ordinal)
)


class FullRow(NamedTuple):
    """A document of the graph: what is known of it, when its row was written (seconds since the epoch), its edges."""

    standing: Standing
    updated_at: float
    edges: tuple[Edge, ...]


def rows_of(connection: Transaction, corpus: str, document_ids: Sequence[str]) -> Iterator[FullRow]:
    """Those of the documents that have a row; a tombstone has no edges."""
    for row in rows_by_id(connection, corpus, document_ids).values():
        owner = Node(NodeLabel.DOCUMENT, row.document_id)
        edges = () if row.is_tombstone else connection.execute(_EDGES, {"of_number": row.number}).all()
        yield FullRow(standing(row), row.updated_at, tuple(read_edge(StoredEdge(*edge), owner) for edge in edges))
