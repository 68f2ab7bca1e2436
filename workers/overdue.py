"""What the reconciler asks of the ledger: retries that are due, ready events that wait too long, and who may ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, and_, bindparam, or_, select, tuple_, update

from contracts.event import Event, Queue, decode
from workers.schema import events, leases
from workers.upsert import insert_once


@dataclass(frozen=True, slots=True)
class Waiting:
    """A ready event that nobody has claimed yet; `position` is where the next look goes on from."""

    event_id: str
    queue: Queue
    position: tuple[float, int]


_ANY_DUE = select(events.c.seq).where(events.c.status == "waiting", events.c.due_at <= bindparam("moment")).limit(1)
_DUE = (
    select(events.c.seq)
    .where(events.c.status == "waiting", events.c.due_at <= bindparam("moment"))
    .order_by(events.c.due_at)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
)
_WAKE = (
    update(events)
    .where(events.c.seq.in_(_DUE), events.c.status == "waiting")
    .values(status="ready")
    .returning(events.c.payload)
)
_READY_SINCE = (
    select(events.c.due_at, events.c.seq, events.c.id, events.c.queue)
    .where(
        events.c.status == "ready",
        events.c.due_at <= bindparam("since"),
        tuple_(events.c.due_at, events.c.seq) > tuple_(bindparam("after_due"), bindparam("after_seq")),
    )
    .order_by(events.c.due_at, events.c.seq)
    .limit(bindparam("most"))
)
_STILL_READY = (
    select(events.c.payload)
    .where(events.c.status == "ready", events.c.id.in_(bindparam("wanted", expanding=True)))
    .order_by(events.c.seq)
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
_PER_QUERY = 500
"""Ids in one statement: SQLite and PostgreSQL both bound its parameters."""


def any_waiting(connection: Connection, now: float) -> bool:
    """Whether a retry is due: a look that costs no write."""
    return connection.execute(_ANY_DUE, {"moment": now}).first() is not None


def wake(connection: Connection, now: float, most: int) -> list[Event]:
    """Make the retries that are due ready; they are to be published."""
    payloads = connection.execute(_WAKE, {"moment": now, "most": most}).scalars().all()
    return [decode(payload) for payload in payloads]


def ready_since(connection: Connection, since: float, after: tuple[float, int], most: int) -> list[Waiting]:
    """Events ready since before `since`, oldest first, behind the position (`due_at`, `seq`) of `after`."""
    facts = {"since": since, "after_due": after[0], "after_seq": after[1], "most": most}
    return [Waiting(row.id, row.queue, (row.due_at, row.seq)) for row in connection.execute(_READY_SINCE, facts)]


def still_ready(connection: Connection, event_ids: Sequence[str]) -> list[Event]:
    """Those of the events that nobody has claimed meanwhile."""
    found: list[Event] = []
    for start in range(0, len(event_ids), _PER_QUERY):
        wanted = {"wanted": list(event_ids[start : start + _PER_QUERY])}
        found += [decode(payload) for payload in connection.execute(_STILL_READY, wanted).scalars()]
    return found


def lease(connection: Connection, name: str, holder: str, now: float, seconds: float) -> bool:
    """Take or renew the lease `name`; False while another holder's has not run out."""
    if insert_once(connection, leases, {"name": name, "holder": holder, "until": now + seconds}):
        return True
    facts = {"of_name": name, "by_holder": holder, "moment": now, "up_to": now + seconds}
    return connection.execute(_RENEW, facts).rowcount == 1


def give_up(connection: Connection, name: str, holder: str) -> None:
    """End a lease before its time, so that the next holder need not wait."""
    connection.execute(_GIVE_UP.values(until=0.0), {"of_name": name, "by_holder": holder})
