"""The graph of each corpus in one ledger: the edges that its documents state, and the sums over them.

A change locks the corpus's row first, so changes of one corpus are serialised. A reading of the index at an earlier
offset than a row's never changes that row: so handlers may run twice, late, or side by side. Where a document leaves
the index a tombstone stays, with its id alone, for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import bindparam, delete, insert, literal_column, select

from sluice.contracts.graph.model import DocumentRow
from sluice.ledger.database import LedgerPart
from sluice.ledger.graph.reading import (
    EMPTY_SHA256,
    FullRow,
    GraphRow,
    Identity,
    Snapshot,
    Standing,
    Totals,
    Written,
    difference,
    row_sha256,
    rows_by_id,
    rows_of,
    standing,
    stored_edges,
    sum_sha256,
    totals_in,
    totals_of,
)
from sluice.ledger.schema.tables import IS_OPEN, AnyRow, events, graph_corpora, graph_documents, graph_edges, runs
from sluice.ledger.transaction import Transaction

_WORK = (
    select(events.c.id)
    .join(runs, runs.c.run_id == events.c.run_id)
    .where(
        IS_OPEN,
        events.c.status == bindparam("as_status"),
        events.c.queue == literal_column("'graph'"),
        runs.c.corpus == bindparam("of_corpus"),
        events.c.id != bindparam("beside"),
    )
    .limit(1)
)


_CORPUS, _DOCUMENT = graph_corpora.c, graph_documents.c
_OF_CORPUS = _DOCUMENT.corpus == bindparam("of_corpus")
_TAKE = select(graph_corpora).where(_CORPUS.corpus == bindparam("of_corpus")).with_for_update()
_INSERT = insert(graph_documents).returning(graph_documents.c.number)
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


class Graphs(LedgerPart):
    """The rows of every corpus's graph. Every method is one transaction and may raise `Unavailable`."""

    def carry_out(self, corpus: str, change: Change) -> Written:
        """Apply the state of an index at an offset; rows of a later offset stay as they are."""
        with self._database.writing() as connection:
            writing = _Writing(connection, corpus, change, self._clock())
            for row in change.replace:
                writing.replace(row)
            for document_id, identity in change.keep.items():
                writing.keep(document_id, identity)
            for document_id in change.remove:
                writing.remove(document_id)
            return writing.finish()

    def remove(self, corpus: str, document_ids: Sequence[str], as_of: int) -> Written:
        """Remove these documents, as of the journal offset `as_of`."""
        return self.carry_out(corpus, Change(as_of, remove=document_ids))

    def forget_versions(self, corpus: str) -> None:
        """Mark every document of a corpus to be read anew, from an index of any offset."""
        with self._database.writing() as connection:
            totals = _take(connection, corpus)._replace(as_of=0)
            connection.update(graph_documents, {"corpus": corpus}, {"parser_version": "", "as_of": 0})
            connection.execute(_DROP_TOMBSTONES, {"of_corpus": corpus, "before": self._clock() + 1})
            connection.update(graph_corpora, {"corpus": corpus}, totals._asdict())

    def drop_tombstones(self, corpus: str, before: float) -> int:
        """Remove tombstones set before that moment (seconds since the epoch); return how many."""
        with self._database.writing() as connection:
            return connection.execute(_DROP_TOMBSTONES, {"of_corpus": corpus, "before": before}).rowcount

    def standing(self, corpus: str, document_ids: Sequence[str]) -> dict[str, Standing]:
        """Return the graph's state of these documents, tombstones included."""
        with self._database.reading() as connection:
            return {name: standing(row) for name, row in rows_by_id(connection, corpus, document_ids).items()}

    def rows_of(self, corpus: str, document_ids: Sequence[str]) -> list[FullRow]:
        """Return these documents with their state and edges, tombstones included."""
        with self._database.reading() as connection:
            return list(rows_of(connection, corpus, document_ids))

    def totals(self, corpus: str) -> Totals:
        """Return the sums over a corpus; zeros for one without a graph."""
        with self._database.reading() as connection:
            return totals_of(connection, corpus)

    def has_work(self, corpus: str, *, beside: str = "", claimed: bool = True) -> bool:
        """Return whether the corpus has open graph events besides `beside`; `claimed` counts those being handled."""
        states = ("ready", "waiting", "claimed") if claimed else ("ready", "waiting")
        with self._database.reading() as connection:
            asked = ({"of_corpus": corpus, "beside": beside, "as_status": state} for state in states)
            return any(connection.execute(_WORK, one).first() for one in asked)

    @contextmanager
    def snapshot(self, corpus: str) -> Iterator[Snapshot]:
        """Open a consistent view of the whole graph of a corpus, with its sums."""
        with self._database.reading() as connection:
            yield Snapshot(connection, corpus)

    def rows(self, corpus: str) -> Iterator[DocumentRow]:
        """Yield every document with its edges, in the order of ids, from one consistent view."""
        with self.snapshot(corpus) as snapshot:
            yield from snapshot.rows()


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
            self._connection.insert_many(graph_edges, self._new_edges)
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
    return totals_in(connection.execute(_TAKE, {"of_corpus": corpus}).one())
