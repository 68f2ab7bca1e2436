"""The graph of each corpus in one ledger: the edges that its documents state, and the sums over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import bindparam, literal_column, select

from sluice.contracts.graph.model import DocumentRow
from sluice.ledger.database import LedgerPart
from sluice.ledger.graph import changes
from sluice.ledger.graph.changes import Change
from sluice.ledger.graph.reading import FullRow, Snapshot, rows_of
from sluice.ledger.graph.rows import Standing, Totals, Written
from sluice.ledger.schema.tables import IS_OPEN, events, runs

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


class Graphs(LedgerPart):
    """The rows of every corpus's graph. Every method is one transaction and may raise `Unavailable`."""

    def carry_out(self, corpus: str, change: Change) -> Written:
        """Apply the state of an index at an offset; rows of a later offset stay as they are."""
        with self._database.writing() as connection:
            return changes.carry_out(connection, corpus, change, self._clock())

    def remove(self, corpus: str, document_ids: Sequence[str], as_of: int) -> Written:
        """Remove these documents, as of the journal offset `as_of`."""
        return self.carry_out(corpus, Change(as_of, remove=document_ids))

    def forget_versions(self, corpus: str) -> None:
        """Mark every document of a corpus to be read anew, from an index of any offset."""
        with self._database.writing() as connection:
            changes.forget_versions(connection, corpus, self._clock())

    def drop_tombstones(self, corpus: str, before: float) -> int:
        """Remove tombstones set before that moment (seconds since the epoch); return how many."""
        with self._database.writing() as connection:
            return changes.drop_tombstones(connection, corpus, before)

    def standing(self, corpus: str, document_ids: Sequence[str]) -> dict[str, Standing]:
        """Return the graph's state of these documents, tombstones included."""
        with self._database.reading() as connection:
            return changes.standing_of(connection, corpus, document_ids)

    def rows_of(self, corpus: str, document_ids: Sequence[str]) -> list[FullRow]:
        """Return these documents with their state and edges, tombstones included."""
        with self._database.reading() as connection:
            return list(rows_of(connection, corpus, document_ids))

    def totals(self, corpus: str) -> Totals:
        """Return the sums over a corpus; zeros for one without a graph."""
        with self._database.reading() as connection:
            return changes.totals_of(connection, corpus)

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
