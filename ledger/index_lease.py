"""The lease `index`: one machine of an instance writes its corpora. And what the ledger knows of them.

Each time that it is taken anew its epoch grows, by which whoever had it before is fenced. Its time-out is counted by
the database's clock alone: no two machines' clocks are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Float, bindparam, cast, func, literal_column, select

from sluice.contracts.errors import Fenced
from sluice.contracts.event import Event, decode
from sluice.contracts.index import DocumentIndexed
from sluice.ledger.database import LedgerPart
from sluice.ledger.events.outbox import note_published
from sluice.ledger.schema.tables import events, leases, published, runs
from sluice.ledger.transaction import Transaction

NAME = "index"
_NOW = {
    "sqlite": select(literal_column("(julianday('now') - 2440587.5) * 86400.0").label("moment")),
    "postgresql": select(cast(func.extract("epoch", func.clock_timestamp()), Float).label("moment")),
}
_LEASE = select(leases).where(leases.c.name == bindparam("of_name"))
_FOR_UPDATE, _FOR_SHARE = _LEASE.with_for_update(), _LEASE.with_for_update(read=True)
_OTHERS = select(leases).where(leases.c.name.startswith("reads:"))
_PUBLISHED = select(published)
_INDEXED = (
    select(events.c.payload)
    .join(runs, runs.c.run_id == events.c.run_id)
    .where(runs.c.corpus == bindparam("of_corpus"), runs.c.journal_offset > bindparam("beyond"))
    .where(events.c.kind == DocumentIndexed.kind)
)
_PAYLOAD = select(events.c.payload).where(events.c.id == bindparam("of_event"))


class Fence(NamedTuple):
    """A holding of the lease: what is written under it is refused once another has taken the lease."""

    holder: str
    epoch: int


class Holding(NamedTuple):
    """The lease as it stands, or what a reading machine told of itself; times by the database's clock."""

    holder: str
    epoch: int
    since: float
    left_seconds: float
    note: str


class Published(NamedTuple):
    """The newest generation of a corpus and the journal offset that it covers; `age_seconds` since it was recorded."""

    generation: str
    journal_offset: int
    age_seconds: float


class IndexLease(LedgerPart):
    """Takes, renews and reads the lease. Every method may raise `Unavailable`; then nothing was written."""

    def take(self, holder: str, seconds: float) -> Fence | None:
        """Take the lease if nobody else has it; return the holding of a new epoch, or None."""
        with self._database.writing() as connection:
            now = _now(connection)
            connection.insert_once(leases, {"name": NAME, "holder": holder, "until": 0.0})
            row = connection.execute(_FOR_UPDATE, {"of_name": NAME}).one()
            if row.until > now and row.holder != holder:
                return None
            told = {"holder": holder, "until": now + seconds, "epoch": row.epoch + 1, "since": now, "note": None}
            connection.update(leases, {"name": NAME}, told)
            return Fence(holder, row.epoch + 1)

    def renew(self, fence: Fence, seconds: float, note: str = "") -> None:
        """Extend the lease. Raises `Fenced` if it was taken anew by anybody."""
        with self._database.writing() as connection:
            key = {"name": NAME, "holder": fence.holder, "epoch": fence.epoch}
            if not connection.update(leases, key, {"until": _now(connection) + seconds, "note": note}):
                raise Fenced(f"the index has another owner than epoch {fence.epoch} of {fence.holder}")

    def give_up(self, fence: Fence) -> None:
        """End the lease before its time."""
        with self._database.writing() as connection:
            connection.update(leases, {"name": NAME, "holder": fence.holder, "epoch": fence.epoch}, {"until": 0.0})

    def owner(self) -> Holding | None:
        """Return the lease, which may have run out; None if nobody ever had it."""
        with self._database.reading() as connection:
            row = connection.execute(_LEASE, {"of_name": NAME}).first()
            return _holding(row, _now(connection)) if row is not None else None

    def tell_reads(self, machine: str, note: str, seconds: float) -> None:
        """Record what a machine that only reads the index serves now, for so long."""
        with self._database.holding() as connection:
            row = {"name": f"reads:{machine}", "holder": machine, "until": _now(connection) + seconds, "note": note}
            connection.put(leases, row, ("name",), ("until", "note"))

    def readers(self) -> list[Holding]:
        """Return what the machines that only read told of themselves lately."""
        with self._database.reading() as connection:
            now = _now(connection)
            return [_holding(row, now) for row in connection.execute(_OTHERS) if row.until > now]

    def published(self) -> dict[str, Published]:
        """Return the newest generation of each corpus."""
        with self._database.reading() as connection:
            now = self._clock()
            rows = connection.execute(_PUBLISHED).all()
        return {row.corpus: Published(row.generation, row.journal_offset, max(0.0, now - row.at)) for row in rows}

    def note_published(self, corpus: str, generation: str, journal_offset: int) -> None:
        """Record a generation that no event published."""
        with self._database.writing() as connection:
            note_published(connection, corpus, generation, journal_offset, self._clock())

    def appended_beyond(self, corpus: str, offset: int) -> Iterator[tuple[int, Event]]:
        """Yield the events that appended to a corpus beyond an offset, each with the offset that it reached, in order.

        They are the causes of `DocumentIndexed`; one whose row is gone is left out.
        """
        with self._database.reading() as connection:
            facts = {"of_corpus": corpus, "beyond": offset}
            indexed = [decode(payload) for payload in connection.execute(_INDEXED, facts).scalars()]
            found = [(event.body_as(DocumentIndexed).journal_offset, event.cause_id or "") for event in indexed]
            causes = [
                (reached, connection.execute(_PAYLOAD, {"of_event": cause}).first())
                for reached, cause in sorted(found)
                if reached > offset
            ]
        yield from ((reached, decode(row.payload)) for reached, row in causes if row is not None)


def check(connection: Transaction, fence: Fence) -> None:
    """Raise `Fenced` unless the lease is held so, and let nobody take it before the transaction ends."""
    row = connection.execute(_FOR_SHARE, {"of_name": NAME}).first()
    if row is None or (row.holder, row.epoch) != fence:
        raise Fenced(f"another machine has become the owner of the index since epoch {fence.epoch}")


def _now(connection: Transaction) -> float:
    return float(connection.execute(_NOW[connection.dialect]).one().moment)


def _holding(row: NamedTuple, now: float) -> Holding:
    facts = row._asdict()
    left = facts["until"] - now
    return Holding(facts["holder"], facts["epoch"], facts["since"] or 0.0, left, facts["note"] or "")
