"""What stands in the ledger at one moment, read past the product's own queries and its own connection."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from sluice.contracts.event import Queue

UNITS = ("nanousd", "pages", "bytes", "tokens", "microseconds")
OPEN = frozenset({"ready", "claimed", "waiting"})

Amounts = tuple[int, ...]
"""How much of each of `UNITS`."""
NOTHING: Amounts = (0,) * len(UNITS)


class Cursor(Protocol):
    """What a cursor of sqlite3 and of psycopg have in common."""

    def fetchall(self) -> list[Any]: ...


class Connection(Protocol):
    """What a connection of sqlite3 and of psycopg have in common. It must not hold a transaction open."""

    def execute(self, query: Any, /) -> Cursor: ...

    def close(self) -> None: ...


class EventRow(NamedTuple):
    """A row of `events`, as far as a law speaks of it."""

    seq: int
    id: str
    run_id: str
    kind: str
    queue: Queue | None
    status: str
    due_at: float | None
    epoch: int
    attempts: int
    deliveries: int
    deaths: int
    worker: str | None
    dedupe_key: str | None
    reserved_on: str | None
    reserve_nanousd: int
    reserve_pages: int
    reserve_bytes: int
    reserve_tokens: int
    reserve_microseconds: int
    payload: str

    @property
    def reserve(self) -> Amounts:
        """What its work may cost."""
        return self[-1 - len(UNITS) : -1]

    @property
    def holds(self) -> bool:
        """Whether its reservation counts."""
        return self.status in OPEN and self.reserved_on is not None

    @property
    def body(self) -> dict[str, Any]:
        """What happened."""
        return _body(self.payload)


class RunRow(NamedTuple):
    """A row of `runs`, as far as a law speaks of it."""

    run_id: str
    kind: str
    corpus: str
    owner: str
    status: str
    idempotency_key: str | None
    request_sha256: str
    deadline_at: float | None
    answer_due_at: float | None
    finished_at: float | None
    settled_events: int
    dead_letters: int
    journal_offset: int | None
    retrying: int


class LetterRow(NamedTuple):
    """A row of `dead_letters`."""

    id: str
    event_id: str | None
    reason: str
    status: str
    replay_count: int


class PauseRow(NamedTuple):
    """A row of `pauses`."""

    stage: Queue
    until: float | None
    operator: str | None
    probes: int


class BeatRow(NamedTuple):
    """A row of `worker_beats`."""

    worker: str
    beat_at: float
    until: float


class LeaseRow(NamedTuple):
    """A row of `leases`."""

    name: str
    holder: str
    until: float


class Account(NamedTuple):
    """Reserved and spent, of a run or of a day, and what they may come to together (of a run, also for its day)."""

    reserved: Amounts
    spent: Amounts
    most: Amounts = NOTHING
    most_per_day: Amounts = NOTHING


@dataclass(frozen=True, slots=True)
class State:
    """Everything that stands in the ledger. What happened first comes first, in every table, as ids are random."""

    events: dict[str, EventRow]
    runs: dict[str, RunRow]
    accounts: dict[str, Account]
    days: dict[str, Account]
    letters: dict[str, LetterRow]
    """By the event that they are about."""
    pauses: dict[str, PauseRow]
    leases: dict[str, LeaseRow]
    beats: dict[str, BeatRow]

    def of_run(self, run_id: str) -> Iterator[EventRow]:
        """The run's events."""
        return (row for row in self.events.values() if row.run_id == run_id)

    def ready(self, stage: Queue | None = None) -> list[EventRow]:
        """The stage's ready events; without one, every stage's."""
        return [row for row in self.events.values() if row.status == "ready" and stage in (None, row.queue)]

    def open_events(self) -> list[EventRow]:
        """Every open event."""
        return [row for row in self.events.values() if row.status in OPEN]


def look(connection: Connection, before: State | None = None) -> State:
    """What stands in the ledger now. Rows that are as they were `before` are the same objects.

    A payload never changes, so it is read once.
    """
    read, known = connection.execute, before.events if before else {}
    bodies = {event_id: row.payload for event_id, row in known.items()}
    last = max((row.seq for row in known.values()), default=0)
    bodies |= dict(read(_LATER_PAYLOADS.format(last)).fetchall())
    found = [EventRow._make((*row, bodies[row[1]])) for row in read(_ALL_EVENTS).fetchall()]
    events = {row.id: known[row.id] if known.get(row.id) == row else row for row in found}
    runs = {row[0]: row for row in read(_ALL_RUNS).fetchall()}
    begun, width = dict.fromkeys(row.run_id for row in events.values()), len(RunRow._fields)
    letters = {row[1]: LetterRow._make(row) for row in read(_ALL_LETTERS).fetchall()}
    return State(
        events=events,
        runs={run_id: RunRow._make(runs[run_id][:width]) for run_id in begun},
        accounts={run_id: Account(*_by_five(runs[run_id][width:])) for run_id in begun},
        days={row[0]: Account(*_by_five(row[1:])) for row in read(_ALL_DAYS).fetchall()},
        letters={event_id: letters[event_id] for event_id in events if event_id in letters},
        pauses={row[0]: PauseRow._make(row) for row in read(_ALL_PAUSES).fetchall()},
        leases={row[0]: LeaseRow._make(row) for row in read(_ALL_LEASES).fetchall()},
        beats={row[0]: BeatRow._make(row) for row in read(_ALL_BEATS).fetchall()},
    )


def added(many: Iterable[Amounts]) -> Amounts:
    """The sum."""
    total = NOTHING
    for one in many:
        total = tuple(map(int.__add__, total, one))
    return total


def _by_five(values: Iterable[int]) -> Iterator[Amounts]:
    given = list(values)
    return (tuple(given[at : at + len(UNITS)]) for at in range(0, len(given), len(UNITS)))


@lru_cache(maxsize=10_000)
def _body(payload: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(payload)["body"]
    return body


def _columns(*prefixes: str) -> tuple[str, ...]:
    return tuple(f"{prefix}_{unit}" for prefix in prefixes for unit in UNITS)


def _query(table: str, columns: Iterable[str]) -> str:
    return f"SELECT {', '.join(columns)} FROM {table} ORDER BY 1"


_ALL_EVENTS = _query("events", EventRow._fields[:-1])
_LATER_PAYLOADS = "SELECT id, payload FROM events WHERE seq > {}"
_ALL_RUNS = _query("runs", (*RunRow._fields, *_columns("reserved", "spent", "run", "day")))
_ALL_DAYS = _query("days", ("day", *_columns("reserved", "spent")))
_ALL_LETTERS = _query("dead_letters", LetterRow._fields)
_ALL_PAUSES = _query("pauses", PauseRow._fields)
_ALL_LEASES = _query("leases", LeaseRow._fields)
_ALL_BEATS = _query("worker_beats", BeatRow._fields)
