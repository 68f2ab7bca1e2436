"""The reconciler's part of bulk replays: brings letters back at the rate asked for, and stops what goes wrong.

What a replay has done is in its row, moved on in the very transaction that brings a letter back: so it survives
whatever ends its process, and no letter comes back twice by it.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence

import structlog
from sqlalchemy import bindparam, select, update

from sluice.contracts.errors import BudgetExhausted, Conflict, NotFound
from sluice.contracts.event import Event
from sluice.contracts.operations.dead_letters import DeadLetterFilter, SkipReason
from sluice.ledger.database import Database
from sluice.ledger.dead_letters.audit import SLUICE
from sluice.ledger.dead_letters.replay import Orders, bring_back, replay_span
from sluice.ledger.dead_letters.replay_progress import Pace, Progress, progress_of
from sluice.ledger.dead_letters.replay_rows import IS_REPLAY, change, finish, own_letters
from sluice.ledger.events.outbox import WakeUp, wake_ups_of
from sluice.ledger.schema.tables import AnyRow, dead_letters, replays
from sluice.ledger.transaction import Transaction

log = structlog.get_logger(__name__)

_MOST_PER_TICK = 250
"""Letters that one call of `advance` looks at, so that the reconciler's other work goes on."""

_RUNNING = select(replays).where(replays.c.status == "running").order_by(replays.c.created_at, replays.c.id).limit(100)
_MOVE_ON = (
    update(replays)
    .where(IS_REPLAY, replays.c.status == "running", replays.c.position < bindparam("to_letter"))
    .values(position=bindparam("to_letter"), updated_at=bindparam("moment"))
    .returning(replays.c.id, replays.c.skips)
)
_COUNT = update(replays).where(IS_REPLAY).values(replayed=replays.c.replayed + 1)
_SKIPS = update(replays).where(IS_REPLAY).values(skips=bindparam("counted"))


class ReplayAdvance:
    """Moves running replays on. One reconciler at a time does so."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    def advance(self, now: float | None = None) -> tuple[WakeUp, ...]:
        """Bring back the letters of running replays that are due; what is to be published. One commit per letter."""
        with self._database.reading() as connection:
            running = connection.execute(_RUNNING).all()
        wake_ups: list[WakeUp] = []
        for replay in running:
            moment = self._clock() if now is None else now
            wake_ups += self._advance(replay, moment, max(1, _MOST_PER_TICK // len(running)))
        return tuple(wake_ups)

    def _advance(self, replay: AnyRow, now: float, most: int) -> list[WakeUp]:
        with self._database.reading() as connection:
            progress = progress_of(connection, replay.id)
            pace = Pace.of(replay, now)
            wanted = min(pace.due, progress.room, most)
            found = [] if progress.is_bad else _next(connection, replay, wanted)
        if progress.is_bad:
            self._abort_itself(replay, progress)
            return []
        wake_ups: list[WakeUp] = []
        for taken, letter in enumerate(found, start=1):
            brought_back = self._take(replay, letter, now, pace.used_up(taken))
            if brought_back is None:
                return wake_ups
            wake_ups += brought_back
        if len(found) < wanted:
            self._finish(replay, now)
        return wake_ups

    def _take(self, replay: AnyRow, letter: AnyRow, now: float, used_up: float) -> list[WakeUp] | None:
        """Look at one letter; None when the replay was stopped meanwhile."""
        orders = Orders(replay.operator, replay.note, bool(replay.force), replay.id)
        try:
            with replay_span(letter, orders), self._database.writing() as connection:
                return _bring_back(connection, replay, letter.id, orders, now, used_up)
        except (BudgetExhausted, NotFound) as error:
            why: SkipReason = "budget_exhausted" if isinstance(error, BudgetExhausted) else "run_gone"
            with self._database.writing() as connection:
                return _leave_out(connection, _move_on(connection, replay, letter.id, used_up), why)

    def _finish(self, replay: AnyRow, now: float) -> None:
        """Every letter was looked at; those that are not accounted for were no longer parked when it was their turn."""
        with self._database.writing() as connection:
            row = finish(connection, replay.id, now)
            if row is None:
                return
            skips = Counter(json.loads(row.skips))
            skips["not_parked"] += row.total - row.replayed - skips.total()
            connection.execute(_SKIPS, {"of_replay": row.id, "counted": json.dumps(+skips)})
        log.info("replay_done", replay_id=row.id, total=row.total, replayed=row.replayed)

    def _abort_itself(self, replay: AnyRow, progress: Progress) -> None:
        why = f"{progress.parked_again} of {progress.ended} letters failed again"
        try:
            with self._database.writing() as connection:
                change(connection, replay.id, ("running",), "aborted", SLUICE, "abort", why, self._clock())
        except Conflict:  # an operator was faster
            return
        log.error("replay_aborted", replay_id=replay.id, why=why)


def _bring_back(
    connection: Transaction, replay: AnyRow, letter_id: str, orders: Orders, now: float, used_up: float
) -> list[WakeUp] | None:
    moved = _move_on(connection, replay, letter_id, used_up)
    if moved is None:
        return None
    outcome = bring_back(connection, letter_id, orders, now)
    if isinstance(outcome, Event):
        connection.execute(_COUNT, {"of_replay": replay.id})
        return wake_ups_of([outcome])
    return _leave_out(connection, moved, outcome)


def _move_on(connection: Transaction, replay: AnyRow, letter_id: str, used_up: float) -> AnyRow | None:
    """Take the replay's row and say that this letter was looked at; None when it was, or the replay was stopped."""
    facts = {"of_replay": replay.id, "to_letter": letter_id, "moment": used_up}
    return connection.execute(_MOVE_ON, facts).first()


def _leave_out(connection: Transaction, moved: AnyRow | None, why: SkipReason) -> list[WakeUp] | None:
    if moved is None:
        return None
    skips = Counter(json.loads(moved.skips))
    skips[why] += 1
    connection.execute(_SKIPS, {"of_replay": moved.id, "counted": json.dumps(skips)})
    return []


def _next(connection: Transaction, replay: AnyRow, most: int) -> Sequence[AnyRow]:
    """The next letters, as `replay_span` asks for them."""
    own = own_letters(DeadLetterFilter.model_validate_json(replay.filter), replay.created_at)
    has = dead_letters.c
    query = select(has.id, has.run_id, has.event_id, has.traceparent).where(*own, has.id > replay.position)
    return connection.execute(query.order_by(has.id).limit(most)).all() if most else []
