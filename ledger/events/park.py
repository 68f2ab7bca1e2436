"""Parking: turns an event that cannot be handled into a dead letter and a gap, in its settling transaction.

Promises: one dead letter per event, however often it is parked; the payload is kept to the byte, the error with
secrets redacted and its length bounded; failures that differ only in addresses, ids and numbers share a fingerprint.
"""

from __future__ import annotations

import hashlib
import re
import traceback
from collections import deque
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from sluice.contracts.errors import MalformedEvent
from sluice.contracts.event import Body, DeadLetter, DeadLetterReason, Event, Gap, GapFound, decode, new_event_id
from sluice.ledger.events.outbox import Entry, write
from sluice.ledger.events.reservations import Balance
from sluice.ledger.schema.tables import AnyRow, dead_letters, events
from sluice.ledger.transaction import Transaction
from sluice.otel.redact import redact_text

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
    if connection.update(dead_letters, {"event_id": row.id}, facts) == 0:
        connection.insert(dead_letters, new_dead_letter(now) | facts | _origin(row, run, event))
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
    return hashlib.sha256(
        "\0".join((stage, exception_type, _normalised(message))).encode("utf-8", "replace")
    ).hexdigest()[:16]


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


def _normalised(message: str) -> str:
    for pattern, stand_in in _VARYING:
        message = pattern.sub(stand_in, message)
    return message.strip()
