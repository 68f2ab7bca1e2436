"""Makes due retries ready, and keeps the named leases of processes."""

from __future__ import annotations

from collections import defaultdict

from sqlalchemy import and_, bindparam, or_, select, update

from sluice.ledger.events.fair_queue import take_turns
from sluice.ledger.events.outbox import WakeUp
from sluice.ledger.schema.tables import AnyRow, events, leases
from sluice.ledger.transaction import Transaction

_ANY_DUE = select(events.c.seq).where(events.c.status == "waiting", events.c.due_at <= bindparam("moment")).limit(1)
_DUE = (
    select(events.c.seq, events.c.id, events.c.queue, events.c.priority, events.c.lane)
    .where(events.c.status == "waiting", events.c.due_at <= bindparam("moment"))
    .order_by(events.c.due_at)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
)
_WAKE = (
    update(events)
    .where(events.c.seq == bindparam("of_seq"), events.c.status == "waiting")
    .values(status="ready", turn=bindparam("at_turn"))
    .returning(events.c.queue, events.c.id)
)
_RENEW = (
    update(leases)
    .where(
        and_(
            leases.c.name == bindparam("of_name"),
            or_(leases.c.holder == bindparam("by_holder"), leases.c.until <= bindparam("moment")),
        )
    )
    .values(holder=bindparam("by_holder"), until=bindparam("up_to"))
)
_GIVE_UP = update(leases).where(leases.c.name == bindparam("of_name"), leases.c.holder == bindparam("by_holder"))


def any_waiting(connection: Transaction, now: float) -> bool:
    """Return whether a retry is due, without a write."""
    return connection.execute(_ANY_DUE, {"moment": now}).first() is not None


def wake(connection: Transaction, now: float, most: int) -> list[WakeUp]:
    """Make due retries ready, each at the end of its tenant queue; return the wake-ups to publish."""
    by_line = defaultdict(list)
    for row in connection.execute(_DUE, {"moment": now, "most": most}).all():
        by_line[row.queue, row.priority, row.lane].append(row)
    woken: list[AnyRow] = []
    for (queue, priority, tenant_queue), rows in sorted(by_line.items()):
        turns = take_turns(connection, [queue] * len(rows), priority, tenant_queue)
        moves = [{"of_seq": row.seq, "at_turn": turn} for row, turn in zip(rows, turns, strict=True)]
        woken += connection.execute_each(_WAKE, moves)
    return [WakeUp(row.queue, row.id) for row in woken]


def lease(connection: Transaction, name: str, holder: str, now: float, seconds: float) -> bool:
    """Take or renew the lease `name`; False while another holder's has not run out."""
    if connection.insert_once(leases, {"name": name, "holder": holder, "until": now + seconds}):
        return True
    facts = {"of_name": name, "by_holder": holder, "moment": now, "up_to": now + seconds}
    return connection.execute(_RENEW, facts).rowcount == 1


def give_up(connection: Transaction, name: str, holder: str) -> None:
    """End a lease early, so that the next holder need not wait."""
    connection.execute(_GIVE_UP.values(until=0.0), {"of_name": name, "by_holder": holder})
