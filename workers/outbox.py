"""An event is a ledger row before it is a message: how rows come to be.

Promises: within a run a dedupe key is taken once, and a second event with it is dropped in silence. The caller holds
the run's row, so nobody else inserts into the run meanwhile, and `seq` is the order of commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, bindparam, func, update

from contracts.budget import Spend
from contracts.event import Body, Event, encode
from contracts.index import DocumentIndexed, SnapshotPublished
from workers.reservations import hold, nanousd, today
from workers.schema import AnyRow, events, runs
from workers.upsert import insert_new


@dataclass(frozen=True, slots=True)
class Entry:
    """An event on its way into the ledger, the key by which a second one is dropped, and what it may cost."""

    event: Event
    dedupe_key: str | None = None
    reserve: Spend | None = None


_INDEXED = (
    update(runs)
    .where(runs.c.run_id == bindparam("of_run"), func.coalesce(runs.c.journal_offset, -1) < bindparam("reached"))
    .values(journal_offset=bindparam("reached"))
)
_PUBLISHED = update(runs).where(runs.c.run_id == bindparam("of_run")).values(generation=bindparam("name"))


def write(connection: Connection, run: AnyRow, entries: Sequence[Entry], now: float) -> list[Event]:
    """Insert `entries` in order and reserve what they may cost; the events that were not dropped.

    Raises:
        BudgetExhausted: a reservation does not fit; the transaction must be undone.
    """
    if not entries:
        return []
    inserted = insert_new(connection, events, "id", [_row_of(entry, now) for entry in entries])
    fresh = [entry for entry in entries if entry.event.id in inserted]
    hold(connection, run, [entry.reserve for entry in fresh if entry.reserve], now)
    _note_progress(connection, run.run_id, [entry.event.body for entry in fresh])
    return [entry.event for entry in fresh]


def own_event(run: AnyRow, body: Body, now: float) -> Event:
    """An event that nothing but the ledger causes: it continues the trace of its run."""
    moment = datetime.fromtimestamp(now, UTC)
    return Event.of(body, run_id=run.run_id, corpus=run.corpus, traceparent=run.traceparent, occurred_at=moment)


def _row_of(entry: Entry, now: float) -> dict[str, Any]:
    event, reserve = entry.event, entry.reserve or Spend()
    queue = event.queue
    nano = nanousd(reserve.usd)
    return {
        "id": event.id,
        "run_id": event.run_id,
        "kind": event.kind,
        "queue": queue,
        "status": "ready" if queue else "recorded",
        "due_at": now if queue else None,
        "dedupe_key": entry.dedupe_key,
        "reserve_nanousd": nano,
        "reserve_pages": reserve.pages,
        "reserved_on": today(now) if nano or reserve.pages else None,
        "created_at": now,
        "payload": encode(event).decode(),
    }


def _note_progress(connection: Connection, run_id: str, bodies: Sequence[Body]) -> None:
    for body in bodies:
        if isinstance(body, DocumentIndexed):
            connection.execute(_INDEXED, {"of_run": run_id, "reached": body.journal_offset})
        elif isinstance(body, SnapshotPublished):
            connection.execute(_PUBLISHED, {"of_run": run_id, "name": body.generation})
