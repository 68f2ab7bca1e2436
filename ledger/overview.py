"""What an instance does at the moment, in one consistent view; and the pool sizes that operators ask for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import bindparam, func, literal_column, select

from sluice.contracts.event import QUEUES, Queue
from sluice.contracts.operations.overview import OpenRun, StageMinute
from sluice.ledger.audit import record
from sluice.ledger.database import LedgerPart
from sluice.ledger.schema.tables import AnyRow, dead_letters, moment, operator_actions, pool_sizes, runs, stage_minutes

MINUTES = 60
BACKUP = "backup"
"""Action of the audit by which a finished backup is recorded, with its place as the note."""
_OLDEST_RUNS = 5

_MINUTES = (
    select(stage_minutes)
    .where(stage_minutes.c.stage.in_(QUEUES), stage_minutes.c.minute > bindparam("after"))
    .order_by(stage_minutes.c.stage, stage_minutes.c.minute)
)
_IS_PARKED = dead_letters.c.status == "parked"
_REASONS = (
    select(dead_letters.c.reason, func.count().label("letters")).where(_IS_PARKED).group_by(dead_letters.c.reason)
)
_LETTERS_SINCE = select(func.count()).where(_IS_PARKED, dead_letters.c.last_seen >= bindparam("since"))
_OLDEST = (
    select(*(runs.c[name] for name in ("run_id", "kind", "corpus", "query", "created_at", "retrying")))
    .where(runs.c.status == bindparam("of_status"))
    .order_by(runs.c.run_id)
    .limit(_OLDEST_RUNS)
)
_LAST_BACKUP = (
    select(operator_actions.c.at, operator_actions.c.note)
    .where(operator_actions.c.action == literal_column(f"'{BACKUP}'"))
    .order_by(operator_actions.c.seq.desc())
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class Glance:
    """What the ledger knows of an instance beside its queues. Minutes are those of the last hour, oldest first."""

    minutes: Mapping[Queue, tuple[StageMinute, ...]]
    letters: Mapping[str, int]
    letters_today: int
    oldest_runs: tuple[OpenRun, ...]
    last_backup_at: datetime | None
    last_backup: str | None


class Glances(LedgerPart):
    """Reads what an overview shows beside the stages themselves."""

    def look(self) -> Glance:
        """Return it in one consistent view; every query goes by an index."""
        now = self._clock()
        today = moment(now).replace(hour=0, minute=0, second=0, microsecond=0)
        with self._database.reading() as connection:
            by_stage: dict[Queue, list[StageMinute]] = defaultdict(list)
            for row in connection.execute(_MINUTES, {"after": int(now // 60) - MINUTES}):
                by_stage[row.stage].append(_minute(row))
            reasons = {row.reason: row.letters for row in connection.execute(_REASONS)}
            letters_today = int(connection.execute(_LETTERS_SINCE, {"since": today.timestamp()}).scalar() or 0)
            oldest = [
                OpenRun(**{**row._asdict(), "created_at": moment(row.created_at)})
                for status in ("open", "answering")
                for row in connection.execute(_OLDEST, {"of_status": status})
            ]
            backup = connection.execute(_LAST_BACKUP).first()
        oldest.sort(key=lambda run: run.created_at)
        return Glance(
            {stage: tuple(found) for stage, found in by_stage.items()},
            reasons,
            letters_today,
            tuple(oldest[:_OLDEST_RUNS]),
            moment(backup.at) if backup else None,
            backup.note if backup else None,
        )


def _minute(row: AnyRow) -> StageMinute:
    ended = row.handled + row.failed + row.parked
    return StageMinute(
        at=datetime.fromtimestamp(0, UTC) + timedelta(minutes=row.minute),
        **{name: getattr(row, name) for name in ("entered", "handled", "failed", "parked", "longest_wait_ms")},
        mean_wait_ms=row.wait_ms / ended if ended else 0.0,
        mean_work_ms=row.work_ms / ended if ended else 0.0,
    )


class PoolSizes(LedgerPart):
    """How many events of a stage operators want to be handled at once. What they do not say, the settings say."""

    def all(self) -> dict[Queue, int]:
        """Return the sizes that operators asked for, by stage."""
        return {row.stage: row.wanted for row in self._database.read(select(pool_sizes))}

    def ask(self, stage: Queue, wanted: int | None, operator: str, note: str = "") -> None:
        """Record the size that is wanted from now on; None goes back to the settings. Audited."""
        told = f"{'as the settings say' if wanted is None else wanted}{f': {note}' if note else ''}"
        with self._database.writing() as connection:
            record(connection, self._clock(), operator, "scale", [f"stage:{stage}"], told)
            if wanted is None:
                connection.delete(pool_sizes, {"stage": stage})
            else:
                row = {"stage": stage, "wanted": wanted, "operator": operator, "at": self._clock()}
                connection.put(pool_sizes, row, ("stage",), ("wanted", "operator", "at"))
