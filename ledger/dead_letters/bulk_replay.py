"""Bulk replays: the reconciler replays many dead letters at a given rate.

An operator begins a replay with a filter. It takes the letters that match at that moment; each is examined once,
in the order in which the letters were made, and replayed or skipped with a reason. The transaction that replays
a letter also updates the replay's row, so progress survives the death of the process, and no replay brings
a letter back twice. When two replays match the same letter, only one brings it back.

A replay never has more than `MOST_OPEN` letters under way: where its stage is slower than its rate,
the stage sets the pace, and a replay that is aborted has not flooded the queues. It aborts itself when more than
`MOST_FAILED_AGAIN` of its ended letters are parked again, judged once `ENOUGH_TO_JUDGE` have ended; until then
fewer are under way, so that a bad replay is noticed early.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import structlog
from sqlalchemy import ColumnElement, bindparam, func, or_, select, update

from sluice.contracts.errors import BudgetExhausted, Conflict, InvalidInput, NotFound
from sluice.contracts.event import Event, new_event_id
from sluice.contracts.operations.dead_letters import (
    ENOUGH_TO_JUDGE,
    MOST_AT_ONCE,
    MOST_FAILED_AGAIN,
    DeadLetterFilter,
    OperatorAction,
    PlannedGroup,
    ReplayPlan,
    ReplayRequest,
    ReplayView,
    SkipReason,
)
from sluice.ledger.audit import SLUICE, actions_on, record
from sluice.ledger.database import LedgerPart
from sluice.ledger.dead_letters import query as letters
from sluice.ledger.dead_letters.letter import CASE, Orders, bring_back, can_be_read, judge, replay_span
from sluice.ledger.events.outbox import WakeUp, wake_ups_of
from sluice.ledger.schema.tables import AnyRow, dead_letters, events, moment, position, replays
from sluice.ledger.transaction import Transaction

log = structlog.get_logger(__name__)

MOST_OPEN_UNJUDGED = 100
"""Letters under way before a replay is judged, which bounds the harm of a bad one."""
MOST_OPEN = 500
"""Letters under way once a replay is judged: what two seconds of the fastest replay bring back."""
_CATCH_UP_SECONDS = 2.0
"""Longest delay after a late tick, in seconds, that the replay catches up on."""

_PROGRESS = (
    select(events.c.status, func.count().label("letters"))
    .select_from(dead_letters)
    .outerjoin(events, events.c.id == func.coalesce(dead_letters.c.replayed_as, dead_letters.c.event_id))
    .where(dead_letters.c.replay_id == bindparam("of_replay"))
    .group_by(events.c.status)
)


_SHOWN = ("id", "status", "why", "per_second", "operator", "note", "total", "replayed")
_IS_REPLAY = replays.c.id == bindparam("of_replay")
_PLAN_PAGE = 500

_NEWEST = select(replays).order_by(replays.c.id.desc()).limit(bindparam("most"))
_OLDER = _NEWEST.where(replays.c.id < bindparam("before"))
_MOST_PER_TICK = 250
"""Letters that one call of `advance` examines, so that the reconciler's other work goes on."""

_RUNNING = select(replays).where(replays.c.status == "running").order_by(replays.c.created_at, replays.c.id).limit(100)
_MOVE_ON = (
    update(replays)
    .where(_IS_REPLAY, replays.c.status == "running", replays.c.position < bindparam("to_letter"))
    .values(position=bindparam("to_letter"), updated_at=bindparam("moment"))
    .returning(replays.c.id, replays.c.skips)
)
_COUNT = update(replays).where(_IS_REPLAY).values(replayed=replays.c.replayed + 1)
_CHANGE = (
    update(replays)
    .where(_IS_REPLAY, or_(replays.c.status == bindparam("either"), replays.c.status == bindparam("or_else")))
    .values(status=bindparam("becomes"), why=bindparam("because"), updated_at=bindparam("moment"))
    .returning(*replays.c)
)
ReplayAction = Literal["pause", "resume", "abort"]
_ACTIONS: dict[ReplayAction, tuple[tuple[str, ...], str]] = {
    "pause": (("running",), "paused"),
    "resume": (("paused",), "running"),
    "abort": (("running", "paused"), "aborted"),
}
"""Statuses from which operators may take each action, and the status it leads to."""


class Progress(NamedTuple):
    """Letters that a replay brought back, by their outcome."""

    open: int = 0
    succeeded: int = 0
    parked_again: int = 0
    cancelled: int = 0

    @property
    def ended(self) -> int:
        """Letters that succeeded or were parked again."""
        return self.succeeded + self.parked_again

    @property
    def is_judged(self) -> bool:
        """Whether enough letters have ended to judge the replay."""
        return self.ended >= ENOUGH_TO_JUDGE

    @property
    def is_bad(self) -> bool:
        """Whether too many letters were parked again."""
        return self.is_judged and self.parked_again > MOST_FAILED_AGAIN * self.ended

    @property
    def room(self) -> int:
        """Number of letters that may still be brought back now."""
        return max(0, (MOST_OPEN if self.is_judged else MOST_OPEN_UNJUDGED) - self.open)


class Replays(LedgerPart):
    """Bulk replays: the operators' actions on them, and the work of one reconciler at a time (`advance`)."""

    def plan(self, wanted: DeadLetterFilter, *, force: bool = False) -> ReplayPlan:
        """Count by fingerprint the letters to bring back or skip, most first. Raises `InvalidInput` as `begin` does."""
        _check(wanted)
        told: dict[str, Counter[SkipReason | None]] = defaultdict(Counter)
        last, now = "", self._clock()
        while rows := self._cases(wanted, last, now):
            for row in rows:
                is_readable = row.payload is None or can_be_read(row.payload)
                told[row.fingerprint][judge(row, force=force, is_readable=is_readable)] += 1
            last = rows[-1].id
        return _plan_of(told, position(now, last))

    def begin(self, request: ReplayRequest, operator: str) -> ReplayView:
        """Begin a bulk replay. Raises `InvalidInput` if the filter is about letters that are not parked, and `Conflict`
        unless as many match as the request confirms (`require_counted`)."""
        _check(request.filter)
        now = self._clock()
        row: dict[str, Any] = {
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
        with self._database.writing() as connection:
            row["total"] = letters.count(connection, _own_letters(request.filter, now))
            if request.confirm is not None:
                letters.require_counted(request.filter, row["total"], request.confirm)
            connection.insert(replays, row)
            record(connection, now, operator, "replay many", [row["id"]], request.note)
            return _view_of(connection, _find(connection, row["id"]))

    def show(self, replay_id: str) -> ReplayView:
        """Return a replay and its progress. Raises `NotFound` if there is no such replay."""
        with self._database.reading() as connection:
            return _view_of(connection, _find(connection, replay_id))

    def latest(self, limit: int = 50, before: str | None = None) -> Sequence[ReplayView]:
        """Return replays, the newest first; `before` is the last id of the previous page."""
        with self._database.reading() as connection:
            facts = {"most": limit} if before is None else {"most": limit, "before": before}
            rows = connection.execute(_NEWEST if before is None else _OLDER, facts).all()
            return [_view_of(connection, row) for row in rows]

    def actions(self, replay_id: str) -> Sequence[OperatorAction]:
        """Return the operators' actions on a replay, in order."""
        with self._database.reading() as connection:
            return actions_on(connection, replay_id)

    def change(
        self, replay_id: str, action: ReplayAction, operator: str, note: str = "", among: tuple[str, ...] | None = None
    ) -> ReplayView:
        """Pause, resume or abort a replay, and record the operator. Letters under way go on after an abort.

        Raises:
            NotFound: there is no such replay.
            Conflict: its status is not one of `among`: by default running to pause, paused to resume, either to abort.
        """
        usual, becomes = _ACTIONS[action]
        among = among or usual
        with self._database.writing() as connection:
            _find(connection, replay_id)
            row = _become(connection, replay_id, among, becomes, self._clock(), note)
            if row is None:
                status = _find(connection, replay_id).status
                raise Conflict(f"replay {replay_id} is {status}, not {' or '.join(among)}")
            record(connection, self._clock(), operator, action, [replay_id], note)
            return _view_of(connection, row)

    def _cases(self, wanted: DeadLetterFilter, last: str, now: float) -> Sequence[AnyRow]:
        query = CASE.where(*_own_letters(wanted, now), dead_letters.c.id > last)
        return self._database.read(query.order_by(dead_letters.c.id).limit(_PLAN_PAGE)).all()

    def advance(self, now: float | None = None) -> tuple[WakeUp, ...]:
        """Replay the due letters of running replays, one commit per letter. Returns the wake-ups to publish."""
        running = self._database.read(_RUNNING).all()
        wake_ups: list[WakeUp] = []
        for replay in running:
            moment = self._clock() if now is None else now
            wake_ups += self._advance(replay, moment, max(1, _MOST_PER_TICK // len(running)))
        return tuple(wake_ups)

    def _advance(self, replay: AnyRow, now: float, most: int) -> list[WakeUp]:
        with self._database.reading() as connection:
            progress = _progress_of(connection, replay.id)
            since = _unused_since(replay, now)
            due = max(0, int((now - since) * replay.per_second + 1e-6))
            wanted = min(due, progress.room, most)
            found = [] if progress.is_bad else _next(connection, replay, wanted)
        if progress.is_bad:
            self._abort_itself(replay, progress)
            return []
        wake_ups: list[WakeUp] = []
        for taken, letter in enumerate(found, start=1):
            brought_back = self._take(replay, letter, now, since + taken / replay.per_second)
            if brought_back is None:
                return wake_ups
            wake_ups += brought_back
        if len(found) < wanted:
            self._finish(replay, now)
        return wake_ups

    def _take(self, replay: AnyRow, letter: AnyRow, now: float, used_up: float) -> list[WakeUp] | None:
        """Replay or skip one letter; None when the replay was stopped meanwhile."""
        orders = Orders(replay.operator, replay.note, bool(replay.force), replay.id)
        try:
            with replay_span(letter, orders), self._database.writing() as connection:
                return _bring_back(connection, replay, letter.id, orders, now, used_up)
        except (BudgetExhausted, NotFound) as error:
            why: SkipReason = "budget_exhausted" if isinstance(error, BudgetExhausted) else "run_gone"
            with self._database.writing() as connection:
                return _leave_out(connection, _move_on(connection, replay, letter.id, used_up), why)

    def _finish(self, replay: AnyRow, now: float) -> None:
        """Mark the replay as done. Letters not yet counted were no longer parked at their turn."""
        with self._database.writing() as connection:
            row = _become(connection, replay.id, ("running",), "done", now)
            if row is None:
                return
            looked_at = row.replayed + sum(json.loads(row.skips).values())
            _leave_out(connection, row, "not_parked", row.total - looked_at)
        log.info("replay_done", replay_id=row.id, total=row.total, replayed=row.replayed)

    def _abort_itself(self, replay: AnyRow, progress: Progress) -> None:
        why = f"{progress.parked_again} of {progress.ended} letters failed again"
        try:
            self.change(replay.id, "abort", SLUICE, why, among=("running",))
        except Conflict:  # an operator was faster
            return
        log.error("replay_aborted", replay_id=replay.id, why=why)


def _unused_since(replay: AnyRow, now: float) -> float:
    """Return the moment (seconds since the epoch) up to which the replay has used its rate."""
    earliest: float = now - _CATCH_UP_SECONDS - 1 / replay.per_second
    clock_was_set_back = replay.updated_at > now + _CATCH_UP_SECONDS
    return earliest if clock_was_set_back else max(replay.updated_at, earliest)


def _check(wanted: DeadLetterFilter) -> None:
    if wanted.status != "parked":
        raise InvalidInput("filter.status", f"{wanted.status} letters cannot be replayed", "leave it out, or parked")


def _plan_of(told: dict[str, Counter[SkipReason | None]], up_to: str) -> ReplayPlan:
    skips: Counter[SkipReason] = Counter()
    groups = []
    for fingerprint, verdicts in sorted(told.items(), key=lambda group: (-group[1].total(), group[0])):
        left_out = {reason: how_many for reason, how_many in verdicts.items() if reason is not None}
        skips.update(left_out)
        groups.append(PlannedGroup(fingerprint=fingerprint, replayable=verdicts[None], skips=left_out))
    replayable = sum(group.replayable for group in groups)
    shown = tuple(groups[:MOST_AT_ONCE])
    total = replayable + skips.total()
    return ReplayPlan(total=total, up_to=up_to, replayable=replayable, skips=dict(skips), groups=shown)


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
    """Move the replay's position to this letter; None when it is past it already, or the replay was stopped."""
    facts = {"of_replay": replay.id, "to_letter": letter_id, "moment": used_up}
    return connection.execute(_MOVE_ON, facts).first()


def _leave_out(connection: Transaction, moved: AnyRow | None, why: SkipReason, many: int = 1) -> list[WakeUp] | None:
    if moved is None:
        return None
    skips = Counter(json.loads(moved.skips)) + Counter({why: many})
    connection.update(replays, {"id": moved.id}, {"skips": json.dumps(skips)})
    return []


def _next(connection: Transaction, replay: AnyRow, most: int) -> Sequence[AnyRow]:
    """Return the next letters, with the columns that `replay_span` needs."""
    own = _own_letters(DeadLetterFilter.model_validate_json(replay.filter), replay.created_at)
    has = dead_letters.c
    query = select(has.id, has.run_id, has.event_id, has.traceparent).where(*own, has.id > replay.position)
    return connection.execute(query.order_by(has.id).limit(most)).all() if most else []


def _become(
    connection: Transaction, replay_id: str, among: Sequence[str], becomes: str, now: float, why: str = ""
) -> AnyRow | None:
    """Move a replay from one of the statuses `among` to another; return its row, or None if its status differs."""
    facts = {"of_replay": replay_id, "either": among[0], "or_else": among[-1], "becomes": becomes}
    return connection.execute(_CHANGE, facts | {"because": why or None, "moment": now}).first()


def _own_letters(wanted: DeadLetterFilter, begun: float) -> list[ColumnElement[bool]]:
    """Return the conditions on a replay's letters. It leaves out letters parked, even again, after it began."""
    return [*letters.conditions(wanted), dead_letters.c.last_seen <= begun]


def _find(connection: Transaction, replay_id: str) -> AnyRow:
    return connection.select(replays, {"id": replay_id}).found(f"replay {replay_id}")


def _progress_of(connection: Transaction, replay_id: str) -> Progress:
    """Count a replay's letters by the status of their events."""
    found = {row.status: row.letters for row in connection.execute(_PROGRESS, {"of_replay": replay_id})}
    return Progress(
        open=sum(found.get(status, 0) for status in ("ready", "claimed", "waiting")),
        succeeded=found.get("settled", 0) + found.get(None, 0),  # without a row: its run was handled and pruned
        parked_again=found.get("dead", 0),
        cancelled=found.get("cancelled", 0),
    )


def _view_of(connection: Transaction, row: AnyRow) -> ReplayView:
    return ReplayView(
        filter=DeadLetterFilter.model_validate_json(row.filter),
        force=bool(row.force),
        created_at=moment(row.created_at),
        updated_at=moment(row.updated_at),
        skips=json.loads(row.skips),
        **{name: getattr(row, name) for name in _SHOWN},
        **_progress_of(connection, row.id)._asdict(),
    )
