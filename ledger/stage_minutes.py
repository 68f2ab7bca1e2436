"""What each stage did in each minute: events that entered, how tries ended, how long events waited and were worked on.

Each process adds up in memory and writes every `FLUSH_SECONDS`, so that settling an event writes no row that all
workers share. A process that is killed loses its last seconds: these are figures for people, and nothing is decided by
them. An event *enters* a stage when the transaction that records it commits, and is counted by the process that did
so: the worker that emits it, or the API for a new run. A replayed event does not enter again. Waits (ready to claimed)
and work (claimed to settled) are counted with the end of the try.

Minutes older than `MINUTES_KEPT` are folded into the first one of their hour, and these are dropped after `DAYS_KEPT`.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Literal

import structlog
from sqlalchemy import Executable, bindparam, case, delete, func, select

from sluice.contracts.errors import Unavailable
from sluice.contracts.event import Event, Queue
from sluice.contracts.operations.overview import StageMinute
from sluice.ledger.database import Database, LedgerPart
from sluice.ledger.schema.tables import AnyRow, moment, stage_minutes
from sluice.ledger.transaction import Transaction, insert_into

log = structlog.get_logger(__name__)

FLUSH_SECONDS = 5.0
MINUTES_KEPT, DAYS_KEPT = 24 * 60, 30
_SUMS = ("entered", "handled", "failed", "parked", "wait_ms", "work_ms")
_LONGEST = "longest_wait_ms"
_SINCE = (
    select(stage_minutes)
    .where(stage_minutes.c.minute >= bindparam("first"))
    .order_by(stage_minutes.c.minute, stage_minutes.c.stage)
)
_DROP = delete(stage_minutes).where(stage_minutes.c.minute < bindparam("before"))
_FOLD = _DROP.where(stage_minutes.c.minute % 60 != 0).returning(*stage_minutes.c)

Ended = Literal["handled", "failed", "parked"]
"""How a try ended; `failed`: it is tried again."""
_Tally = dict[tuple[int, str], Counter[str]]
"""The amounts of each minute and stage, by column."""


class StageMinutes(LedgerPart):
    """The figures of one ledger, and what this process has not written yet. Safe across threads."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        super().__init__(database, clock)
        self._lock = threading.Lock()
        self._tally: _Tally = defaultdict(Counter)

    def note_entered(self, events: Iterable[Event]) -> None:
        """Count events that were recorded, those with a queue."""
        minute = int(self._clock() // 60)
        with self._lock:
            for event in events:
                if event.queue is not None:
                    self._tally[minute, event.queue]["entered"] += 1

    def note_ended(self, stage: Queue, ended: Ended, waited_seconds: float, worked_seconds: float) -> None:
        """Count the end of a try."""
        wait_ms = round(waited_seconds * 1e3)
        with self._lock:
            sums = self._tally[int(self._clock() // 60), stage]
            sums[ended] += 1
            sums["wait_ms"] += wait_ms
            sums["work_ms"] += round(worked_seconds * 1e3)
            sums[_LONGEST] = max(sums[_LONGEST], wait_ms)

    def flush(self) -> None:
        """Write what was counted since the last time. A ledger that is away gets it at the next call."""
        with self._lock:
            tally, self._tally = self._tally, defaultdict(Counter)
        if not tally:
            return
        try:
            with self._database.holding() as connection:
                _add(connection, tally)
        except Unavailable as error:
            log.warning("stage_minutes_wait", error=str(error))
            with self._lock:
                for key, sums in tally.items():
                    _join(self._tally[key], sums)

    def figures(self, first: int, width: int) -> dict[str, tuple[StageMinute, ...]]:
        """Return the figures of each stage from minute `first` on, oldest first, those of `width` minutes as one, which
        has the moment of their beginning."""
        there = stage_minutes.c
        begin = there.minute - there.minute % width
        sums = [func.sum(there[name]).label(name) for name in _SUMS]
        query = select(there.stage, begin.label("minute"), *sums, func.max(there[_LONGEST]).label(_LONGEST))
        query = query.where(there.minute >= first).group_by(there.stage, begin).order_by(begin)
        return _shown(self._database.read(query))

    def fold(self) -> None:
        """Fold the minutes that are a day old into hours, and drop what is older than a month."""
        minute = int(self._clock() // 60)
        folded: _Tally = defaultdict(Counter)
        with self._database.holding() as connection:
            for row in connection.execute(_FOLD, {"before": minute - MINUTES_KEPT}):
                _join(folded[row.minute - row.minute % 60, row.stage], Counter(row._asdict()))
            _add(connection, folded)
            connection.execute(_DROP, {"before": minute - DAYS_KEPT * 24 * 60})


def _join(sums: Counter[str], more: Counter[str]) -> None:
    for name in _SUMS:
        sums[name] += more[name]
    sums[_LONGEST] = max(sums[_LONGEST], more[_LONGEST])


def _add(connection: Transaction, tally: _Tally) -> None:
    """Add to the rows, in one order for all processes: PostgreSQL locks each."""
    rows: Sequence[dict[str, Any]] = [
        {"minute": minute, "stage": stage, **{name: sums[name] for name in (*_SUMS, _LONGEST)}}
        for (minute, stage), sums in sorted(tally.items())
    ]
    if rows:
        connection.insert_many(_adding(connection.dialect), rows)


@cache
def _adding(dialect: str) -> Executable:
    statement = insert_into(dialect, stage_minutes)
    there, new = stage_minutes.c, statement.excluded
    sums = {name: there[name] + new[name] for name in _SUMS}
    longest = case((there[_LONGEST] < new[_LONGEST], new[_LONGEST]), else_=there[_LONGEST])
    return statement.on_conflict_do_update(index_elements=["minute", "stage"], set_={**sums, _LONGEST: longest})


def since(connection: Transaction, minute: int) -> dict[str, tuple[StageMinute, ...]]:
    """Return the figures of each stage from a minute (since the epoch) on, oldest first. Reads one index."""
    return _shown(connection.execute(_SINCE, {"first": minute}))


def _shown(rows: Iterable[AnyRow]) -> dict[str, tuple[StageMinute, ...]]:
    found: dict[str, list[StageMinute]] = defaultdict(list)
    for row in rows:
        ended = max(1, row.handled + row.failed + row.parked)
        minute = StageMinute(
            at=moment(row.minute * 60),
            **{name: getattr(row, name) for name in ("entered", "handled", "failed", "parked", _LONGEST)},
            mean_wait_ms=row.wait_ms / ended,
            mean_work_ms=row.work_ms / ended,
        )
        found[row.stage].append(minute)
    return {stage: tuple(minutes) for stage, minutes in found.items()}
