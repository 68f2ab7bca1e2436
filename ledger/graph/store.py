"""The graph of each corpus in one ledger: what its documents state, and how the whole stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import bindparam, literal_column, select

from sluice.contracts.graph.model import DocumentRow
from sluice.ledger.database import LedgerPart
from sluice.ledger.graph import changes
from sluice.ledger.graph.changes import Change
from sluice.ledger.graph.reading import FullRow, Snapshot, rows_of
from sluice.ledger.graph.rows import GraphRow, Standing, Totals, Written
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
        """Make the rows say what an index says as of an offset; rows of a later offset stay as they are."""
        with self._database.writing() as connection:
            return changes.carry_out(connection, corpus, change, self._clock())

    def replace(self, corpus: str, documents: Sequence[GraphRow], as_of: int) -> Written:
        """Let these documents be as they were read at the journal offset `as_of`."""
        return self.carry_out(corpus, Change(as_of, replace=documents))

    def remove(self, corpus: str, document_ids: Sequence[str], as_of: int) -> Written:
        """Let these documents be gone as of the journal offset `as_of`."""
        return self.carry_out(corpus, Change(as_of, remove=document_ids))

    def forget_versions(self, corpus: str) -> None:
        """Make every document of a corpus one that is to be read anew, as of whatever offset."""
        with self._database.writing() as connection:
            changes.forget_versions(connection, corpus, self._clock())

    def drop_tombstones(self, corpus: str, before: float) -> int:
        """Remove tombstones that were set before that moment (seconds since the epoch); how many."""
        with self._database.writing() as connection:
            return changes.drop_tombstones(connection, corpus, before)

    def standing(self, corpus: str, document_ids: Sequence[str]) -> dict[str, Standing]:
        """What the graph has of these documents, tombstones too."""
        with self._database.reading() as connection:
            return changes.standing_of(connection, corpus, document_ids)

    def rows_of(self, corpus: str, document_ids: Sequence[str]) -> list[FullRow]:
        """These documents with their edges and all that is known of them; tombstones too."""
        with self._database.reading() as connection:
            return list(rows_of(connection, corpus, document_ids))

    def totals(self, corpus: str) -> Totals:
        """The sums over a corpus; noughts for one that has no graph."""
        with self._database.reading() as connection:
            return changes.totals_of(connection, corpus)

    def has_work(self, corpus: str, *, beside: str = "", claimed: bool = True) -> bool:
        """Whether the stage graph has an open event of the corpus, but for the event `beside`.

        `claimed`: those that are handled now count as well.
        """
        states = ("ready", "waiting", "claimed") if claimed else ("ready", "waiting")
        with self._database.reading() as connection:
            asked = ({"of_corpus": corpus, "beside": beside, "as_status": state} for state in states)
            return any(connection.execute(_WORK, one).first() for one in asked)

    @contextmanager
    def snapshot(self, corpus: str) -> Iterator[Snapshot]:
        """The whole graph of a corpus as it is now, with its sums, however it changes meanwhile."""
        with self._database.reading() as connection:
            yield Snapshot(connection, corpus)

    def rows(self, corpus: str) -> Iterator[DocumentRow]:
        """Every document with its edges, in the order of ids, as of one moment."""
        with self.snapshot(corpus) as snapshot:
            yield from snapshot.rows()
