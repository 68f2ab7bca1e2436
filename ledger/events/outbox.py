"""Writes events as ledger rows, before they become messages.

Promises: within a run a dedupe key is taken once, and a second event with it is dropped silently. The caller holds
the run's row, so no other transaction inserts into the run meanwhile, and `seq` is the order of commits.

Each event gets its turn in the fair queue of its stage, which decides the ready event that is served next. Events that
an agent waits for go first, then small submissions, then bulk. Within a priority every tenant has its own queue, and
these are served in turn: start-time fair queueing (Goyal, Vin and Cheng, 1996) with every event of the same length. An
event's turn is one more than the last of its tenant queue, or the turn being served when that is empty; the lowest turn
is served first, ties by age. A tenant with 10,000 events delays another's single one by at most one event per tenant,
and an idle tenant accumulates no credit. A tenant is an API key, or the corpus of a run without a key. The column of
the tenant queue is `lane`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from sqlalchemy import bindparam, func, literal_column, select, update

from sluice.contracts.budget import Spend
from sluice.contracts.event import Body, Event, Queue, encode
from sluice.contracts.gate import GateDecided
from sluice.contracts.index import AnswerReady, DocumentIndexed, SnapshotPublished
from sluice.ledger.events.reservations import Balance, amounts_of, today
from sluice.ledger.learning.outcome_rows import note_decided
from sluice.ledger.schema.tables import IS_READY, AnyRow, events, moment, published, runs, storable
from sluice.ledger.transaction import Transaction
from sluice.ledger.trust.citations import note_answer
from sluice.ledger.webhooks.outgoing import note_events
from sluice.otel.context import RUN_TRACEPARENT

NO_KEY = "local"
"""The owner of runs that were requested without an API key."""
ANSWERS, SMALL, BULK = 0, 1, 2
"""Priorities; the lower goes first. An agent waits for answers; a small submission is embedded within a second, as
somebody who adds one document waits for it too; bulk is everything else."""


def priority_of(run: AnyRow, cause: int | None = None) -> int:
    """Return the priority of the run's events; `cause` is the priority of the event that caused them.

    A submission is known to be small when it is recorded, and its events keep that priority from stage to stage.
    """
    if run.kind in ("gate", "scrape", "map"):
        return ANSWERS
    return SMALL if cause == SMALL else BULK


def tenant_queue_of(run: AnyRow) -> str:
    """Return the tenant queue of the run's events."""
    return f"corpus:{run.corpus}" if run.owner == NO_KEY else f"key:{run.owner}"


class Place(NamedTuple):
    """An event's turn, and how many turns come before it: as many events of its own tenant, for those of others that
    come between are no more than the tenants."""

    turn: int = 0
    behind: int = 0


def take_turns(
    connection: Transaction, queues: Sequence[Queue | None], priority: int, tenant_queue: str
) -> list[Place]:
    """Return a place for one event of the tenant queue in each of `queues`, in order; an empty one where it is None.

    The caller must make the events ready, which takes the turns, before it calls this again.
    """
    places = {
        queue: _next_places(connection, queue, priority, tenant_queue) for queue in sorted({q for q in queues if q})
    }
    return [Place() if queue is None else next(places[queue]) for queue in queues]


def _next_places(connection: Transaction, queue: Queue, priority: int, tenant_queue: str) -> Iterator[Place]:
    facts = {"of_queue": queue, "at_priority": priority, "of_lane": tenant_queue}
    if connection.dialect == "postgresql":  # SQLite has one writer at a time
        connection.execute(_ALONE, {"line": f"{queue} {priority} {tenant_queue}"})
    row = connection.execute(_NEXT, facts).one()
    served = row.turn if row.served is None else row.served
    return (Place(turn, turn - served) for turn in count(row.turn))


_HERE = (
    IS_READY,
    events.c.deaths == literal_column("0"),
    events.c.queue == bindparam("of_queue"),
    events.c.priority == bindparam("at_priority"),
)
SERVED = select(events.c.turn).where(*_HERE).order_by(events.c.turn).limit(1)
"""The turn being served. Events on which a worker died have none."""
_OWN_LAST = (
    select(events.c.turn).where(*_HERE, events.c.lane == bindparam("of_lane")).order_by(events.c.turn.desc()).limit(1)
)
_NEXT = select(
    func.coalesce(_OWN_LAST.scalar_subquery() + 1, SERVED.scalar_subquery(), 0).label("turn"),
    SERVED.scalar_subquery().label("served"),
)
_ALONE = select(func.pg_advisory_xact_lock(func.hashtextextended(bindparam("line"), 0)))
"""A lock per tenant queue: each transaction that places events in it sees those of the one before."""


class WakeUp(NamedTuple):
    """A message that its stage has one more ready event. `event_id` names it; the claim may get another."""

    stage: Queue
    event_id: str


@dataclass(frozen=True, slots=True)
class Entry:
    """An event to be written, its dedupe key, and its reservation."""

    event: Event
    dedupe_key: str | None = None
    reserve: Spend | None = None
    payload: str = field(init=False, repr=False)
    """The encoded event. It is encoded early, so that no transaction waits for that."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "payload", encode(self.event).decode())

    @property
    def held(self) -> Spend | None:
        """The reservation held until the event settles; None without a queue, since it is never settled."""
        return self.reserve if self.event.queue else None


TAKEN = select(events.c.dedupe_key).where(
    events.c.run_id == bindparam("of_run"), events.c.dedupe_key == bindparam("of_key")
)
_INDEXED = (
    update(runs)
    .where(runs.c.run_id == bindparam("of_run"), func.coalesce(runs.c.journal_offset, -1) < bindparam("reached"))
    .values(journal_offset=bindparam("reached"))
)


def write(
    connection: Transaction,
    run: AnyRow,
    entries: Sequence[Entry],
    now: float,
    balance: Balance | None = None,
    *,
    cause_priority: int | None = None,
) -> list[Event]:
    """Insert `entries` in order; return the events that were not dropped. Adds their reservations to `balance`.

    `cause_priority` is the priority of the event that caused them.
    """
    fresh = _first_ones(connection, run.run_id, entries)
    if not fresh:
        return []
    priority, tenant_queue = priority_of(run, cause_priority), tenant_queue_of(run)
    places = take_turns(connection, [entry.event.queue for entry in fresh], priority, tenant_queue)
    line = {"priority": priority, "lane": tenant_queue}
    rows = [_row_of(entry, now) | line | place._asdict() for entry, place in zip(fresh, places, strict=True)]
    connection.insert_many(events, rows)
    if balance is not None:
        balance.held = sum((entry.held for entry in fresh if entry.held), balance.held)
    _note_progress(connection, run, [entry.event.body for entry in fresh], now)
    note_events(connection, run, [entry.event for entry in fresh], now)
    return [entry.event for entry in fresh]


def note_published(connection: Transaction, corpus: str, generation: str, journal_offset: int, now: float) -> None:
    """Record the newest generation of a corpus, by which other machines find it."""
    row = {"corpus": corpus, "generation": generation, "journal_offset": journal_offset, "at": now}
    connection.put(published, row, ("corpus",), ("generation", "journal_offset", "at"))


def own_event(run: AnyRow, body: Body, now: float) -> Event:
    """Make an event that the ledger itself causes: it continues the trace of its run."""
    return Event.of(
        body,
        run_id=run.run_id,
        corpus=run.corpus,
        traceparent=run.traceparent,
        occurred_at=moment(now),
        baggage=run_baggage(run.traceparent),
    )


def run_baggage(traceparent: str | None) -> dict[str, str]:
    """Return the baggage that every event of a run carries."""
    return {RUN_TRACEPARENT: traceparent} if traceparent else {}


def wake_ups_of(written: Sequence[Event]) -> list[WakeUp]:
    """Return the wake-ups for the events that have a queue."""
    return [WakeUp(event.queue, event.id) for event in written if event.queue is not None]


def _first_ones(connection: Transaction, run_id: str, entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries whose key is not taken, neither in the run nor by an earlier entry."""
    keys = {storable(entry.dedupe_key) for entry in entries if entry.dedupe_key is not None}
    looks = [{"of_run": run_id, "of_key": key} for key in sorted(keys)]
    free = keys - {row.dedupe_key for row in connection.execute_each(TAKEN, looks)}
    fresh: list[Entry] = []
    for entry in entries:
        if entry.dedupe_key is not None:
            key = storable(entry.dedupe_key)
            if key not in free:
                continue
            free.remove(key)
        fresh.append(entry)
    return fresh


def _row_of(entry: Entry, now: float) -> dict[str, Any]:
    event, reserved = entry.event, amounts_of(entry.held or _NOTHING)
    queue = event.queue
    return {
        "id": event.id,
        "run_id": event.run_id,
        "kind": event.kind,
        "queue": queue,
        "status": "ready" if queue else "recorded",
        "due_at": now if queue else None,
        "dedupe_key": entry.dedupe_key,
        "reserved_on": today(now) if any(reserved.values()) else None,
        "created_at": now,
        "payload": entry.payload,
        **{f"reserve_{unit}": amount for unit, amount in reserved.items()},
    }


_NOTHING = Spend()


def _note_progress(connection: Transaction, run: AnyRow, bodies: Sequence[Body], now: float) -> None:
    run_id = run.run_id
    for body in bodies:
        if isinstance(body, DocumentIndexed):
            connection.execute(_INDEXED, {"of_run": run_id, "reached": body.journal_offset})
        elif isinstance(body, SnapshotPublished):
            connection.update(runs, {"run_id": run_id}, {"generation": body.generation})
            note_published(connection, run.corpus, body.generation, body.journal_offset, now)
        elif isinstance(body, AnswerReady):
            note_answer(connection, run_id, body)
        elif isinstance(body, GateDecided):
            note_decided(connection, run, body, now)
