"""Bulk replays: many dead letters put back to work, at a rate, by the reconciler.

An operator begins one with a filter. The letters that it matches at that moment are its own; each is looked at once,
in the order in which the letters came to be, and brought back or left out with a reason. What a replay has done is in
its row, moved on in the very transaction that brings a letter back: so it survives whatever ends its process, and no
letter comes back twice by it. Of two replays over the same letters each letter is brought back by one.

A replay never has more than `MOST_OPEN` letters under way: where its stage is slower than its rate, the stage sets
the pace, and a replay that is aborted has not flooded the queues. It aborts itself when more than
`MOST_FAILED_AGAIN` of those that came to an end are parked again, judged once `ENOUGH_TO_JUDGE` have; until then only
so many are under way that a bad one is found out early.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import structlog
from sqlalchemy import ColumnElement, bindparam, func, insert, or_, select, update

from contracts.dead_letters import (
    MOST_AT_ONCE,
    DeadLetterFilter,
    OperatorAction,
    PlannedGroup,
    ReplayPlan,
    ReplayRequest,
    ReplayView,
    SkipReason,
)
from contracts.errors import BudgetExhausted, Conflict, InvalidInput, NotFound
from contracts.event import Event
from contracts.ids import new_event_id
from ledger.database import Database
from ledger.dead_letters import query as letters
from ledger.dead_letters.audit import SLUICE, actions_on, record
from ledger.dead_letters.replay import CASE, Orders, bring_back, can_be_read, judge, replay_span
from ledger.outbox import WakeUp, permits_of
from ledger.tables import AnyRow, dead_letters, events, replays
from ledger.transaction import Transaction

log = structlog.get_logger(__name__)

MOST_FAILED_AGAIN = 0.2
"""Share of the letters that came to an end, above which a replay aborts itself."""
ENOUGH_TO_JUDGE = 20
"""Letters that must have come to an end before it is judged."""
MOST_OPEN_UNJUDGED = 100
"""Letters under way before it is judged: a bad one spoils no more than these."""
MOST_OPEN = 500
"""Letters under way after that: what two seconds of the fastest replay bring back."""
_MOST_PER_TICK = 250
"""Letters that one call of `advance` looks at, so that the reconciler's other work goes on."""
_CATCH_UP_SECONDS = 2.0
"""Pace that is made good after a tick that came late; longer pauses are not."""
_PLAN_PAGE = 500


class Progress(NamedTuple):
    """What became of the letters that a replay brought back."""

    open: int = 0
    succeeded: int = 0
    parked_again: int = 0
    cancelled: int = 0

    @property
    def ended(self) -> int:
        """Letters of which is known how it went."""
        return self.succeeded + self.parked_again

    @property
    def is_judged(self) -> bool:
        """Whether enough is known."""
        return self.ended >= ENOUGH_TO_JUDGE

    @property
    def is_bad(self) -> bool:
        """Whether too many failed again."""
        return self.is_judged and self.parked_again > MOST_FAILED_AGAIN * self.ended

    @property
    def room(self) -> int:
        """How many more letters may be under way."""
        return max(0, (MOST_OPEN if self.is_judged else MOST_OPEN_UNJUDGED) - self.open)


@dataclass(frozen=True, slots=True)
class _Pace:
    """How many letters are due by the rate, and up to when the rate is used up once so many of them were taken."""

    due: int
    since: float
    per_second: float

    @classmethod
    def of(cls, replay: AnyRow, now: float) -> _Pace:
        earliest = now - _CATCH_UP_SECONDS - 1 / replay.per_second
        clock_was_set_back = replay.updated_at > now + _CATCH_UP_SECONDS
        since = earliest if clock_was_set_back else max(replay.updated_at, earliest)
        return cls(max(0, int((now - since) * replay.per_second + 1e-6)), since, replay.per_second)

    def used_up(self, taken: int) -> float:
        return self.since + taken / self.per_second


_IS_REPLAY = replays.c.id == bindparam("of_replay")
_REPLAY = select(replays).where(_IS_REPLAY)
_RUNNING = select(replays).where(replays.c.status == "running").order_by(replays.c.created_at, replays.c.id).limit(100)
_NEWEST = select(replays).order_by(replays.c.id.desc()).limit(bindparam("most"))
_OLDER = _NEWEST.where(replays.c.id < bindparam("before"))
_PROGRESS = (
    select(events.c.status, func.count().label("letters"))
    .select_from(dead_letters)
    .outerjoin(events, events.c.id == func.coalesce(dead_letters.c.replayed_as, dead_letters.c.event_id))
    .where(dead_letters.c.replay_id == bindparam("of_replay"))
    .group_by(events.c.status)
)
_MOVE_ON = (
    update(replays)
    .where(_IS_REPLAY, replays.c.status == "running", replays.c.position < bindparam("to_letter"))
    .values(position=bindparam("to_letter"), updated_at=bindparam("moment"))
    .returning(replays.c.id, replays.c.skips)
)
_COUNT = update(replays).where(_IS_REPLAY).values(replayed=replays.c.replayed + 1)
_SKIPS = update(replays).where(_IS_REPLAY).values(skips=bindparam("counted"))
_CHANGE = (
    update(replays)
    .where(_IS_REPLAY, or_(replays.c.status == bindparam("either"), replays.c.status == bindparam("or_else")))
    .values(status=bindparam("becomes"), why=bindparam("because"), updated_at=bindparam("moment"))
    .returning(*replays.c)
)


class Replays:
    """Bulk replays: what operators and the reconciler do with them."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    # -- for operators

    def plan(self, wanted: DeadLetterFilter, *, force: bool = False) -> ReplayPlan:
        """What a replay would bring back and what it would leave out, by fingerprint, the largest group first.

        Raises:
            InvalidInput: the filter is about letters that are not parked.
        """
        _check(wanted)
        told: dict[str, Counter[SkipReason | None]] = defaultdict(Counter)
        last = ""
        while rows := self._cases(wanted, last):
            for row in rows:
                is_readable = row.payload is None or can_be_read(row.payload)
                told[row.fingerprint][judge(row, force=force, is_readable=is_readable)] += 1
            last = rows[-1].id
        return _plan_of(told)

    def begin(self, request: ReplayRequest, operator: str) -> ReplayView:
        """Begin a bulk replay.

        Raises:
            InvalidInput: the filter is about letters that are not parked.
        """
        _check(request.filter)
        now = self._clock()
        row = _row_of(request, operator, now)
        with self._database.writing() as connection:
            row["total"] = letters.count(connection, _own(request.filter, now))
            connection.insert(insert(replays), row)
            record(connection, now, operator, "replay many", [row["id"]], request.note)
            return _view(connection, _found(connection, row["id"]))

    def show(self, replay_id: str) -> ReplayView:
        """How far a replay is.

        Raises:
            NotFound: there is no such replay.
        """
        with self._database.reading() as connection:
            return _view(connection, _found(connection, replay_id))

    def latest(self, limit: int = 50, before: str | None = None) -> Sequence[ReplayView]:
        """Replays, the newest first; `before` is the last id of the page before."""
        with self._database.reading() as connection:
            facts = {"most": limit} if before is None else {"most": limit, "before": before}
            rows = connection.execute(_NEWEST if before is None else _OLDER, facts).all()
            return [_view(connection, row) for row in rows]

    def actions(self, replay_id: str) -> Sequence[OperatorAction]:
        """What operators did with a replay, in order."""
        with self._database.reading() as connection:
            return actions_on(connection, replay_id)

    def pause(self, replay_id: str, operator: str, note: str = "") -> ReplayView:
        """Bring back no more letters until `resume`.

        Raises:
            NotFound: there is no such replay.
            Conflict: it is not running.
        """
        return self._change(replay_id, ("running",), "paused", operator, "pause", note)

    def resume(self, replay_id: str, operator: str, note: str = "") -> ReplayView:
        """Go on.

        Raises:
            NotFound: there is no such replay.
            Conflict: it is not paused.
        """
        return self._change(replay_id, ("paused",), "running", operator, "resume", note)

    def abort(self, replay_id: str, operator: str, note: str = "") -> ReplayView:
        """Bring back no more letters, for good. Those under way go on.

        Raises:
            NotFound: there is no such replay.
            Conflict: it has ended.
        """
        return self._change(replay_id, ("running", "paused"), "aborted", operator, "abort", note)

    # -- for the reconciler

    def advance(self, now: float | None = None) -> tuple[WakeUp, ...]:
        """Bring back the letters of running replays that are due; what is to be published. One commit per letter."""
        with self._database.reading() as connection:
            running = connection.execute(_RUNNING).all()
        permits: list[WakeUp] = []
        for replay in running:
            moment = self._clock() if now is None else now
            permits += self._advance(replay, moment, max(1, _MOST_PER_TICK // len(running)))
        return tuple(permits)

    def _advance(self, replay: AnyRow, now: float, most: int) -> list[WakeUp]:
        with self._database.reading() as connection:
            progress = _progress(connection, replay.id)
            pace = _Pace.of(replay, now)
            wanted = min(pace.due, progress.room, most)
            found = [] if progress.is_bad else _next(connection, replay, wanted)
        if progress.is_bad:
            self._abort_itself(replay, progress)
            return []
        permits: list[WakeUp] = []
        for taken, letter in enumerate(found, start=1):
            brought_back = self._take(replay, letter, now, pace.used_up(taken))
            if brought_back is None:
                return permits
            permits += brought_back
        if len(found) < wanted:
            self._finish(replay, now)
        return permits

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
        facts = {"of_replay": replay.id, "either": "running", "or_else": "running", "becomes": "done", "because": None}
        with self._database.writing() as connection:
            row = connection.execute(_CHANGE, facts | {"moment": now}).first()
            if row is None:
                return
            skips = Counter(json.loads(row.skips))
            skips["not_parked"] += row.total - row.replayed - skips.total()
            connection.execute(_SKIPS, {"of_replay": row.id, "counted": json.dumps(+skips)})
        log.info("replay_done", replay_id=row.id, total=row.total, replayed=row.replayed)

    def _abort_itself(self, replay: AnyRow, progress: Progress) -> None:
        why = f"{progress.parked_again} of {progress.ended} letters failed again"
        try:
            self._change(replay.id, ("running",), "aborted", SLUICE, "abort", why)
        except Conflict:  # an operator was faster
            return
        log.error("replay_aborted", replay_id=replay.id, why=why)

    def _change(
        self, replay_id: str, among: tuple[str, ...], becomes: str, operator: str, action: str, note: str
    ) -> ReplayView:
        now = self._clock()
        facts = {"of_replay": replay_id, "either": among[0], "or_else": among[-1], "becomes": becomes}
        with self._database.writing() as connection:
            _found(connection, replay_id)
            row = connection.execute(_CHANGE, facts | {"because": note or None, "moment": now}).first()
            if row is None:
                status = _found(connection, replay_id).status
                raise Conflict(f"replay {replay_id} is {status}, not {' or '.join(among)}")
            record(connection, now, operator, action, [replay_id], note)
            return _view(connection, row)

    def _cases(self, wanted: DeadLetterFilter, last: str) -> Sequence[AnyRow]:
        query = CASE.where(*letters.conditions(wanted), dead_letters.c.id > last)
        with self._database.reading() as connection:
            return connection.execute(query.order_by(dead_letters.c.id).limit(_PLAN_PAGE)).all()


def _bring_back(
    connection: Transaction, replay: AnyRow, letter_id: str, orders: Orders, now: float, used_up: float
) -> list[WakeUp] | None:
    moved = _move_on(connection, replay, letter_id, used_up)
    if moved is None:
        return None
    outcome = bring_back(connection, letter_id, orders, now)
    if isinstance(outcome, Event):
        connection.execute(_COUNT, {"of_replay": replay.id})
        return permits_of([outcome])
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


def _check(wanted: DeadLetterFilter) -> None:
    if wanted.status != "parked":
        raise InvalidInput("filter.status", f"{wanted.status} letters cannot be replayed", "leave it out, or parked")


def _own(wanted: DeadLetterFilter, begun: float) -> list[ColumnElement[bool]]:
    """The letters of a replay: what was parked since, again or for the first time, is another's."""
    return [*letters.conditions(wanted), dead_letters.c.last_seen <= begun]


def _next(connection: Transaction, replay: AnyRow, most: int) -> Sequence[AnyRow]:
    """The next letters, as `replay_span` asks for them."""
    own = _own(DeadLetterFilter.model_validate_json(replay.filter), replay.created_at)
    has = dead_letters.c
    query = select(has.id, has.run_id, has.event_id, has.traceparent).where(*own, has.id > replay.position)
    return connection.execute(query.order_by(has.id).limit(most)).all() if most else []


def _progress(connection: Transaction, replay_id: str) -> Progress:
    found = {row.status: row.letters for row in connection.execute(_PROGRESS, {"of_replay": replay_id})}
    return Progress(
        open=sum(found.get(status, 0) for status in ("ready", "claimed", "waiting")),
        succeeded=found.get("settled", 0) + found.get(None, 0),  # without a row: its run was handled and pruned
        parked_again=found.get("dead", 0),
        cancelled=found.get("cancelled", 0),
    )


def _view(connection: Transaction, row: AnyRow) -> ReplayView:
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
        **_progress(connection, row.id)._asdict(),
    )


def _found(connection: Transaction, replay_id: str) -> AnyRow:
    row = connection.execute(_REPLAY, {"of_replay": replay_id}).first()
    if row is None:
        raise NotFound(f"no replay {replay_id}")
    return row


def _row_of(request: ReplayRequest, operator: str, now: float) -> dict[str, Any]:
    return {
        "id": "replay_" + new_event_id().removeprefix("evt_"),
        "filter": request.filter.model_dump_json(),
        "per_second": request.per_second,
        "force": int(request.force),
        "status": "running",
        "operator": operator,
        "note": request.note,
        "created_at": now,
        "updated_at": now,
    }


def _plan_of(told: dict[str, Counter[SkipReason | None]]) -> ReplayPlan:
    skips: Counter[SkipReason] = Counter()
    groups = []
    for fingerprint, verdicts in sorted(told.items(), key=lambda group: (-group[1].total(), group[0])):
        left_out = {reason: how_many for reason, how_many in verdicts.items() if reason is not None}
        skips.update(left_out)
        groups.append(PlannedGroup(fingerprint=fingerprint, replayable=verdicts[None], skips=left_out))
    replayable = sum(group.replayable for group in groups)
    return ReplayPlan(
        total=replayable + skips.total(), replayable=replayable, skips=dict(skips), groups=tuple(groups[:MOST_AT_ONCE])
    )
