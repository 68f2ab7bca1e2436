"""Beats: one small write per worker and interval says that the worker lives, however many claims it holds.

Promises: a claim stands while its worker beats, and for the stage's `PATIENCE` after the worker's last beat, but never
beyond the claim's own limit (`due_at`); the beat itself tells the worker which of its claims still stand. A worker
beats before it claims: a claim whose worker has no row here ends at its limit. A row is dropped once its worker has
been silent for long and holds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import and_, bindparam, case, delete, exists, literal_column, select

from sluice.contracts.event import Queue
from sluice.ledger.schema.tables import AnyRow, events, worker_beats
from sluice.ledger.transaction import Transaction

PATIENCE: dict[Queue, float] = {"gate": 1.0, "query": 1.0, "search": 1.0}
"""Leases that a stage waits for a silent worker; `_MOST_PATIENCE` in the others. An agent waits for answers; work on
documents costs more than the wait, where only the network was away."""
_MOST_PATIENCE = 2.0

_IS_CLAIMED = events.c.status == literal_column("'claimed'")
_STANDING = select(events.c.id, events.c.epoch).where(_IS_CLAIMED, events.c.worker == bindparam("of_worker"))
_lease = worker_beats.c.until - worker_beats.c.beat_at
_patience = case(PATIENCE, value=events.c.queue, else_=_MOST_PATIENCE)
_OF_SILENT = (
    select(events, worker_beats.c.beat_at)
    .join(worker_beats, events.c.worker == worker_beats.c.worker)
    .where(_IS_CLAIMED, worker_beats.c.until <= bindparam("moment"))
    .where(worker_beats.c.beat_at + _lease * _patience <= bindparam("moment"))
    .order_by(worker_beats.c.until)
    .limit(bindparam("most"))
)
_IS_GONE = and_(
    worker_beats.c.until <= bindparam("moment"),
    worker_beats.c.beat_at + _lease * _MOST_PATIENCE <= bindparam("moment"),
    ~exists().where(_IS_CLAIMED, events.c.worker == worker_beats.c.worker),
)
_ANY_GONE, _DROP = select(worker_beats.c.worker).where(_IS_GONE).limit(1), delete(worker_beats).where(_IS_GONE)
IS_SILENT = ~exists().where(
    worker_beats.c.worker == events.c.worker, worker_beats.c.beat_at > bindparam("silent_since")
)
"""SQL condition: the claim's worker has not beaten after that moment."""


def beat(connection: Transaction, worker: str, now: float, lease_seconds: float) -> frozenset[tuple[str, int]]:
    """Record that the worker lives; return id and epoch of the claims of it that stand."""
    row = {"worker": worker, "beat_at": now, "until": now + lease_seconds}
    connection.put(worker_beats, row, ("worker",), ("beat_at", "until"))
    return frozenset((row.id, row.epoch) for row in connection.execute(_STANDING, {"of_worker": worker}))


def of_silent(connection: Transaction, now: float, most: int) -> Sequence[AnyRow]:
    """Return the claimed event rows of workers that have been silent for too long, each with its worker's `beat_at`."""
    return connection.execute(_OF_SILENT, {"moment": now, "most": most}).all()


def any_gone(connection: Transaction, now: float) -> bool:
    """Return whether there is a row to drop."""
    return connection.execute(_ANY_GONE, {"moment": now}).first() is not None


def drop_gone(connection: Transaction, now: float) -> None:
    """Drop the rows of workers that have been silent for long and hold nothing."""
    connection.execute(_DROP, {"moment": now})
