"""The audit of operators' actions, and control runs, which record changes of the gate's controls.

An action is recorded in the transaction that carries it out. A control run begins finished, and its events have no
queue; they, their run and the audit's entry are recorded with the change itself or not at all, and each key is used
once, across all callers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import bindparam, insert, select

from sluice.contracts.event import Body, new_run_id
from sluice.contracts.learning.events import CONTROL_CORPUS
from sluice.contracts.operations.dead_letters import OperatorAction
from sluice.ledger.events.finish import finish
from sluice.ledger.events.outbox import Entry, own_event, write
from sluice.ledger.runs import CreatedRun, NewRun, create, take
from sluice.ledger.schema.tables import moment, operator_actions
from sluice.ledger.transaction import Transaction
from sluice.otel.context import current_traceparent

SLUICE = "sluice"
"""The operator of actions that Sluice takes by itself."""
LET_GO = "let_go"
"""Action on a corpus whose lost records an operator gives up."""

_RECORD = insert(operator_actions).returning(operator_actions.c.seq)
_OF = (
    select(operator_actions)
    .where(operator_actions.c.subject == bindparam("of_subject"))
    .order_by(operator_actions.c.seq)
)


def record(
    connection: Transaction, now: float, operator: str, action: str, subjects: Sequence[str], note: str = ""
) -> None:
    """Record one action on each of `subjects`."""
    facts = {"at": now, "operator": operator, "action": action, "note": note}
    if subjects:
        connection.insert_each(_RECORD, [facts | {"subject": subject} for subject in subjects])


def actions_on(connection: Transaction, subject: str) -> tuple[OperatorAction, ...]:
    """Return the actions on `subject`, in order."""
    return tuple(
        OperatorAction(at=moment(row.at), operator=row.operator, action=row.action, note=row.note)
        for row in connection.execute(_OF, {"of_subject": subject})
    )


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

    make = partial(own_event, row, now=now)
    written = write(connection, row, [Entry(make(body)) for body in change.bodies], now)
    written += finish(connection, row, "finished", make, now)
    record(connection, now, change.operator, change.action, [change.subject], change.note)
    return CreatedRun(run.run_id, True, "finished", tuple(written))
