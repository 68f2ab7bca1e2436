"""The gate's steps back for operators: which stand and why, and lifting one before it heals."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from sluice.contracts.api import DefenceView
from sluice.contracts.errors import Conflict, NotFound
from sluice.contracts.learning.control import DefenceName
from sluice.contracts.learning.events import DefenceHealed
from sluice.evaluation.defence.watch import DefenceState, heal
from sluice.ledger.events.control_runs import ControlChange
from sluice.ledger.learning.defences import DefenceRow
from sluice.ledger.ledger import Ledger
from sluice.workers.context import Context
from sluice.workers.service.learning.control_events import announce_control

_ATTEMPTS = 5
"""The look of another process may come between reading and writing; it takes milliseconds."""


def list_defences(ledger: Ledger) -> list[DefenceView]:
    """Every defence that has looked at something: by name and profile."""
    _, rows = ledger.defences.rows()
    return [_view(row) for row in rows]


def lift_defence(
    context: Context, name: DefenceName, operator: str, profile: str | None = None, note: str = ""
) -> Sequence[DefenceView]:
    """End a step back of one profile, or of all where none is named. Its windows begin anew. Recorded and audited.

    Raises:
        NotFound: none of that name stands.
        Conflict: other processes changed the steps back all the time; nothing was lifted.
    """
    ledger = context.ledger
    for _ in range(_ATTEMPTS):
        position, rows = ledger.defences.rows()
        standing = [row for row in rows if row.name == name and row.tripped_at and profile in (None, row.profile)]
        if not standing:
            of = "" if profile is None else f" of profile {profile!r}"
            raise NotFound(f"no step back {name!r}{of} stands; `sluice gate defences list` tells which do")
        lifted = [_lifted(row, ledger.clock()) for row in standing]
        changes = [_change(row, operator, note) for row in standing]
        created = ledger.defences.write(position, position, lifted, changes)
        if created is not None:
            for run in created:
                announce_control(context, run)
            return [_view(row) for row in lifted]
    raise Conflict("the steps back changed meanwhile: try again")


def _lifted(row: DefenceRow, now: float) -> DefenceRow:
    state = heal(DefenceState.model_validate_json(row.state))
    if row.name == "cost":
        state = state.model_copy(update={"lifted_day": datetime.fromtimestamp(now, UTC).date().isoformat()})
    return DefenceRow(row.name, row.profile, state.model_dump_json(), None)


def _change(row: DefenceRow, operator: str, note: str) -> ControlChange:
    why = note or "lifted"
    healed = DefenceHealed.model_validate(
        {"name": row.name, "profile": row.profile, "by": "operator", "why": why, "operator": operator}
    )
    return ControlChange((healed,), "defence_lift", f"defence:{row.name}:{row.profile}", operator, note)


def _view(row: DefenceRow) -> DefenceView:
    state = DefenceState.model_validate_json(row.state)
    windows = tuple(
        f"{datetime.fromtimestamp(one.closed_at, UTC):%Y-%m-%d %H:%M} {one.verdict}: {one.why}" for one in state.closed
    )
    facts = {"name": row.name, "profile": row.profile, "stands": state.tripped, "windows": windows}
    return DefenceView.model_validate(
        facts | {"configuration": state.configuration, "falls_back_to": state.falls_back_to}
    )
