"""One dead letter: parked by the transaction that settles its event, and replayed by an operator.

Promises: one dead letter per event, however often it is parked; the payload is kept to the byte, the error with
secrets redacted and its length bounded; failures that differ only in addresses, ids and numbers share a fingerprint.

A parked letter is brought back once, however many callers try at the same time; a refused replay changes nothing. The
failed event comes back unchanged, with the same id and key, with attempts and deaths at zero and at the end of its
tenant queue; the next claim raises its epoch. A letter whose payload was edited comes back as a new event under a new
key, and the failed event stays dead. Either way its cost is reserved anew, and its handler's span is a child of the
operator's, which links to the span that failed.
"""

from __future__ import annotations

import hashlib
import re
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from sqlalchemy import bindparam, case, exists, or_, select, update

from sluice.contracts.budget import Spend
from sluice.contracts.errors import MalformedEvent
from sluice.contracts.event import Body, DeadLetter, DeadLetterReason, Event, Gap, GapFound, decode, new_event_id
from sluice.contracts.operations.dead_letters import SkipReason
from sluice.ledger.audit import record
from sluice.ledger.events import attempts
from sluice.ledger.events.outbox import Entry, take_turns, write
from sluice.ledger.events.reservations import Balance, spend_in, today
from sluice.ledger.runs import take
from sluice.ledger.schema.tables import AnyRow, dead_letter_payloads, dead_letters, events, moment, runs
from sluice.ledger.transaction import Transaction
from sluice.ledger.webhooks.outgoing import note_parked
from sluice.otel.context import current_traceparent, span
from sluice.otel.logs import redact_text

MOST_MESSAGE_CHARACTERS = 4_000
"""Characters kept of an error's message: its beginning, which names the error."""
MOST_STACK_CHARACTERS = 65_536
"""Characters kept of a stack: its end, where the error was raised."""
_BURIED = {"status": "dead", "due_at": None, "worker": None, "reserved_on": None}


def park(
    connection: Transaction,
    run: AnyRow,
    row: AnyRow,
    verdict: DeadLetter,
    make: Callable[[GapFound], Event],
    now: float,
    balance: Balance,
) -> list[Event]:
    """Park a claimed event whose run the caller holds; return the resulting `GapFound` event."""
    balance.free(row)
    connection.update(events, {"id": row.id}, _BURIED)
    event = _readable(row.payload)
    facts = facts_of(row.queue, row.payload.encode(), verdict.reason, verdict.error, now)
    facts |= {"attempts": row.attempts, "deliveries": row.deliveries, "worker": row.worker}
    known = connection.select(dead_letters, {"event_id": row.id}).first()
    letter = {"id": known.id} if known else new_dead_letter(now) | _origin(row, run, event)
    if known:
        connection.update(dead_letters, {"id": known.id}, facts)
    else:
        connection.insert(dead_letters, letter | facts)
    note_parked(connection, run, {"kind": row.kind, **letter, **facts}, now)
    why = f"{verdict.reason}: {facts['message']}"
    attempts.ended(connection, row, "died" if verdict.reason == "poison" else "parked", why, now)
    subject = row.kind if event is None else subject_of(event.body)
    gap = Gap(stage=row.queue, subject=subject, reason=verdict.reason, detail=facts["message"])
    return write(connection, run, [Entry(make(GapFound(gap=gap)))], now)


def _readable(payload: str) -> Event | None:
    try:
        return decode(payload)
    except MalformedEvent:
        return None


def _origin(row: AnyRow, run: AnyRow, event: Event | None) -> dict[str, Any]:
    """Return the origin columns: those known from the row, and those of the envelope if it can be decoded."""
    return {
        "event_id": row.id,
        "run_id": row.run_id,
        "corpus": run.corpus,
        "kind": row.kind,
        "idempotency_key": row.dedupe_key,
        "cause_id": event.cause_id if event else None,
        "schema_version": event.version if event else None,
        "traceparent": event.traceparent if event else run.traceparent,
    }


def subject_of(body: Body) -> str:
    """Return the subject of an event for a reader: its page, question or documents, else its kind."""
    for name in ("url", "query", "subject"):
        if value := getattr(body, name, None):
            return str(value)
    documents: tuple[str, ...] = getattr(body, "document_ids", ())
    if not documents:
        return body.kind
    return documents[0] + (f" and {len(documents) - 1} more" if len(documents) > 1 else "")


def fingerprint_of(stage: str, exception_type: str, message: str) -> str:
    """Return 16 hexadecimal digits, the same for failures that differ only in addresses, ids and numbers."""
    for pattern, stand_in in _VARYING:
        message = pattern.sub(stand_in, message)
    told = "\0".join((stage, exception_type, message.strip()))
    return hashlib.sha256(told.encode("utf-8", "replace")).hexdigest()[:16]


def new_dead_letter(now: float) -> dict[str, Any]:
    """Return the columns of a new dead letter."""
    letter_id = "dead_" + new_event_id().removeprefix("evt_")
    return {"id": letter_id, "first_seen": now, "attempts": 0, "deliveries": 0, "replay_count": 0}


def facts_of(
    stage: str, payload: bytes, reason: DeadLetterReason, error: BaseException | None, now: float
) -> dict[str, Any]:
    """Return the columns that every parking overwrites."""
    exception_type = "" if error is None else type(error).__name__.lstrip("_")
    message = reason if error is None else _beginning(str(error))
    return {
        "stage": stage,
        "reason": reason,
        "exception_type": exception_type,
        "message": message,
        "stack": "" if error is None else _end("".join(traceback.format_exception(error))),
        "fingerprint": fingerprint_of(stage, exception_type, message),
        "last_seen": now,
        "payload": payload,
        "sha256": hashlib.sha256(payload).hexdigest(),
        "status": "parked",
        "code_version": version("sluice"),
    }


def _beginning(text: str) -> str:
    """Redact secrets in the text, then cut it: in this order no half of a secret is left."""
    kept = redact_text(text[: 2 * MOST_MESSAGE_CHARACTERS])
    return kept if len(kept) <= MOST_MESSAGE_CHARACTERS else kept[:MOST_MESSAGE_CHARACTERS] + " …"


def _end(stack: str) -> str:
    """Return the last lines of the stack, each redacted and cut like a message."""
    kept: deque[str] = deque()
    room = MOST_STACK_CHARACTERS
    for line in reversed(stack.splitlines()):
        kept.appendleft(_beginning(line))
        room -= len(kept[0]) + 1
        if room < 0:
            kept[0] = "…"
            break
    return "\n".join(kept)


_VARYING = (
    (re.compile(r"\b[a-z][a-z0-9+.-]{0,30}://\S+", re.IGNORECASE), "<url>"),
    (re.compile(r"\b(?:[a-z]+_)?(?:0x)?[0-9a-f]{8,}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"\d+"), "<n>"),
    (re.compile(r"\s+"), " "),
)


MAX_REPLAYS = 3
"""Replays after which one must be forced: an event that failed four times is not likely to succeed."""


@dataclass(frozen=True, slots=True)
class Orders:
    """The operator who replays a letter, and how. `replay_id` is the bulk replay, if one does it."""

    operator: str
    note: str = ""
    force: bool = False
    replay_id: str | None = None


_IS_EDITED = exists().where(dead_letter_payloads.c.letter_id == dead_letters.c.id)
_CASE = (
    select(
        dead_letters.c.id,
        dead_letters.c.status,
        dead_letters.c.fingerprint,
        dead_letters.c.event_id,
        dead_letters.c.run_id,
        dead_letters.c.schema_version,
        dead_letters.c.replay_count,
        dead_letters.c.traceparent,
        _IS_EDITED.label("is_edited"),
        runs.c.status.label("run_status"),
        events.c.status.label("event_status"),
    )
    .outerjoin(runs, runs.c.run_id == dead_letters.c.run_id)
    .outerjoin(events, events.c.id == dead_letters.c.event_id)
)
CASE = _CASE.add_columns(
    case((or_(_IS_EDITED, dead_letters.c.schema_version.is_(None)), dead_letters.c.payload)).label("payload")
)
"""Columns that `judge` reads; the payload only where it may be unreadable."""
_CASE_OF = _CASE.add_columns(dead_letters.c.payload).where(dead_letters.c.id == bindparam("of_letter"))
_MARK = (
    update(dead_letters)
    .where(dead_letters.c.id == bindparam("of_letter"), dead_letters.c.status == "parked")
    .values(
        status="replayed",
        replay_count=dead_letters.c.replay_count + 1,
        operator=bindparam("by_operator"),
        note=bindparam("because"),
        replay_id=bindparam("by_replay"),
        replayed_as=bindparam("as_event"),
    )
)
_REVIVE = (
    update(events)
    .where(events.c.id == bindparam("of_event"), events.c.status == "dead")
    .values(
        status="ready",
        due_at=bindparam("moment"),
        turn=bindparam("at_turn"),
        behind=bindparam("now_behind"),
        attempts=0,
        deaths=0,
        why=None,
        reserved_on=bindparam("held_on"),
        replay_traceparent=bindparam("below"),
    )
)


@contextmanager
def replay_span(letter: AnyRow, orders: Orders) -> Iterator[None]:
    """Open the operator's span, linked to the failed one."""
    facts = {
        "sluice.dead_letter_id": letter.id,
        "sluice.operator": orders.operator,
        "sluice.replay_id": orders.replay_id,
    }
    with span("Replay", run_id=letter.run_id, event_id=letter.event_id, attributes=facts, links=[letter.traceparent]):
        yield


def case_of(connection: Transaction, letter_id: str) -> AnyRow:
    """Return a letter's row joined with its event and its run. Raises `NotFound` if there is no such letter."""
    return connection.execute(_CASE_OF, {"of_letter": letter_id}).found(f"dead letter {letter_id}")


def judge(row: AnyRow, *, force: bool, is_readable: bool) -> SkipReason | None:
    """Return the reason why the letter of `row` (see `CASE`) cannot be replayed; None when it can."""
    is_event = row.event_id is not None and not row.is_edited
    if row.status != "parked" or (is_event and row.event_status not in ("dead", None)):
        return "not_parked"
    if row.event_id is None and not row.is_edited:
        return "not_an_event"
    if row.run_status is None or (is_event and row.event_status is None):
        return "run_gone"
    if not is_readable:
        return "unreadable"
    if row.run_status == "cancelled" and not force:
        return "run_cancelled"
    if row.replay_count >= MAX_REPLAYS and not force:
        return "replayed_too_often"
    return None


def can_be_read(payload: bytes) -> bool:
    """Return whether a payload is an event that this Sluice knows."""
    try:
        decode(payload)
    except MalformedEvent:
        return False
    return True


def bring_back(connection: Transaction, letter_id: str, orders: Orders, now: float) -> Event | SkipReason:
    """Make the letter's event ready again, or return the reason why not; the caller publishes it.

    Raises:
        NotFound: there is no such letter.
        BudgetExhausted: the event's reservation no longer fits. The caller must undo the transaction.
    """
    row = case_of(connection, letter_id)
    if row.run_id is not None and row.run_status is not None:
        take(connection, row.run_id)
        row = case_of(connection, letter_id)  # # read again, now that the run is locked
    skip = judge(row, force=orders.force, is_readable=can_be_read(row.payload))
    if skip is not None:
        return skip
    failed = decode(row.payload)
    event = _as_new(row, failed, now) if row.is_edited else failed
    if not _mark(connection, row, orders, event):
        return "not_parked"
    record(connection, now, orders.operator, "replay, forced" if orders.force else "replay", [row.id], _told(orders))
    if row.is_edited:
        _insert(connection, row, event, now)
    else:
        _revive(connection, row, now)
    return event


def _mark(connection: Transaction, row: AnyRow, orders: Orders, event: Event) -> bool:
    facts = {"by_operator": orders.operator, "because": orders.note, "by_replay": orders.replay_id}
    facts |= {"of_letter": row.id, "as_event": event.id if row.is_edited else None}
    return connection.execute(_MARK, facts).rowcount == 1


def _told(orders: Orders) -> str:
    return orders.note if orders.replay_id is None else f"{orders.replay_id} {orders.note}".strip()


def _revive(connection: Transaction, row: AnyRow, now: float) -> None:
    run = take(connection, row.run_id, dead=-1)
    event = connection.select(events, {"id": row.event_id}).one()
    [place] = take_turns(connection, [event.queue], event.priority, event.lane)
    reserve = spend_in(event, "reserve")
    held_on = today(now) if reserve != Spend() else None
    facts = {
        "moment": now,
        "at_turn": place.turn,
        "now_behind": place.behind,
        "held_on": held_on,
        "below": current_traceparent(),
    }
    connection.execute(_REVIVE, {"of_event": event.id, **facts})
    Balance(held=reserve).carry_out(connection, run, now)


def _insert(connection: Transaction, row: AnyRow, event: Event, now: float) -> None:
    run, balance = take(connection, row.run_id), Balance()
    origin = connection.select(events, {"id": row.event_id}).first()
    reserve = spend_in(origin, "reserve") if origin else None
    write(connection, run, [Entry(event, f"edited:{row.id}", reserve)], now, balance)
    balance.carry_out(connection, run, now)


def _as_new(row: AnyRow, edited: Event, now: float) -> Event:
    """Return the edited payload as a new event, caused by the failed one."""
    event = Event.of(
        edited.body,
        run_id=edited.run_id,
        corpus=edited.corpus,
        traceparent=current_traceparent() or edited.traceparent,
        occurred_at=moment(now),
        baggage=edited.baggage,
    )
    return event.model_copy(update={"cause_id": row.event_id or edited.cause_id})
