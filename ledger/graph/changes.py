"""Applies changes to the graph, together with the sums over the corpus, in the caller's transaction.

The corpus's row is locked first, so changes of one corpus are serialised. A reading of the index at an earlier
offset than a row's never changes that row: so handlers may run twice, late, or side by side. Where a
document leaves the index a tombstone stays, with its id alone, for the same reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import bindparam, delete, insert, select

from sluice.ledger.graph.rows import (
    EMPTY_SHA256,
    GraphRow,
    Identity,
    Standing,
    Totals,
    Written,
    difference,
    row_sha256,
    stored_edges,
    sum_sha256,
)
from sluice.ledger.schema.tables import AnyRow, graph_corpora, graph_documents, graph_edges
from sluice.ledger.transaction import Transaction

_CORPUS, _DOCUMENT = graph_corpora.c, graph_documents.c
_OF_CORPUS = _DOCUMENT.corpus == bindparam("of_corpus")
_TAKE = select(graph_corpora).where(_CORPUS.corpus == bindparam("of_corpus")).with_for_update()
_ONE = select(graph_documents).where(_OF_CORPUS, _DOCUMENT.document_id == bindparam("of_document"))
_INSERT = insert(graph_documents).returning(graph_documents.c.number)
_INSERT_EDGES = insert(graph_edges)
_DROP_TOMBSTONES = delete(graph_documents).where(
    _OF_CORPUS, _DOCUMENT.is_tombstone == 1, _DOCUMENT.updated_at < bindparam("before")
)
NO_IDENTITY = Identity("", "", "")


@dataclass(frozen=True, slots=True)
class Change:
    """Changes to documents, read from the index at the journal offset `as_of`."""

    as_of: int
    replace: Sequence[GraphRow] = ()
    keep: Mapping[str, Identity] = field(default_factory=dict)
    """Documents that the graph was seen to hold with this identity, by id."""
    remove: Sequence[str] = ()


def totals_of(connection: Transaction, corpus: str) -> Totals:
    """Return the sums over a corpus; zeros for one without a graph."""
    row = connection.select(graph_corpora, {"corpus": corpus}).first()
    return _totals(row) if row else Totals()


def standing_of(connection: Transaction, corpus: str, document_ids: Sequence[str]) -> dict[str, Standing]:
    """Return the graph's state of these documents, tombstones included."""
    return {name: standing(row) for name, row in rows_by_id(connection, corpus, document_ids).items()}


def standing(row: AnyRow) -> Standing:
    """Convert a row of `graph_documents`."""
    identity = Identity(*(getattr(row, name) for name in Identity._fields))
    return Standing(row.document_id, row.as_of, bool(row.is_tombstone), identity, row.edges, row.sha256)


def rows_by_id(connection: Transaction, corpus: str, document_ids: Sequence[str]) -> dict[str, AnyRow]:
    """Return these documents' rows of `graph_documents`, by id."""
    asked = [{"of_corpus": corpus, "of_document": one} for one in dict.fromkeys(document_ids)]
    return {row.document_id: row for row in connection.execute_each(_ONE, asked)}


def carry_out(connection: Transaction, corpus: str, change: Change, now: float) -> Written:
    """Apply a change to the rows whose offset is not later."""
    writing = _Writing(connection, corpus, change, now)
    for row in change.replace:
        writing.replace(row)
    for document_id, identity in change.keep.items():
        writing.keep(document_id, identity)
    for document_id in change.remove:
        writing.remove(document_id)
    return writing.finish()


def forget_versions(connection: Transaction, corpus: str, now: float) -> None:
    """Mark every document of a corpus to be read anew, from an index of any offset."""
    _take(connection, corpus)
    connection.update(graph_documents, {"corpus": corpus}, {"parser_version": "", "as_of": 0})
    drop_tombstones(connection, corpus, now + 1)
    totals = totals_of(connection, corpus)._replace(as_of=0)
    connection.update(graph_corpora, {"corpus": corpus}, totals._asdict())


def drop_tombstones(connection: Transaction, corpus: str, before: float) -> int:
    """Remove tombstones set before that moment (seconds since the epoch); return how many."""
    return connection.execute(_DROP_TOMBSTONES, {"of_corpus": corpus, "before": before}).rowcount


class _Writing:
    """One change of one corpus, with the corpus's row locked."""

    def __init__(self, connection: Transaction, corpus: str, change: Change, now: float) -> None:
        self._connection, self._corpus, self._as_of, self._now = connection, corpus, change.as_of, now
        self._before = _take(connection, corpus)
        ids = (*(row.document_id for row in change.replace), *change.keep, *change.remove)
        self._rows = rows_by_id(connection, corpus, ids)
        self._sha256, self._documents, self._edges = self._before.sha256, self._before.documents, self._before.edges
        self._new_edges: list[dict[str, Any]] = []
        self._counts = {"replaced": 0, "removed": 0, "unchanged": 0, "outdated": 0}
        self._contested: list[str] = []

    def replace(self, row: GraphRow) -> None:
        """Replace the document's row and edges."""
        old, sha256 = self._rows.get(row.document_id), row_sha256(row)
        if self._is_later(old):
            return
        if old is not None and not old.is_tombstone and old.sha256 == sha256:
            self._confirm(old, row.identity)
            return
        edges = stored_edges(row)
        facts = {"is_tombstone": 0, **row.identity._asdict(), "edges": len(edges), "sha256": sha256}
        number = self._store(row.document_id, old, facts)
        self._new_edges += (
            {"document": number, "ordinal": ordinal, **edge._asdict()} for ordinal, edge in enumerate(edges)
        )
        self._sha256 = sum_sha256([sha256], self._sha256)
        self._documents += 1
        self._edges += len(edges)
        self._counts["replaced"] += 1

    def keep(self, document_id: str, identity: Identity) -> None:
        """Confirm the document if its identity is still the expected one; else note it as contested."""
        old = self._rows.get(document_id)
        if self._is_later(old):
            return
        if old is None or standing(old).identity != identity:
            self._contested.append(document_id)
        else:
            self._confirm(old, identity)

    def remove(self, document_id: str) -> None:
        """Replace the document by a tombstone, whether the graph has it or not."""
        old = self._rows.get(document_id)
        if self._is_later(old):
            return
        was_there = old is not None and not old.is_tombstone
        self._store(document_id, old, {"is_tombstone": 1, **NO_IDENTITY._asdict(), "edges": 0, "sha256": ""})
        self._counts["removed" if was_there else "unchanged"] += 1

    def finish(self) -> Written:
        """Insert the new edges and update the sums."""
        if self._new_edges:
            self._connection.insert_many(_INSERT_EDGES, self._new_edges)
        changes = self._counts["replaced"] + self._counts["removed"]
        as_of = max(self._before.as_of, self._as_of)
        totals = Totals(self._before.version + changes, self._sha256, self._documents, self._edges, as_of)
        if totals != self._before:
            self._connection.update(graph_corpora, {"corpus": self._corpus}, totals._asdict())
        return Written(totals, **self._counts, contested=tuple(self._contested))

    def _is_later(self, old: AnyRow | None) -> bool:
        is_later = old is not None and old.as_of > self._as_of
        self._counts["outdated"] += is_later
        return is_later

    def _confirm(self, old: AnyRow, identity: Identity) -> None:
        facts = {"as_of": self._as_of, **identity._asdict()}
        self._connection.update(graph_documents, {"number": old.number}, facts)
        self._counts["unchanged"] += 1

    def _store(self, document_id: str, old: AnyRow | None, facts: Mapping[str, Any]) -> int:
        """Write the document's row, delete its old edges, and return its number."""
        written = {"as_of": self._as_of, "updated_at": self._now, **facts}
        if old is None:
            named = {"corpus": self._corpus, "document_id": document_id, **written}
            return int(self._connection.insert(_INSERT, named).one().number)
        if not old.is_tombstone:
            self._connection.delete(graph_edges, {"document": old.number})
            self._sha256 = difference(self._sha256, old.sha256)
            self._documents -= 1
            self._edges -= old.edges
        self._connection.update(graph_documents, {"number": old.number}, written)
        return int(old.number)


def _take(connection: Transaction, corpus: str) -> Totals:
    connection.insert_once(graph_corpora, {"corpus": corpus, "sha256": EMPTY_SHA256})
    return _totals(connection.execute(_TAKE, {"of_corpus": corpus}).one())


def _totals(row: AnyRow) -> Totals:
    return Totals(*(getattr(row, name) for name in Totals._fields))
