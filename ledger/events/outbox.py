"""Writes events as ledger rows, before they become messages.

Promises: within a run a dedupe key is taken once, and a second event with it is dropped silently. The caller holds
the run's row, so no other transaction inserts into the run meanwhile, and `seq` is the order of commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import bindparam, func, insert, select, update

from sluice.contracts.budget import Spend
from sluice.contracts.event import Body, Event, Queue, encode
from sluice.contracts.gate import GateDecided
from sluice.contracts.index import AnswerReady, DocumentIndexed, SnapshotPublished
from sluice.ledger.events.fair_queue import priority_of, take_turns, tenant_queue_of
from sluice.ledger.events.reservations import Balance, amounts_of, today
from sluice.ledger.learning.outcome_rows import note_decided
from sluice.ledger.schema.tables import AnyRow, events, moment, runs, storable
from sluice.ledger.transaction import Transaction
from sluice.ledger.trust.citations import note_answer
from sluice.otel.context import RUN_TRACEPARENT


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


_INSERT = insert(events).returning(events.c.id)
_TAKEN = select(events.c.dedupe_key).where(
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
    turns = take_turns(connection, [entry.event.queue for entry in fresh], priority, tenant_queue)
    place = {"priority": priority, "lane": tenant_queue}
    rows = [_row_of(entry, now) | place | {"turn": turn} for entry, turn in zip(fresh, turns, strict=True)]
    connection.insert_each(_INSERT, rows)
    if balance is not None:
        balance.held = sum((entry.held for entry in fresh if entry.held), balance.held)
    _note_progress(connection, run, [entry.event.body for entry in fresh], now)
    return [entry.event for entry in fresh]


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
    free = keys - {row.dedupe_key for row in connection.execute_each(_TAKEN, looks)}
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
        elif isinstance(body, AnswerReady):
            note_answer(connection, run_id, body)
        elif isinstance(body, GateDecided):
            note_decided(connection, run, body, now)
