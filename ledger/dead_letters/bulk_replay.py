"""Bulk replays: many dead letters put back to work, at a rate, by the reconciler.

An operator begins one with a filter. The letters that it matches at that moment are its own; each is looked at once,
in the order in which the letters came to be, and brought back or left out with a reason. What a replay has done is in
its row, moved on in the very transaction that brings a letter back: so it survives whatever ends its process, and no
letter comes back twice by it. Of two replays over the same letters each letter is brought back by one.

A replay never has more than `MOST_OPEN` letters under way (`replay_progress`): where its stage is slower than its rate,
the stage sets the pace, and a replay that is aborted has not flooded the queues. It aborts itself when more than
`MOST_FAILED_AGAIN` of those that came to an end are parked again, judged once `ENOUGH_TO_JUDGE` have; until then only
so many are under way that a bad one is found out early.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import bindparam, insert, select

from sluice.contracts.errors import InvalidInput
from sluice.contracts.ids import new_event_id
from sluice.contracts.operations.dead_letters import (
    MOST_AT_ONCE,
    DeadLetterFilter,
    OperatorAction,
    PlannedGroup,
    ReplayPlan,
    ReplayRequest,
    ReplayView,
    SkipReason,
)
from sluice.ledger.dead_letters import query as letters
from sluice.ledger.dead_letters.advance_replays import ReplayAdvance
from sluice.ledger.dead_letters.audit import actions_on, record
from sluice.ledger.dead_letters.replay import CASE, can_be_read, judge
from sluice.ledger.dead_letters.replay_rows import change, find, own_letters, view_of
from sluice.ledger.schema.tables import AnyRow, dead_letters, replays

_PLAN_PAGE = 500

_NEWEST = select(replays).order_by(replays.c.id.desc()).limit(bindparam("most"))
_OLDER = _NEWEST.where(replays.c.id < bindparam("before"))


class Replays(ReplayAdvance):
    """Bulk replays: what operators do with them; what the reconciler does is inherited."""

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
            row["total"] = letters.count(connection, own_letters(request.filter, now))
            connection.insert(insert(replays), row)
            record(connection, now, operator, "replay many", [row["id"]], request.note)
            return view_of(connection, find(connection, row["id"]))

    def show(self, replay_id: str) -> ReplayView:
        """How far a replay is.

        Raises:
            NotFound: there is no such replay.
        """
        with self._database.reading() as connection:
            return view_of(connection, find(connection, replay_id))

    def latest(self, limit: int = 50, before: str | None = None) -> Sequence[ReplayView]:
        """Replays, the newest first; `before` is the last id of the page before."""
        with self._database.reading() as connection:
            facts = {"most": limit} if before is None else {"most": limit, "before": before}
            rows = connection.execute(_NEWEST if before is None else _OLDER, facts).all()
            return [view_of(connection, row) for row in rows]

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

    def _change(
        self, replay_id: str, among: tuple[str, ...], becomes: str, operator: str, action: str, note: str
    ) -> ReplayView:
        with self._database.writing() as connection:
            row = change(connection, replay_id, among, becomes, operator, action, note, self._clock())
            return view_of(connection, row)

    def _cases(self, wanted: DeadLetterFilter, last: str) -> Sequence[AnyRow]:
        query = CASE.where(*letters.conditions(wanted), dead_letters.c.id > last)
        with self._database.reading() as connection:
            return connection.execute(query.order_by(dead_letters.c.id).limit(_PLAN_PAGE)).all()


def _check(wanted: DeadLetterFilter) -> None:
    if wanted.status != "parked":
        raise InvalidInput("filter.status", f"{wanted.status} letters cannot be replayed", "leave it out, or parked")


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
