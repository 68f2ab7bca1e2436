"""Prunes old runs: a run that ended long enough ago leaves the ledger with all its events.

Promises: a run that has not ended, or has an open event (feedback that waits, say) or a parked dead letter,
stays, however old. A run is removed as a whole, its row last, so the next pruning finds a run whose removal was
interrupted. No transaction removes more than `MOST_ROWS` rows. Operator, cut-off and row counts are recorded.

Known pages not seen since the cut-off are forgotten as well: the next request reads them anew. Deliveries to webhooks
from before it go too, unless they wait.

A run's idempotency key goes with it: the same request under the same key then makes a new run. Blobs without a
reference are collected later (`workers.runtime.blob_store`). The file of an SQLite ledger keeps its size and is
filled anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from datetime import datetime

from sqlalchemy import BindParameter, Executable, and_, bindparam, delete, exists, func, or_, select, tuple_

from sluice.contracts.api import ENDED
from sluice.contracts.errors import Conflict, NotFound
from sluice.ledger.audit import PRUNED_SUBJECT, record
from sluice.ledger.database import LedgerPart
from sluice.ledger.events.reservations import today
from sluice.ledger.learning.outcome_rows import drop_outcome
from sluice.ledger.learning.passage_marks import drop_marks
from sluice.ledger.reader import is_backed_up_now
from sluice.ledger.runs import take
from sluice.ledger.schema import run_words
from sluice.ledger.schema.tables import (
    IS_OPEN,
    UNITS,
    attempts,
    dead_letter_payloads,
    dead_letters,
    events,
    pages,
    runs,
)
from sluice.ledger.schema.tables import days as days_table
from sluice.ledger.transaction import Transaction
from sluice.ledger.trust.citations import drop_citations
from sluice.ledger.webhooks.store import DROP_OLD, IS_OLD

MOST_ROWS = 5_000
"""Rows that one transaction removes: some ten milliseconds in which no other writer gets its turn."""
_RUNS_AT_ONCE = 200


@dataclass(slots=True)
class Pruned:
    """Number of rows of each kind that were, or would be, removed."""

    runs: int = 0
    events: int = 0
    dead_letters: int = 0
    days: int = 0
    pages: int = 0
    deliveries: int = 0

    def add(self, other: Pruned) -> None:
        """Add the counts of one transaction."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


_BEFORE: BindParameter[float] = bindparam("before")
_PARKED = exists().where(dead_letters.c.run_id == runs.c.run_id, dead_letters.c.status == "parked")
_HAS_OPEN = exists().where(events.c.run_id == runs.c.run_id, IS_OPEN)
_PRUNABLE = and_(runs.c.status.in_(ENDED), runs.c.finished_at < _BEFORE, ~_HAS_OPEN, ~_PARKED)
_NEXT_RUNS = (
    select(runs.c.run_id)
    .where(runs.c.run_id > bindparam("after"), _PRUNABLE)
    .order_by(runs.c.run_id)
    .limit(_RUNS_AT_ONCE)
)
_STILL_PRUNABLE = select(runs.c.run_id).where(runs.c.run_id == bindparam("of_run"), _PRUNABLE)
_SOME_EVENTS = select(events.c.seq).where(events.c.run_id == bindparam("of_run")).limit(bindparam("most"))
_DROP_EVENTS = delete(events).where(events.c.seq.in_(_SOME_EVENTS))
_ATTEMPT = (attempts.c.run_id, attempts.c.event_id, attempts.c.epoch)
_SOME_ATTEMPTS = select(*_ATTEMPT).where(attempts.c.run_id == bindparam("of_run")).limit(bindparam("most"))
_DROP_ATTEMPTS = delete(attempts).where(tuple_(*_ATTEMPT).in_(_SOME_ATTEMPTS))
_LETTERS_OF_RUN = select(dead_letters.c.id).where(dead_letters.c.run_id == bindparam("of_run"))
_IS_LONE = or_(dead_letters.c.run_id.is_(None), ~exists().where(runs.c.run_id == dead_letters.c.run_id))
_IS_DONE_WITH = and_(dead_letters.c.status != "parked", dead_letters.c.last_seen < _BEFORE, _IS_LONE)
_LONE_LETTERS = select(dead_letters.c.id).where(_IS_DONE_WITH).limit(MOST_ROWS)
_IS_PAST = and_(days_table.c.day < bindparam("of_day"), *(days_table.c[f"reserved_{unit}"] == 0 for unit in UNITS))

_PAGE = tuple_(pages.c.corpus, pages.c.url_sha256)
_IS_FORGOTTEN = pages.c.fetched_at < _BEFORE
_SOME_PAGES = select(pages.c.corpus, pages.c.url_sha256).where(_IS_FORGOTTEN).limit(bindparam("most"))
_DROP_PAGES = delete(pages).where(_PAGE.in_(_SOME_PAGES))


class Pruning(LedgerPart):
    """Removes old runs, dead letters, days and pages from one ledger."""

    def count(self, before: datetime) -> Pruned:
        """Count what `prune` would remove at this moment."""
        moment = before.timestamp()
        of_run = select(runs.c.run_id).where(_PRUNABLE)
        questions = {
            "runs": select(func.count()).select_from(runs).where(_PRUNABLE),
            "events": select(func.count()).select_from(events).where(events.c.run_id.in_(of_run)),
            "dead_letters": select(func.count())
            .select_from(dead_letters)
            .where(or_(dead_letters.c.run_id.in_(of_run), _IS_DONE_WITH)),
            "days": select(func.count()).select_from(days_table).where(_IS_PAST),
            "pages": select(func.count()).select_from(pages).where(_IS_FORGOTTEN),
            "deliveries": select(func.count()).where(IS_OLD),
        }
        facts = {"before": moment, "of_day": today(moment)}
        return Pruned(**{name: self._database.read(ask, facts).scalar() or 0 for name, ask in questions.items()})

    def prune(self, before: datetime, operator: str) -> Pruned:
        """Remove what ended before that moment; return the counts. Raises `Conflict` while a backup is being taken."""
        if is_backed_up_now(self._database):
            raise Conflict("a backup is being taken, and pruning would remove what it is to hold: wait for its end")
        moment, total = before.timestamp(), Pruned()
        self._record(operator, "prune", f"what ended before {before.isoformat()}")
        for removed in self.in_steps(moment):
            total.add(removed)
        self._record(operator, "pruned", json.dumps(asdict(total)))
        return total

    def in_steps(self, moment: float) -> Iterator[Pruned]:
        """Remove what ended before `moment` (seconds since 1970) in many transactions; yield the counts of each."""
        after = ""
        while some := self._database.read(_NEXT_RUNS, {"after": after, "before": moment}).scalars():
            after = some[-1]
            while some:
                with self._database.writing() as connection:
                    removed, some = _drop_runs(connection, some, moment)
                yield removed
        yield from self._lone_dead_letters(moment)
        yield from self._portions("pages", _DROP_PAGES, {"before": moment, "most": MOST_ROWS})
        yield from self._portions("deliveries", DROP_OLD, {"before": moment})
        with self._database.writing() as connection:
            past = connection.execute(delete(days_table).where(_IS_PAST), {"of_day": today(moment)})
            yield Pruned(days=past.rowcount)

    def _lone_dead_letters(self, moment: float) -> Iterator[Pruned]:
        removed = 1
        while removed:
            with self._database.writing() as connection:
                letters = connection.execute(_LONE_LETTERS, {"before": moment}).scalars()
                removed = _drop_dead_letters(connection, letters)
            yield Pruned(dead_letters=removed)

    def _portions(self, name: str, drop: Executable, facts: dict[str, float]) -> Iterator[Pruned]:
        removed = 1
        while removed:
            with self._database.writing() as connection:
                removed = connection.execute(drop, facts).rowcount
            yield Pruned(**{name: removed})

    def _record(self, operator: str, action: str, note: str) -> None:
        with self._database.writing() as connection:
            record(connection, self._clock(), operator, action, [PRUNED_SUBJECT], note)


def _drop_runs(connection: Transaction, run_ids: list[str], moment: float) -> tuple[Pruned, list[str]]:
    """Remove as many of the runs as one transaction may; return the counts and the runs left over."""
    removed, attempted = Pruned(), 0
    for done, run_id in enumerate(run_ids):
        if not _is_still_prunable(connection, run_id, moment):
            continue
        room = MOST_ROWS - removed.events - attempted
        dropped = connection.execute(_DROP_ATTEMPTS, {"of_run": run_id, "most": room}).rowcount
        attempted += dropped
        room -= dropped
        if room == 0:
            return removed, run_ids[done:]
        dropped = connection.execute(_DROP_EVENTS, {"of_run": run_id, "most": room}).rowcount
        removed.events += dropped
        if dropped == room:
            return removed, run_ids[done:]
        letters = connection.execute(_LETTERS_OF_RUN, {"of_run": run_id}).scalars()
        removed.dead_letters += _drop_dead_letters(connection, letters)
        drop_citations(connection, run_id)
        drop_outcome(connection, run_id)
        drop_marks(connection, run_id)
        run_words.remove(connection, run_id)
        removed.runs += connection.delete(runs, {"run_id": run_id})
    return removed, []


def _is_still_prunable(connection: Transaction, run_id: str, moment: float) -> bool:
    """Check again under the run's lock: adding or replaying an event takes that lock first."""
    try:
        take(connection, run_id)
    except NotFound:
        return False
    return connection.execute(_STILL_PRUNABLE, {"of_run": run_id, "before": moment}).first() is not None


def _drop_dead_letters(connection: Transaction, letters: list[str]) -> int:
    for letter_id in letters:
        connection.delete(dead_letter_payloads, {"letter_id": letter_id})
        connection.delete(dead_letters, {"id": letter_id})
    return len(letters)
