"""Dead letters: events that could not be handled, kept whole until an operator decides.

The life of a failure:

1. A handler ends in an outcome. `Retry` puts the event back as `waiting`, with its next attempt's moment.
2. The reconciler makes it `ready` at that moment and publishes it; a worker claims it, under a new epoch.
3. After its last attempt (`exhausted`), at a permanent error (the reason that the handler names), or when it has
   killed its worker too often (`poison`), the event is parked: its row is `dead`, a dead letter keeps payload, error
   and history, and a `GapFound` tells the run what it must do without. All that in the transaction that settles it.
4. A raw item of the broker that is no event at all is parked too (`malformed`, `unroutable`), with its bytes.
5. The operator looks (`list`, `show`) and replays: the same event, id and dedupe key, becomes `ready` again with its
   attempts and deaths at nought; the next claim raises the epoch. Its run, if finished, stays finished.
6. Parked once more, it is the same dead letter, seen again. After three replays a further one must be forced.

Every operator action is recorded: who, when, what.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, bindparam, insert, select, update

from contracts.budget import Spend
from contracts.errors import Conflict, NotFound
from contracts.event import Event, Queue, decode
from workers.database import Database
from workers.parking import facts_of, new_letter
from workers.reservations import hold, today, usd
from workers.runs import take
from workers.schema import AnyRow, dead_letters, events, operator_actions

MAX_REPLAYS = 3
"""Replays after which one must be forced: what failed four times is not going to mend itself."""


@dataclass(frozen=True, slots=True)
class ParkedLetter:
    """A dead letter as an operator sees it. `stage` is the queue that failed, `payload` the bytes as they came."""

    id: str
    event_id: str | None
    run_id: str | None
    stage: str
    kind: str | None
    reason: str
    exception_type: str
    message: str
    stack: str
    fingerprint: str
    attempts: int
    deliveries: int
    first_seen: datetime
    last_seen: datetime
    worker: str | None
    traceparent: str | None
    payload: bytes
    sha256: str
    replay_count: int
    status: str
    operator: str | None
    note: str | None


@dataclass(frozen=True, slots=True)
class OperatorAction:
    """What an operator did to a dead letter."""

    at: datetime
    operator: str
    action: str
    note: str


_REVIVE = (
    update(events)
    .where(events.c.id == bindparam("of_event"), events.c.status == "dead")
    .values(
        status="ready",
        due_at=bindparam("moment"),
        attempts=0,
        deaths=0,
        why=None,
        reserved_on=bindparam("held_on"),
    )
)
_EVENT = select(events).where(events.c.id == bindparam("of_event"))
_LETTER = select(dead_letters).where(dead_letters.c.id == bindparam("of_letter"))
_REPLAYED = (
    update(dead_letters)
    .where(dead_letters.c.id == bindparam("of_letter"))
    .values(status="replayed", replay_count=dead_letters.c.replay_count + 1, operator=bindparam("by_operator"))
)
_ACTIONS = (
    select(operator_actions)
    .where(operator_actions.c.subject == bindparam("of_letter"))
    .order_by(operator_actions.c.seq)
)


class DeadLetters:
    """What operators do with dead letters."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    def park_raw(self, raw: bytes, queue: Queue, reason: str, error: BaseException | None = None) -> str:
        """Keep an item of the broker that is no event; the new dead letter's id."""
        now = self._clock()
        letter = new_letter(now) | facts_of(queue, raw, reason, error, now)
        with self._database.writing() as connection:
            connection.execute(insert(dead_letters), letter)
        return str(letter["id"])

    def list(
        self,
        *,
        stage: str | None = None,
        reason: str | None = None,
        fingerprint: str | None = None,
        run_id: str | None = None,
        status: str | None = "parked",
        limit: int = 100,
    ) -> Sequence[ParkedLetter]:
        """Dead letters that meet every filter given, the latest first. `status` None: whatever their status."""
        wanted = {"stage": stage, "reason": reason, "fingerprint": fingerprint, "run_id": run_id, "status": status}
        conditions = [dead_letters.c[name] == value for name, value in wanted.items() if value is not None]
        newest = select(dead_letters).where(*conditions).order_by(dead_letters.c.last_seen.desc()).limit(limit)
        with self._database.reading() as connection:
            return [_letter(row) for row in connection.execute(newest)]

    def show(self, letter_id: str) -> ParkedLetter:
        """One dead letter.

        Raises:
            NotFound: there is no such dead letter.
        """
        with self._database.reading() as connection:
            return _letter(_found(connection, letter_id))

    def actions(self, letter_id: str) -> Sequence[OperatorAction]:
        """What operators did to a dead letter, in order."""
        with self._database.reading() as connection:
            rows = connection.execute(_ACTIONS, {"of_letter": letter_id}).all()
        return [OperatorAction(_moment(row.at), row.operator, row.action, row.note) for row in rows]

    def replay(self, letter_id: str, operator: str, *, force: bool = False, note: str = "") -> Event:
        """Make the event ready again; the caller publishes it.

        Raises:
            NotFound: there is no such dead letter.
            Conflict: it is not parked, is no event, or was replayed `MAX_REPLAYS` times and is not forced.
            BudgetExhausted: what the event may cost no longer fits.
        """
        now = self._clock()
        with self._database.writing() as connection:
            run = _run_of(connection, _found(connection, letter_id))
            letter = _found(connection, letter_id)  # as it is now that the run is held
            _refuse_replay(letter, force)
            event = connection.execute(_EVENT, {"of_event": letter.event_id}).one()
            _revive(connection, run, event, now)
            connection.execute(_REPLAYED, {"of_letter": letter_id, "by_operator": operator})
            _record(connection, now, operator, "replay, forced" if force else "replay", letter_id, note)
            return decode(event.payload)


def _run_of(connection: Connection, letter: AnyRow) -> AnyRow:
    if letter.event_id is None:
        raise Conflict(f"dead letter {letter.id} is no event, so there is nothing to replay")
    return take(connection, letter.run_id, dead=-1)


def _refuse_replay(letter: AnyRow, force: bool) -> None:
    if letter.status != "parked":
        raise Conflict(f"dead letter {letter.id} is {letter.status}, not parked")
    if letter.replay_count >= MAX_REPLAYS and not force:
        raise Conflict(f"dead letter {letter.id} was replayed {letter.replay_count} times; force it to try again")


def _revive(connection: Connection, run: AnyRow, event: AnyRow, now: float) -> None:
    reserve = Spend(usd=usd(event.reserve_nanousd), pages=event.reserve_pages)
    hold(connection, run, [reserve], now)
    held_on = today(now) if event.reserve_nanousd or event.reserve_pages else None
    connection.execute(_REVIVE, {"of_event": event.id, "moment": now, "held_on": held_on})


def _record(connection: Connection, now: float, operator: str, action: str, subject: str, note: str) -> None:
    row = {"at": now, "operator": operator, "action": action, "subject": subject, "note": note}
    connection.execute(insert(operator_actions), row)


def _found(connection: Connection, letter_id: str) -> AnyRow:
    row = connection.execute(_LETTER, {"of_letter": letter_id}).first()
    if row is None:
        raise NotFound(f"no dead letter {letter_id}")
    return row


def _letter(row: AnyRow) -> ParkedLetter:
    values = dict(row._mapping)
    for name in ("first_seen", "last_seen"):
        values[name] = _moment(values[name])
    return ParkedLetter(**values)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
