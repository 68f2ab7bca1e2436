"""Queries of the reconciler: retries that are due, and ready events that wait too long."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from sqlalchemy import and_, bindparam, func, or_, select, update

from sluice.contracts.event import QUEUES, Queue
from sluice.ledger.events.fair_queue import take_turns
from sluice.ledger.events.outbox import WakeUp
from sluice.ledger.schema.tables import IS_READY, AnyRow, events, leases
from sluice.ledger.schema.upsert import insert_once
from sluice.ledger.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is ready in a stage: how many events, and since when the oldest is (seconds since the epoch)."""

    ready: int
    oldest: float


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
_BACKLOGS = (
    select(events.c.queue, func.count().label("ready"), func.min(events.c.due_at).label("oldest"))
    .where(events.c.status == "ready", events.c.due_at >= 0)
    .group_by(events.c.queue)
)
_NEXT_READY = (
    select(events.c.id)
    .where(IS_READY, events.c.queue == bindparam("of_queue"))
    .order_by(events.c.priority, events.c.turn, events.c.seq)
    .limit(bindparam("most"))
)
_LANE_READY = select(func.count()).where(
    IS_READY,
    events.c.queue == bindparam("of_queue"),
    events.c.priority == bindparam("at_priority"),
    events.c.lane == bindparam("of_lane"),
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
    """Whether a retry is due: a look that costs no write."""
    return connection.execute(_ANY_DUE, {"moment": now}).first() is not None


def wake(connection: Transaction, now: float, most: int) -> list[WakeUp]:
    """Make the retries that are due ready, each behind what its tenant queue holds; they are to be published."""
    by_line = defaultdict(list)
    for row in connection.execute(_DUE, {"moment": now, "most": most}).all():
        by_line[row.queue, row.priority, row.lane].append(row)
    woken: list[AnyRow] = []
    for (queue, priority, tenant_queue), rows in sorted(by_line.items()):
        turns = take_turns(connection, [queue] * len(rows), priority, tenant_queue)
        moves = [{"of_seq": row.seq, "at_turn": turn} for row, turn in zip(rows, turns, strict=True)]
        woken += connection.execute_each(_WAKE, moves)
    return [WakeUp(row.queue, row.id) for row in woken]


def backlogs(connection: Transaction) -> dict[Queue, Backlog]:
    """What every stage that has something ready has, from the index of open events alone."""
    found = {row.queue: Backlog(row.ready, row.oldest) for row in connection.execute(_BACKLOGS).all()}
    return {queue: found[queue] for queue in QUEUES if queue in found}


def tenant_backlog(connection: Transaction, stage: Queue, priority: int, tenant_queue: str) -> int:
    """How many events of the tenant queue wait in the stage, found by an index that holds nothing else."""
    facts = {"of_queue": stage, "at_priority": priority, "of_lane": tenant_queue}
    return int(connection.execute(_LANE_READY, facts).scalar() or 0)


def next_ready(connection: Transaction, stage: Queue, most: int) -> list[WakeUp]:
    """Wake-ups for the stage's next `most` events."""
    ids = connection.execute(_NEXT_READY, {"of_queue": stage, "most": most}).scalars()
    return [WakeUp(stage, event_id) for event_id in ids]


def lease(connection: Transaction, name: str, holder: str, now: float, seconds: float) -> bool:
    """Take or renew the lease `name`; False while another holder's has not run out."""
    if insert_once(connection, leases, {"name": name, "holder": holder, "until": now + seconds}):
        return True
    facts = {"of_name": name, "by_holder": holder, "moment": now, "up_to": now + seconds}
    return connection.execute(_RENEW, facts).rowcount == 1


def give_up(connection: Transaction, name: str, holder: str) -> None:
    """End a lease before its time, so that the next holder need not wait."""
    connection.execute(_GIVE_UP.values(until=0.0), {"of_name": name, "by_holder": holder})
