"""Schedules as the ledger keeps them.

A time that is due is used in two transactions: a run is recorded, under an idempotency key of the schedule and that
time, and `ran` moves the schedule on. A process that dies between them leaves the time due: the next look records the
same run again, which the key makes no second one, and moves on. So each time that is due has exactly one run, however
many processes look.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, exists, func, select, update

from sluice.contracts.errors import Conflict, NotFound
from sluice.contracts.operations.schedules import Schedule
from sluice.ledger.database import LedgerPart
from sluice.ledger.events.finish import UNFINISHED
from sluice.ledger.schema.tables import AnyRow, conditions_on, moment, perhaps_moment, runs, schedules

MOST_OF_OWNER = 100
"""Schedules of one API key: each may begin a run a minute, which no rate of requests bounds."""

_S = schedules.c
_IS_UNDER_WAY = exists().where(runs.c.run_id == _S.last_run_id, runs.c.status.in_(UNFINISHED))
_DUE = (
    select(schedules)
    .where(_S.due_at <= bindparam("moment"), ~_IS_UNDER_WAY)
    .order_by(_S.due_at, _S.id)
    .limit(bindparam("most"))
)
_COUNT = select(func.count()).where(_S.owner == bindparam("of_owner"))
_MOVE = update(schedules).where(_S.id == bindparam("of_id"), _S.due_at == bindparam("was_due"))
_RAN = _MOVE.values(due_at=bindparam("next_due"), last_due_at=bindparam("was_due"), last_problem=bindparam("problem"))
_STOP = _MOVE.values(due_at=None, stopped_because=bindparam("because"))


@dataclass(frozen=True, slots=True)
class DueSchedule:
    """A schedule whose time has come."""

    schedule: Schedule
    due_at: float
    """As its column holds it."""

    @property
    def key(self) -> str:
        """Return the idempotency key of the run for this time."""
        return f"schedule:{self.schedule.id}:{self.due_at!r}"


class Schedules(LedgerPart):
    """The schedules of one ledger. Every method is one transaction, and may raise `Unavailable`."""

    def insert(self, schedule_id: str, owner: str, corpus: str, columns: dict[str, Any]) -> Schedule:
        """Record a schedule. Raises `Conflict` if its owner has `MOST_OF_OWNER`."""
        row = {"id": schedule_id, "owner": owner, "corpus": corpus, "created_at": self._clock(), **columns}
        with self._database.writing() as connection:
            if int(connection.execute(_COUNT, {"of_owner": owner}).scalar() or 0) >= MOST_OF_OWNER:
                raise Conflict(f"this key has {MOST_OF_OWNER} schedules: remove one first")
            connection.insert(schedules, row)
            return _read(connection.select(schedules, {"id": schedule_id}).one())

    def find(self, schedule_id: str) -> Schedule:
        """Return a schedule. Raises `NotFound`."""
        with self._database.reading() as connection:
            return _read(connection.select(schedules, {"id": schedule_id}).found(f"schedule {schedule_id}"))

    def some(
        self, limit: int, after: str | None, *, owner: str | None, corpora: Collection[str] | None
    ) -> Sequence[Schedule]:
        """Return schedules of an owner (None: of all) and of some corpora (None: of all), the oldest first."""
        wanted = conditions_on({_S.owner: owner}, _S.corpus, corpora)
        if after is not None:
            wanted.append(_S.id > after)
        return [
            _read(row) for row in self._database.read(select(schedules).where(*wanted).order_by(_S.id).limit(limit))
        ]

    def change(self, schedule_id: str, columns: dict[str, Any]) -> Schedule:
        """Set these columns. Raises `NotFound`."""
        with self._database.writing() as connection:
            if columns:
                connection.update(schedules, {"id": schedule_id}, columns)
            return _read(connection.select(schedules, {"id": schedule_id}).found(f"schedule {schedule_id}"))

    def delete(self, schedule_id: str) -> None:
        """Remove a schedule. Raises `NotFound`."""
        with self._database.writing() as connection:
            if not connection.delete(schedules, {"id": schedule_id}):
                raise NotFound(f"no schedule {schedule_id}")

    def due(self, most: int) -> Sequence[DueSchedule]:
        """Return the schedules whose time has come and whose last run is over, the longest overdue first."""
        rows = self._database.read(_DUE, {"moment": self._clock(), "most": most}).all()
        return [DueSchedule(_read(row), row.due_at) for row in rows]

    def ran(self, one: DueSchedule, run_id: str | None, next_at: datetime | None, problem: str | None = None) -> None:
        """Record the run for a time that was due, or why there was none, and the next time.

        A schedule that was changed meanwhile keeps the next time that it has.
        """
        facts = {"of_id": one.schedule.id, "was_due": one.due_at, "problem": problem}
        with self._database.writing() as connection:
            connection.execute(_RAN, {**facts, "next_due": next_at and next_at.timestamp()})
            if run_id is not None:
                connection.update(schedules, {"id": one.schedule.id}, {"last_run_id": run_id})

    def stop(self, one: DueSchedule, because: str) -> None:
        """Stop a schedule that may not run any more, unless it was changed meanwhile."""
        with self._database.writing() as connection:
            connection.execute(_STOP, {"of_id": one.schedule.id, "was_due": one.due_at, "because": because})


def _read(row: AnyRow) -> Schedule:
    return Schedule(
        **json.loads(row.request),
        **{name: getattr(row, name) for name in ("id", "name", "corpus", "cron", "time_zone", "owner")},
        every=row.every_seconds,
        created_at=moment(row.created_at),
        next_at=perhaps_moment(row.due_at),
        stopped_because=row.stopped_because,
        last_at=perhaps_moment(row.last_due_at),
        last_run_id=row.last_run_id,
        last_problem=row.last_problem,
    )
