"""Claims: a worker's exclusive, temporary hold on an event.

Promises: a claim is one commit and raises the event's epoch, the fencing token that `settle` checks; of any number
of workers that claim at once, no two get the same event, and each gets the next one by turn (see `outbox`). An
event that a worker died on is a suspect: only a worker that holds no other event claims it, so that an event that
kills a process takes no other event with it; at the limit of deaths it is parked as poison.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from sqlalchemy import Select, Update, bindparam, exists, func, literal_column, or_, select, update

from sluice.contracts.errors import MalformedEvent
from sluice.contracts.event import DeadLetter, Event, Queue, decode
from sluice.ledger.dead_letters.letter import park
from sluice.ledger.events import attempts, beats, stages
from sluice.ledger.events.finish import close_if_done
from sluice.ledger.events.outbox import ANSWERS, BULK, SERVED, SMALL, WakeUp, own_event, wake_ups_of
from sluice.ledger.events.reservations import Balance
from sluice.ledger.runs import take
from sluice.ledger.schema.tables import IS_READY, IS_SUSPECT, AnyRow, events
from sluice.ledger.schema.tables import pauses as paused_stages
from sluice.ledger.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Claim:
    """A worker's hold on an event.

    `attempts` counts tries that ended in a retry, `deliveries` counts claims, this one included, and `deaths` the
    workers that died on it. `is_probe`: its stage is paused, and this event tests whether the stage works
    again. `replay_traceparent` is the span of the operator who replayed it. `waited_seconds` is the time for which it
    was ready before `claimed_at` (seconds since the epoch).
    """

    event: Event
    epoch: int
    worker: str
    attempts: int
    deliveries: int
    deaths: int = 0
    is_probe: bool = False
    replay_traceparent: str | None = None
    waited_seconds: float = 0.0
    claimed_at: float = 0.0

    @property
    def has_failed(self) -> bool:
        """Whether the event failed before, or a worker died on it."""
        return bool(self.attempts or self.deaths)


Held = AnyRow
"""A row of `events`, as read while it was claimed."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A row of `events` that a worker holds and whose payload is not decoded yet."""

    row: AnyRow
    is_probe: bool = False


@dataclass(frozen=True, slots=True)
class GoOn:
    """A worker's request to claim, in the settling transaction, an emitted event of one of these stages; each with the
    longest time, in seconds, that its claim may stand."""

    stages: Mapping[Queue, float]
    worker: str


Reason = Literal["nothing_ready", "paused", "suspects_wait", "share_used", "malformed"]
"""`share_used`: what is ready belongs to tenants of whom the worker's pool handles as many events as it may."""


@dataclass(frozen=True, slots=True)
class NotClaimed:
    """The reason why no event was claimed. `emitted` is set only when a malformed event was parked."""

    reason: Reason
    emitted: tuple[Event, ...] = ()


_SUSPECTS = select(events.c.seq).where(IS_SUSPECT, events.c.queue == bindparam("of_queue")).order_by(events.c.seq)
_ANY_SUSPECT = _SUSPECTS.limit(1)
_NEXT = (
    select(events.c.seq)
    .where(IS_READY, events.c.queue == bindparam("of_queue"), events.c.deaths == literal_column("0"))
    .order_by(events.c.priority, events.c.turn, events.c.seq)
)
_RUNNING = ~exists().where(paused_stages.c.stage == bindparam("of_queue"))


_COUNTS = ("epoch", "worker", "attempts", "deliveries", "deaths", "replay_traceparent", "claimed_at")
"""The columns of an event that its claim repeats."""
_TAKEN = ("id", "run_id", "payload", "ready_at", *_COUNTS)


def _claiming(candidates: Select[Any], *conditions: Any) -> Update:
    first = candidates.limit(1).with_for_update(skip_locked=True).scalar_subquery()
    return (
        update(events)
        .where(events.c.seq == first, IS_READY, *conditions)
        .values(
            status="claimed",
            epoch=events.c.epoch + 1,
            deliveries=events.c.deliveries + 1,
            worker=bindparam("by_worker"),
            ready_at=events.c.due_at,
            claimed_at=bindparam("moment"),
            claimed_by=bindparam("by_worker"),
            due_at=bindparam("until"),
        )
        .returning(*(events.c[name] for name in _TAKEN))
    )


_CLAIM, _CLAIM_SUSPECT = _claiming(_NEXT, _RUNNING), _claiming(_SUSPECTS, _RUNNING)
_held = events.alias("held")
_FULL = (
    select(_held.c.lane)
    .where(_held.c.status == literal_column("'claimed'"), _held.c.due_at.is_not(None))
    .where(_held.c.queue == bindparam("of_queue"), _held.c.worker.startswith(bindparam("of_pool")))
    .group_by(_held.c.lane)
    .having(func.count() >= bindparam("most"))
)
"""Tenant queues of which a pool's workers hold as many events as they may."""
_CLAIM_FAIRLY, _SUSPECT_FAIRLY = (
    _claiming(candidates.where(events.c.lane.not_in(_FULL)), _RUNNING) for candidates in (_NEXT, _SUSPECTS)
)
_OF_ALL = (IS_READY, events.c.queue == bindparam("of_queue"), events.c.priority.in_((ANSWERS, SMALL, BULK)))
_ANY_OF_OTHERS = select(
    or_(
        exists().where(*_OF_ALL, events.c.lane < bindparam("full")),
        exists().where(*_OF_ALL, events.c.lane > bindparam("full")),
    )
)
"""Whether another tenant has an event ready, by the ends of an index: the full one may have 20,000."""
_PROBE, _PROBE_SUSPECT = _claiming(_NEXT), _claiming(_SUSPECTS)
MINE = (events.c.id == bindparam("of_event"), events.c.epoch == bindparam("at_epoch"), events.c.status == "claimed")
"""SQL conditions under which the claim on an event still stands."""
_MINE_NOW = select(events).where(*MINE).with_for_update()
_STILL_HELD = (*MINE, events.c.due_at <= bindparam("run_out_by"), beats.IS_SILENT)
_FREE = (
    update(events)
    .where(*_STILL_HELD)
    .values(
        status="ready",
        due_at=bindparam("moment"),
        worker=None,
        deaths=bindparam("counted"),
        turn=func.coalesce(SERVED.scalar_subquery(), events.c.turn),
        behind=literal_column("0"),
    )
    .returning(*attempts.LAST)
)
_LAST_DEATH = update(events).where(*_STILL_HELD).values(deaths=bindparam("counted")).returning(*events.c)
_IS_CLAIMED = events.c.status == literal_column("'claimed'")
_HELD_BY = select(events).where(_IS_CLAIMED, events.c.worker == bindparam("by_worker"))
_RUN_OUT = (
    select(events)
    .where(_IS_CLAIMED, events.c.due_at <= bindparam("moment"))
    .order_by(events.c.due_at)
    .limit(bindparam("most"))
)


def take_next(
    connection: Transaction,
    stage: Queue,
    worker: str,
    now: float,
    most_seconds: float,
    *,
    alone: bool,
    probe_seconds: float,
    most_of_a_tenant: int | None = None,
) -> Taken | NotClaimed:
    """Take the stage's next event, or return why there is none. `alone`: the worker holds no other event.

    `most_of_a_tenant` bounds what the worker's pool holds of one tenant; the pool's workers are named `POOL.NUMBER`.
    """
    facts: dict[str, Any] = {"of_queue": stage, "by_worker": worker, "moment": now, "until": now + most_seconds}
    if not alone and connection.execute(_ANY_SUSPECT, {"of_queue": stage}).first():
        return NotClaimed("suspects_wait")
    next_one, next_suspect = _CLAIM, _CLAIM_SUSPECT
    if most_of_a_tenant is not None:
        next_one, next_suspect = _CLAIM_FAIRLY, _SUSPECT_FAIRLY
        facts |= {"of_pool": worker.rpartition(".")[0] + ".", "most": most_of_a_tenant}
        facts["full"] = full = connection.execute(_FULL, facts).scalar()
        if full is not None and not connection.execute(_ANY_OF_OTHERS, facts).scalar():
            return NotClaimed("share_used")
    row = connection.execute(next_suspect, facts).first() if alone else None
    row = row or connection.execute(next_one, facts).first()
    if row is not None:
        return Taken(row)
    if stages.let_probe_through(connection, stage, now, probe_seconds):
        row = connection.execute(_PROBE, facts).first() or connection.execute(_PROBE_SUSPECT, facts).first()
        return NotClaimed("nothing_ready") if row is None else Taken(row, is_probe=True)
    return NotClaimed("paused" if stages.is_paused(connection, stage) else "nothing_ready")


def claim_in(taken: Taken) -> Claim:
    """Decode a taken row's event into a claim. Raises `MalformedEvent` if that fails; the caller parks the event."""
    row = taken.row
    facts = {name: getattr(row, name) for name in _COUNTS}
    waited_seconds = max(0.0, row.claimed_at - row.ready_at)
    return Claim(decode(row.payload), is_probe=taken.is_probe, waited_seconds=waited_seconds, **facts)


def park_malformed(connection: Transaction, taken: Taken, error: MalformedEvent, now: float) -> NotClaimed:
    """Park a taken event that cannot be decoded, unless the claim was lost meanwhile."""
    run = take(connection, taken.row.run_id, dead=1)
    facts = {"of_event": taken.row.id, "at_epoch": taken.row.epoch}
    row = connection.execute(_MINE_NOW, facts).first()
    if row is None:
        take(connection, taken.row.run_id, dead=-1)
        return NotClaimed("malformed")
    if _has_failed(row):
        attempts.count_retrying(connection, row.run_id, -1)
    return NotClaimed("malformed", tuple(_park(connection, run, row, DeadLetter("malformed", error), now)))


def held_by(connection: Transaction, worker: str) -> Sequence[Held]:
    """Return the event rows that `worker` has claimed."""
    return connection.execute(_HELD_BY, {"by_worker": worker}).all()


def run_out(connection: Transaction, now: float, most: int) -> Sequence[Held]:
    """Return the rows of events that are held for longer than one may be, the longest overdue first."""
    return connection.execute(_RUN_OUT, {"moment": now, "most": most}).all()


def free(
    connection: Transaction,
    seen: Held,
    now: float,
    max_deliveries: int,
    *,
    died: bool = True,
    run_out_by: float = math.inf,
    silent_since: float = math.inf,
) -> list[WakeUp]:
    """Release the claim in `seen`: the event is ready again and next in line, or parked as poison.

    Returns the wake-ups to publish: for the event, or for those that its parking emitted; none when the claim
    has changed hands since it was seen, may stand beyond `run_out_by`, or its worker has beaten after `silent_since`.
    """
    deaths = seen.deaths + died
    held = {"of_event": seen.id, "at_epoch": seen.epoch, "run_out_by": run_out_by, "silent_since": silent_since}
    held["counted"] = deaths
    if died and deaths >= max_deliveries:
        return wake_ups_of(_poison(connection, seen, held, now))
    facts = {**held, "moment": now, "of_queue": seen.queue, "at_priority": seen.priority}
    fails_first = died and not _has_failed(seen)
    if fails_first:
        attempts.count_retrying(connection, seen.run_id, 1)
    freed = connection.execute(_FREE, facts).first()
    if freed is None:
        if fails_first:
            attempts.count_retrying(connection, seen.run_id, -1)
        return []
    ran_out = math.isfinite(min(run_out_by, silent_since))
    why = None if not died else "its lease ran out" if ran_out else "its worker died"
    attempts.ended(connection, freed._replace(behind=seen.behind), "died" if died else "released", why, now)
    return [WakeUp(seen.queue, seen.id)]


def _has_failed(row: AnyRow) -> bool:
    """Return whether an event failed before, or a worker died on it."""
    return bool(row.attempts or row.deaths)


def _poison(connection: Transaction, seen: Held, held: Mapping[str, Any], now: float) -> list[Event]:
    run = take(connection, seen.run_id, dead=1)
    row = connection.execute(_LAST_DEATH, held).first()
    if row is None:
        take(connection, seen.run_id, dead=-1)
        return []
    verdict = DeadLetter("poison", _WorkerDied(f"{row.deaths} workers died while they handled this event"))
    if _has_failed(seen):
        attempts.count_retrying(connection, seen.run_id, -1)
    return _park(connection, run, row, verdict, now)


def _park(connection: Transaction, run: AnyRow, row: AnyRow, verdict: DeadLetter, now: float) -> list[Event]:
    balance, make, caused = Balance(), partial(own_event, run, now=now), {"cause_id": row.id}
    emitted = park(connection, run, row, verdict, lambda gap: make(gap).model_copy(update=caused), now, balance)
    closing = close_if_done(connection, run, emitted, make, now)
    balance.carry_out(connection, run, now)
    return emitted + closing


class _WorkerDied(Exception):
    """The last worker that held the event died."""
