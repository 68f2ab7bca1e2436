"""Claims: a worker's exclusive, temporary hold on an event.

Promises: a claim is one durable commit and raises the event's epoch, the fencing token that `settle` asks for; of any
number of workers that claim at once, one gets it. A claim whose lease ran out may be taken over: its worker counts as
dead, and the event is parked as poison when its deaths reach the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import Connection, and_, bindparam, case, or_, select, update

from contracts.api import RunStatus
from contracts.budget import Ceilings
from contracts.errors import Fenced
from contracts.event import Event, decode
from contracts.outcome import DeadLetter
from workers.closing import close_if_done
from workers.parking import park
from workers.reservations import ceilings_of
from workers.runs import take
from workers.schema import AnyRow, events, runs


@dataclass(frozen=True, slots=True)
class Claim:
    """The hold: the event, its epoch, and what a handler may ask about the run.

    `attempts` counts tries that ended in a retry, `deliveries` counts claims, this one included.
    """

    event: Event
    epoch: int
    worker: str
    attempts: int
    deliveries: int
    run_status: RunStatus
    deadline_at: datetime | None
    ceilings: Ceilings


Held = AnyRow
"""A row of `events` as it was seen claimed."""

Reason = Literal["settled", "claimed_elsewhere", "waiting", "dead", "unknown", "poisoned", "cancelled"]


@dataclass(frozen=True, slots=True)
class NotClaimed:
    """Why there is nothing to do. `emitted` is not empty only when this claim parked the event as poison."""

    reason: Reason
    emitted: tuple[Event, ...] = ()


_REFUSALS: dict[str, Reason] = {
    "recorded": "settled",
    "settled": "settled",
    "claimed": "claimed_elsewhere",
    "ready": "claimed_elsewhere",  # it became ready between two looks: another message brings it
    "waiting": "waiting",
    "dead": "dead",
    "cancelled": "cancelled",
}
_EXPIRED = and_(events.c.status == "claimed", events.c.due_at <= bindparam("moment"))
_CLAIM = (
    update(events)
    .where(
        events.c.id == bindparam("of_event"),
        or_(events.c.status == "ready", and_(_EXPIRED, events.c.deaths + 1 < bindparam("most_deaths"))),
    )
    .values(
        status="claimed",
        epoch=events.c.epoch + 1,
        deliveries=events.c.deliveries + 1,
        deaths=events.c.deaths + case((events.c.status == "claimed", 1), else_=0),
        worker=bindparam("by_worker"),
        due_at=bindparam("until"),
    )
    .returning(events.c.run_id, events.c.payload, events.c.epoch, events.c.attempts, events.c.deliveries)
)
_RUN = select(
    runs.c.status,
    runs.c.deadline_at,
    runs.c.run_nanousd,
    runs.c.run_pages,
    runs.c.day_nanousd,
    runs.c.day_pages,
).where(runs.c.run_id == bindparam("of_run"))
_EVENT = select(events).where(events.c.id == bindparam("of_event"))
_HEARTBEAT = (
    update(events)
    .where(events.c.id == bindparam("of_event"), events.c.epoch == bindparam("at_epoch"), events.c.status == "claimed")
    .values(due_at=bindparam("until"))
)
_FREE = (
    update(events)
    .where(events.c.id == bindparam("of_event"), events.c.epoch == bindparam("at_epoch"), events.c.status == "claimed")
    .values(status="ready", due_at=bindparam("moment"), worker=None, deaths=bindparam("counted"))
)
_HELD_BY = select(events).where(
    events.c.status == "claimed", events.c.due_at.is_not(None), events.c.worker == bindparam("by_worker")
)
_RUN_OUT = (
    select(events)
    .where(events.c.status == "claimed", events.c.due_at <= bindparam("moment"))
    .order_by(events.c.due_at)
    .limit(bindparam("most"))
)


def claim(
    connection: Connection, event_id: str, worker: str, now: float, lease_seconds: float, max_deliveries: int
) -> Claim | NotClaimed:
    """Claim the event, or say why not."""
    facts = {"moment": now, "until": now + lease_seconds, "by_worker": worker, "most_deaths": max_deliveries}
    row = connection.execute(_CLAIM, {"of_event": event_id, **facts}).first()
    if row is None:
        return _refusal(connection, event_id, now, max_deliveries)
    run = connection.execute(_RUN, {"of_run": row.run_id}).one()
    return Claim(
        event=decode(row.payload),
        epoch=row.epoch,
        worker=worker,
        attempts=row.attempts,
        deliveries=row.deliveries,
        run_status=run.status,
        deadline_at=None if run.deadline_at is None else datetime.fromtimestamp(run.deadline_at, UTC),
        ceilings=ceilings_of(run),
    )


def heartbeat(connection: Connection, held: Claim, now: float, lease_seconds: float) -> None:
    """Extend the lease.

    Raises:
        Fenced: another worker owns the event now, or it was cancelled.
    """
    facts = {"of_event": held.event.id, "at_epoch": held.epoch, "until": now + lease_seconds}
    if connection.execute(_HEARTBEAT, facts).rowcount == 0:
        raise Fenced(f"the claim on {held.event.id} at epoch {held.epoch} was lost")


def held_by(connection: Connection, worker: str) -> Sequence[Held]:
    """The event rows that `worker` has claimed."""
    return connection.execute(_HELD_BY, {"by_worker": worker}).all()


def run_out(connection: Connection, now: float, most: int) -> Sequence[Held]:
    """The event rows whose lease has run out, longest first."""
    return connection.execute(_RUN_OUT, {"moment": now, "most": most}).all()


def free(connection: Connection, seen: Held, now: float, max_deliveries: int, *, died: bool = True) -> list[Event]:
    """Take the event from the claim that `seen` shows: ready again, or parked as poison.

    Returns the events to publish: the event itself, or what its parking emitted; none when the claim has
    changed hands since it was seen.
    """
    deaths = seen.deaths + died
    if died and deaths >= max_deliveries:
        return _poison(connection, seen, now, deaths)
    facts = {"of_event": seen.id, "at_epoch": seen.epoch, "moment": now, "counted": deaths}
    freed = connection.execute(_FREE, facts).rowcount == 1
    return [decode(seen.payload)] if freed else []


def _refusal(connection: Connection, event_id: str, now: float, max_deliveries: int) -> NotClaimed:
    row = connection.execute(_EVENT, {"of_event": event_id}).first()
    if row is None:
        return NotClaimed("unknown")
    if row.status == "claimed" and row.due_at <= now and row.deaths + 1 >= max_deliveries:
        return NotClaimed("poisoned", tuple(_poison(connection, row, now, row.deaths + 1)))
    return NotClaimed(_REFUSALS[row.status])


def _poison(connection: Connection, seen: Held, now: float, deaths: int) -> list[Event]:
    event = decode(seen.payload)
    run = take(connection, seen.run_id, dead=1)
    current = connection.execute(_EVENT.with_for_update(), {"of_event": seen.id}).one()
    if current.epoch != seen.epoch or current.status != "claimed":
        take(connection, seen.run_id, dead=-1)
        return []

    def make(body: Any) -> Event:
        return Event.of(body, run_id=event.run_id, corpus=event.corpus, cause=event)

    verdict = DeadLetter("poison", _WorkerDied(f"{deaths} workers died while they handled this event"))
    emitted = park(connection, run, current, event, verdict, make, now)
    return emitted + close_if_done(connection, run, emitted, make, now)


class _WorkerDied(Exception):
    """The last worker that held the event did not come back."""
