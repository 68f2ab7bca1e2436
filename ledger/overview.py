"""What an instance does at the moment, in one consistent view; and the pool sizes that operators ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import literal_column, select

from sluice.contracts.event import Queue
from sluice.contracts.operations.overview import OpenRun, StageMinute
from sluice.ledger import run_lists, stage_minutes
from sluice.ledger.audit import BACKUP, record
from sluice.ledger.database import LedgerPart
from sluice.ledger.dead_letters.query import count_reasons
from sluice.ledger.schema.tables import moment, operator_actions, pool_sizes

MINUTES = 60
_OLDEST_RUNS = 5

_LAST_BACKUP = (
    select(operator_actions.c.at, operator_actions.c.note)
    .where(operator_actions.c.action == literal_column(f"'{BACKUP}'"))
    .order_by(operator_actions.c.seq.desc())
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class Glance:
    """What the ledger knows of an instance beside its queues. Minutes are those of the last hour, oldest first."""

    minutes: Mapping[str, tuple[StageMinute, ...]]
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
            minutes = stage_minutes.since(connection, int(now // 60) - MINUTES + 1)
            letters = count_reasons(connection, today)
            oldest = run_lists.oldest_open(connection, _OLDEST_RUNS)
            backup = connection.execute(_LAST_BACKUP).first()
        return Glance(
            minutes,
            {reason: parked for reason, (parked, _) in letters.items()},
            sum(recent for _, recent in letters.values()),
            tuple(oldest),
            moment(backup.at) if backup else None,
            backup.note if backup else None,
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
