"""Parking: how an event that cannot be handled becomes a dead letter and a gap, in its settling transaction.

Promises: one dead letter per event, however often it is parked; the payload and the error are kept whole; failures
that differ only in addresses, ids and numbers share a fingerprint.
"""

from __future__ import annotations

import hashlib
import re
import traceback
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, bindparam, insert, update

from contracts.event import Event, Gap, GapFound
from contracts.ids import new_event_id
from contracts.outcome import DeadLetter
from workers.outbox import Entry, write
from workers.reservations import let_go
from workers.schema import AnyRow, dead_letters, events

_BURY = (
    update(events)
    .where(events.c.id == bindparam("of_event"))
    .values(status="dead", due_at=None, worker=None, reserved_on=None)
)
_SEEN_AGAIN = update(dead_letters).where(dead_letters.c.event_id == bindparam("of_event"))


def park(
    connection: Connection,
    run: AnyRow,
    row: AnyRow,
    event: Event,
    verdict: DeadLetter,
    make: Callable[[GapFound], Event],
    now: float,
) -> list[Event]:
    """Park a claimed event whose run the caller holds; the gap it leaves, as an event."""
    let_go(connection, run.run_id, row)
    connection.execute(_BURY, {"of_event": event.id})
    facts = facts_of(row.queue, row.payload.encode(), verdict.reason, verdict.error, now)
    counts = {"attempts": row.attempts, "deliveries": row.deliveries, "worker": row.worker}
    if connection.execute(_SEEN_AGAIN.values(**facts, **counts), {"of_event": event.id}).rowcount == 0:
        named = {"event_id": event.id, "run_id": event.run_id, "kind": event.kind, "traceparent": event.traceparent}
        connection.execute(insert(dead_letters), new_letter(now) | facts | counts | named)
    gap = Gap(stage=row.queue, subject=subject_of(event), reason=verdict.reason, detail=facts["message"])
    return write(connection, run, [Entry(make(GapFound(gap=gap)))], now)


def subject_of(event: Event) -> str:
    """What the event is about, in a reader's words: its page, question or documents, else its kind."""
    body = event.body
    for name in ("url", "query"):
        if value := getattr(body, name, None):
            return str(value)
    documents: tuple[str, ...] = getattr(body, "document_ids", ())
    if not documents:
        return event.kind
    return documents[0] + (f" and {len(documents) - 1} more" if len(documents) > 1 else "")


def fingerprint_of(stage: str, exception_type: str, message: str) -> str:
    """The same 16 hexadecimal digits for failures that differ only in addresses, ids and numbers."""
    return hashlib.sha256(
        "\0".join((stage, exception_type, _normalised(message))).encode("utf-8", "replace")
    ).hexdigest()[:16]


def new_letter(now: float) -> dict[str, Any]:
    """The columns of a dead letter that has not been seen before."""
    letter_id = "dead_" + new_event_id().removeprefix("evt_")
    return {"id": letter_id, "first_seen": now, "attempts": 0, "deliveries": 0, "replay_count": 0}


def facts_of(stage: str, payload: bytes, reason: str, error: BaseException | None, now: float) -> dict[str, Any]:
    """The columns that every parking sets anew."""
    exception_type = "" if error is None else type(error).__name__.lstrip("_")
    message = reason if error is None else str(error)
    return {
        "stage": stage,
        "reason": reason,
        "exception_type": exception_type,
        "message": message,
        "stack": "" if error is None else "".join(traceback.format_exception(error)),
        "fingerprint": fingerprint_of(stage, exception_type, message),
        "last_seen": now,
        "payload": payload,
        "sha256": hashlib.sha256(payload).hexdigest(),
        "status": "parked",
    }


_VARYING = (
    (re.compile(r"\b[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE), "<url>"),
    (re.compile(r"\b(?:[a-z]+_)?(?:0x)?[0-9a-f]{8,}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"\d+"), "<n>"),
    (re.compile(r"\s+"), " "),
)


def _normalised(message: str) -> str:
    for pattern, stand_in in _VARYING:
        message = pattern.sub(stand_in, message)
    return message.strip()
