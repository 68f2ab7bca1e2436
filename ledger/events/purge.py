"""Cancels directives that wait, in every run, because what they direct is switched off.

Promises: what a worker has claimed is left to it; a run that loses directives gets one gap that says why, and ends as
if they had been carried out: its answer is directed, or it is finished. Nothing brings a cancelled directive back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby

from sqlalchemy import bindparam, select, update

from contracts.event import Body, Event, Gap, GapFound
from ledger.events.finish import close_if_done
from ledger.events.outbox import Entry, own_event, write
from ledger.events.reservations import Balance
from ledger.runs import take
from ledger.schema.tables import AnyRow, events
from ledger.transaction import Transaction

_IS_PENDING = (events.c.status.in_(("ready", "waiting")), events.c.due_at >= 0)
_PENDING = (
    select(events.c.run_id, events.c.id)
    .where(*_IS_PENDING, events.c.queue == bindparam("of_stage"), events.c.kind == bindparam("of_kind"))
    .order_by(events.c.run_id, events.c.seq)
)
_STILL_PENDING = select(events).where(events.c.id == bindparam("of_event"), *_IS_PENDING).with_for_update()
_CANCEL = (
    update(events)
    .where(events.c.id == bindparam("of_event"))
    .values(status="cancelled", due_at=None, reserved_on=None, settled_at=bindparam("moment"), why=bindparam("because"))
    .returning(events.c.id)
)


@dataclass(slots=True)
class Purged:
    """What was cancelled, in which runs, and the events that came of it, which are to be published."""

    event_ids: list[str] = field(default_factory=list)
    run_ids: list[str] = field(default_factory=list)
    emitted: list[Event] = field(default_factory=list)


def purge(
    connection: Transaction, directive: type[Body], why: str, gap_for: Callable[[int], Gap], now: float
) -> Purged:
    """Cancel every directive of this kind that waits. `gap_for` says what a run lacks that loses so many of them.

    Rows are taken in the order of every other transaction, all runs before the first day.
    """
    found = connection.execute(_PENDING, {"of_stage": directive.queue, "of_kind": directive.kind}).all()
    purged = Purged()
    lost: list[tuple[AnyRow, int, Balance]] = []
    for run_id, rows in groupby(found, key=lambda row: row.run_id):
        run = take(connection, run_id)
        cancelled = _cancel(connection, [row.id for row in rows], why, now)
        if cancelled:
            purged.event_ids += [row.id for row in cancelled]
            purged.run_ids.append(run_id)
            lost.append((run, len(cancelled), _balance_of(cancelled)))
    for run, count, _ in lost:
        purged.emitted += _close(connection, run, gap_for(count), now)
    for run, _, balance in lost:
        balance.carry_out(connection, run, now)
    return purged


def _cancel(connection: Transaction, event_ids: list[str], why: str, now: float) -> list[AnyRow]:
    """Cancel those that still wait, now that their run's row is held; their rows as they were."""
    pending = connection.execute_each(_STILL_PENDING, [{"of_event": event_id} for event_id in event_ids])
    if pending:
        facts = {"moment": now, "because": why}
        connection.execute_each(_CANCEL, [{"of_event": row.id, **facts} for row in pending])
    return pending


def _balance_of(cancelled: list[AnyRow]) -> Balance:
    balance = Balance()
    for row in cancelled:
        balance.free(row)
    return balance


def _close(connection: Transaction, run: AnyRow, gap: Gap, now: float) -> list[Event]:
    def make(body: Body) -> Event:
        return own_event(run, body, now)

    emitted = write(connection, run, [Entry(make(GapFound(gap=gap)))], now)
    return emitted + close_if_done(connection, run, emitted, make, now)
