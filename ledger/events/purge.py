"""Cancels waiting directives in every run, because their feature is switched off.

Promises: an event that a worker has claimed is left alone; a run that loses directives gets one gap with the reason,
and ends as if they had been carried out: its answer is directed, or it is finished. Cancelled directives never return.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import bindparam, select, update

from sluice.contracts.event import Body, Event, Gap, GapFound
from sluice.ledger.events.finish import close_if_done
from sluice.ledger.events.outbox import Entry, own_event, write
from sluice.ledger.events.reservations import Balance
from sluice.ledger.runs import take
from sluice.ledger.schema.tables import IS_OPEN, AnyRow, events
from sluice.ledger.transaction import Transaction

_IS_PENDING = (
    events.c.status.in_(("ready", "waiting")),
    IS_OPEN,
    events.c.queue == bindparam("of_stage"),
    events.c.kind == bindparam("of_kind"),
)
_RUNS = select(events.c.run_id).distinct().where(*_IS_PENDING).order_by(events.c.run_id)
_CANCEL = (
    update(events)
    .where(events.c.run_id == bindparam("of_run"), *_IS_PENDING)
    .values(status="cancelled", due_at=None, settled_at=bindparam("moment"), why=bindparam("because"))
    .returning(*events.c)
)
_LET_GO = (
    update(events)
    .where(events.c.run_id == bindparam("of_run"), events.c.status == "cancelled", events.c.reserved_on.is_not(None))
    .values(reserved_on=None)
)


@dataclass(slots=True)
class Purged:
    """The cancelled events and their runs, and the emitted events, which are to be published."""

    event_ids: list[str] = field(default_factory=list)
    run_ids: list[str] = field(default_factory=list)
    emitted: list[Event] = field(default_factory=list)


def purge(
    connection: Transaction, directive: type[Body], why: str, gap_for: Callable[[int], Gap], now: float
) -> Purged:
    """Cancel every waiting directive of this kind. `gap_for` makes the gap of a run that loses so many.

    Locks rows in the order of every other transaction, all runs before the first day.
    """
    pending = {"of_stage": directive.queue, "of_kind": directive.kind}
    facts = {**pending, "moment": now, "because": why}
    purged = Purged()
    lost: list[tuple[AnyRow, int, Balance]] = []
    for run_id in connection.execute(_RUNS, pending).scalars():
        run = take(connection, run_id)
        cancelled = _cancel(connection, run_id, facts)
        if cancelled:
            purged.event_ids += [row.id for row in cancelled]
            purged.run_ids.append(run_id)
            lost.append((run, len(cancelled), _balance_of(cancelled)))
    for run, count, _ in lost:
        purged.emitted += _close(connection, run, gap_for(count), now)
    for run, _, balance in lost:
        balance.carry_out(connection, run, now)
    return purged


def _cancel(connection: Transaction, run_id: str, facts: Mapping[str, object]) -> list[AnyRow]:
    """Cancel the waiting directives of a run whose row is locked; return the rows, with their reservations."""
    cancelled = connection.execute(_CANCEL, {"of_run": run_id, **facts}).all()
    if any(row.reserved_on is not None for row in cancelled):
        connection.execute(_LET_GO, {"of_run": run_id})
    return sorted(cancelled, key=lambda row: int(row.seq))


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
