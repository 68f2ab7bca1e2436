"""The rows of bulk replays: found, shown, and taken from one status to another."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, bindparam, or_, select, update

from sluice.contracts.errors import Conflict, NotFound
from sluice.contracts.operations.dead_letters import DeadLetterFilter, ReplayView
from sluice.ledger.dead_letters import query as letters
from sluice.ledger.dead_letters.audit import record
from sluice.ledger.dead_letters.replay_progress import progress_of
from sluice.ledger.schema.tables import AnyRow, dead_letters, replays
from sluice.ledger.transaction import Transaction

IS_REPLAY = replays.c.id == bindparam("of_replay")
_REPLAY = select(replays).where(IS_REPLAY)
_CHANGE = (
    update(replays)
    .where(IS_REPLAY, or_(replays.c.status == bindparam("either"), replays.c.status == bindparam("or_else")))
    .values(status=bindparam("becomes"), why=bindparam("because"), updated_at=bindparam("moment"))
    .returning(*replays.c)
)


def change(
    connection: Transaction,
    replay_id: str,
    among: tuple[str, ...],
    becomes: str,
    operator: str,
    action: str,
    note: str,
    now: float,
) -> AnyRow:
    """Take a replay from one of the statuses `among` to another, and record who did; its row.

    Raises:
        NotFound: there is no such replay.
        Conflict: it has another status.
    """
    facts = {"of_replay": replay_id, "either": among[0], "or_else": among[-1], "becomes": becomes}
    find(connection, replay_id)
    row = connection.execute(_CHANGE, facts | {"because": note or None, "moment": now}).first()
    if row is None:
        status = find(connection, replay_id).status
        raise Conflict(f"replay {replay_id} is {status}, not {' or '.join(among)}")
    record(connection, now, operator, action, [replay_id], note)
    return row


def finish(connection: Transaction, replay_id: str, now: float) -> AnyRow | None:
    """Say that a running replay is done; its row, or None when it was stopped before."""
    facts: dict[str, Any] = {"of_replay": replay_id, "either": "running", "or_else": "running"}
    return connection.execute(_CHANGE, facts | {"becomes": "done", "because": None, "moment": now}).first()


def own_letters(wanted: DeadLetterFilter, begun: float) -> list[ColumnElement[bool]]:
    """The letters of a replay: what was parked since, again or for the first time, is another's."""
    return [*letters.conditions(wanted), dead_letters.c.last_seen <= begun]


def view_of(connection: Transaction, row: AnyRow) -> ReplayView:
    """A replay as operators see it."""
    return ReplayView(
        id=row.id,
        status=row.status,
        why=row.why,
        filter=DeadLetterFilter.model_validate_json(row.filter),
        per_second=row.per_second,
        force=bool(row.force),
        operator=row.operator,
        note=row.note,
        created_at=datetime.fromtimestamp(row.created_at, UTC),
        updated_at=datetime.fromtimestamp(row.updated_at, UTC),
        total=row.total,
        replayed=row.replayed,
        skips=json.loads(row.skips),
        **progress_of(connection, row.id)._asdict(),
    )


def find(connection: Transaction, replay_id: str) -> AnyRow:
    """The row of a replay.

    Raises:
        NotFound: there is no such replay.
    """
    row = connection.execute(_REPLAY, {"of_replay": replay_id}).first()
    if row is None:
        raise NotFound(f"no replay {replay_id}")
    return row
