"""Control runs: they record changes of the gate's controls, begin finished, and their events have no queue.

Promises: the events, their run and the audit's entry are recorded in the caller's transaction, together with the
change itself or not at all; and each key is used once, across all callers.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from sluice.contracts.event import Body, Event, new_run_id
from sluice.contracts.learning.events import CONTROL_CORPUS
from sluice.ledger.dead_letters.audit import SLUICE, record
from sluice.ledger.events.finish import finish
from sluice.ledger.events.outbox import Entry, own_event, write
from sluice.ledger.runs import CreatedRun, NewRun, create, take
from sluice.ledger.transaction import Transaction
from sluice.otel.context import current_traceparent


@dataclass(frozen=True, slots=True)
class ControlChange:
    """A change of the gate's controls, and its audit: who did `action` (`flag_off`) to `subject` (`flag:search`).

    `bodies` are its events, without a queue. Of several changes with one `key` only the first is recorded.
    """

    bodies: tuple[Body, ...]
    action: str
    subject: str
    operator: str = SLUICE
    note: str = ""
    key: str | None = None


def record_control(connection: Transaction, change: ControlChange, now: float) -> CreatedRun:
    """Record a change in a control run of its own, and the action in the operators' audit.

    If its key was used before, records nothing and returns the earlier run. The caller announces `CreatedRun.events`.
    """
    run = NewRun(
        run_id=new_run_id(),
        kind="control",
        corpus=CONTROL_CORPUS,
        request_sha256=hashlib.sha256(f"control:{change.key}".encode()).hexdigest(),
        owner=SLUICE,
        query=f"{change.action} {change.subject}" + (f": {change.note}" if change.note else ""),
        idempotency_key=change.key,
        traceparent=current_traceparent(),
    )
    created = create(connection, run, (), now)
    if not created.created:
        return created
    row = take(connection, run.run_id)

    def make(body: Body) -> Event:
        return own_event(row, body, now)

    written = write(connection, row, [Entry(make(body)) for body in change.bodies], now)
    written += finish(connection, row, "finished", make, now)
    record(connection, now, change.operator, change.action, [change.subject], change.note)
    return CreatedRun(run.run_id, True, "finished", tuple(written))
