"""Records operators' actions, in the transaction that carries them out."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import bindparam, insert, select

from sluice.contracts.operations.dead_letters import OperatorAction
from sluice.ledger.schema.columns import moment
from sluice.ledger.schema.tables import operator_actions
from sluice.ledger.transaction import Transaction

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
