"""The rollouts of learned models: the active one, and the results of the others.

Promises: at most one model is active at a time. A change is one transaction with its event and the
audit's entry, and it applies only to the state that the caller read: of two concurrent changes, one is refused.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import bindparam, select

from sluice.contracts.errors import Conflict
from sluice.contracts.event import decode
from sluice.contracts.gate import GateDecided
from sluice.contracts.learning.control import ACTIVE, Rollout, RolloutStep
from sluice.ledger.audit import ControlChange, record_control
from sluice.ledger.database import LedgerPart
from sluice.ledger.runs import CreatedRun
from sluice.ledger.schema.tables import AnyRow, events, moment, outcomes, rollouts
from sluice.ledger.transaction import Transaction

_HAS = rollouts.c
_IS_ACTIVE = _HAS.status.in_(sorted(ACTIVE))
_ACTIVE = select(*(column for column in _HAS if column.name != "history")).where(_IS_ACTIVE)
_ALL = select(rollouts).order_by(_HAS.changed_at.desc(), _HAS.model_version)
_ASKED = ("canary", "promoted", "shadow")
_DECIDED = (
    select(events.c.payload)
    .join(outcomes, outcomes.c.run_id == events.c.run_id)
    .where(
        outcomes.c.model_version == bindparam("of_version"),
        outcomes.c.arm.in_(_ASKED),
        outcomes.c.decided_at >= bindparam("since"),
        events.c.kind == GateDecided.kind,
    )
    .order_by(outcomes.c.decided_at.desc())
    .limit(bindparam("most"))
)
_history = TypeAdapter(tuple[RolloutStep, ...])


class Rollouts(LedgerPart):
    """The rollouts of one ledger. Every method is one transaction and may raise `Unavailable`."""

    def active(self) -> Rollout | None:
        """Return the model that takes part in decisions, without its history, or None. Read for each decision."""
        row = self._database.read(_ACTIVE, {}).first()
        return None if row is None else _rollout(row)

    def list(self) -> Sequence[Rollout]:
        """Return every model that was tried, the latest changed first."""
        return [_rollout(row) for row in self._database.read(_ALL, {}).all()]

    def find(self, model_version: str) -> Rollout | None:
        """Return the rollout of a model; None where it was never tried."""
        with self._database.reading() as connection:
            row = connection.select(rollouts, {"model_version": model_version}).first()
        return None if row is None else _rollout(row)

    def decisions(self, model_version: str, since: float, most: int) -> Sequence[GateDecided]:
        """Return the latest decisions that queried a model, since a moment, in seconds since 1970."""
        rows = self._database.read(_DECIDED, {"of_version": model_version, "since": since, "most": most}).all()
        return [decode(row.payload).body_as(GateDecided) for row in rows]

    def change(self, becomes: Rollout, was: Rollout | None, change: ControlChange) -> CreatedRun:
        """Store `becomes` as its model's rollout and record `change`; the caller announces `CreatedRun.events`.

        `was` is the rollout as the caller read it; None where the model was never tried. Raises `Conflict` if it was
        changed since, or another model is active.
        """
        with self._database.writing() as connection:
            _refuse_second(connection, becomes)
            row = _row_of(becomes)
            if was is None:
                changed = connection.insert_once(rollouts, row)
            else:
                seen = {"status": was.status, "share": was.share, "changed_at": was.changed_at.timestamp()}
                changed = connection.update(rollouts, {"model_version": becomes.model_version, **seen}, row) == 1
            if not changed:
                raise Conflict(f"the rollout of model {becomes.model_version} was changed meanwhile; look at it again")
            return record_control(connection, change, self._clock())


def _refuse_second(connection: Transaction, becomes: Rollout) -> None:
    if not becomes.is_active:
        return
    row = connection.execute(_ACTIVE, {}).first()
    if row is not None and row.model_version != becomes.model_version:
        told = f"model {row.model_version} is active already ({row.status})"
        raise Conflict(f"{told}; one model is tried at a time: `sluice gate rollout --rollback` ends its part first")


_SAME = ("model_version", "model_sha256", "unit", "status", "share", "operator")
_MOMENTS = ("began_at", "stage_began_at", "changed_at")


def _row_of(rollout: Rollout) -> dict[str, Any]:
    return {
        **{name: getattr(rollout, name) for name in _SAME},
        **{name: getattr(rollout, name).timestamp() for name in _MOMENTS},
        "stages": json.dumps([rollout.stages, rollout.expected_runs]),
        "history": _history.dump_json(rollout.history).decode(),
        "active": 1 if rollout.is_active else None,
    }


def _rollout(row: AnyRow) -> Rollout:
    stages, expected_runs = json.loads(row.stages)
    return Rollout(
        stages=stages,
        expected_runs=expected_runs,
        history=_history.validate_json(row.history) if hasattr(row, "history") else (),
        **{name: getattr(row, name) for name in _SAME},
        **{name: moment(getattr(row, name)) for name in _MOMENTS},
    )
