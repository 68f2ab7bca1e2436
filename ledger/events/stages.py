"""Paused stages, and retries that become ready again.

The events of a paused stage stay ready and are not claimed, until a probe succeeds or an operator resumes.
A circuit breaker pauses a stage whose events keep failing, so that a bad deployment does not drain its queue into the
dead letters. When the pause is over one event passes as a probe: the statement that lets it pass begins the next
pause, so of any number of workers one probes. Its success resumes the stage, its failure leaves the pause as it is.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import bindparam, delete, select, update

from sluice.contracts.event import Queue
from sluice.ledger.audit import SLUICE, record
from sluice.ledger.events.outbox import WakeUp, take_turns
from sluice.ledger.schema.tables import AnyRow, events, moment, operator_actions, pauses, perhaps_moment, pool_sizes
from sluice.ledger.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Pause:
    """A paused stage. `until` None: until an operator resumes it; `operator` None: the breaker paused it."""

    stage: Queue
    since: datetime
    until: datetime | None
    why: str
    operator: str | None
    probes: int


_OF_STAGE = pauses.c.stage == bindparam("of_stage")
_PROBE = (
    update(pauses)
    .where(_OF_STAGE, pauses.c.until <= bindparam("moment"))
    .values(until=bindparam("again"), probes=pauses.c.probes + 1)
)
_ALL = select(pauses).order_by(pauses.c.since)
NO_WORKER = ("no_worker", "worker_back")
"""Actions of Sluice's own on a stage whose last worker went, and that has one again."""
_LAST_NOTED = (
    select(operator_actions)
    .where(operator_actions.c.subject == bindparam("of_subject"), operator_actions.c.action.in_(NO_WORKER))
    .order_by(operator_actions.c.seq.desc())
    .limit(1)
)
_RESUME_OWN = delete(pauses).where(_OF_STAGE, pauses.c.operator.is_(None))


def pause(
    connection: Transaction, stage: Queue, why: str, now: float, *, seconds: float | None, operator: str | None = None
) -> bool:
    """Pause the stage; False when it was paused before. An operator's pause replaces the breaker's."""
    until = None if seconds is None else now + seconds
    row = {"stage": stage, "since": now, "until": until, "why": why, "operator": operator}
    is_new = connection.insert_once(pauses, row)
    if is_new or operator is not None:
        record(connection, now, operator or SLUICE, "pause", [f"stage:{stage}"], why)
    if is_new:
        return True
    if operator is not None:
        connection.update(pauses, {"stage": stage}, {"until": until, "why": why, "operator": operator})
    return False


def resume(connection: Transaction, stage: Queue, now: float, *, operator: str | None = None) -> bool:
    """End the pause; False when there was none, or when an operator paused it and `operator` is None."""
    if operator is None:
        resumed = connection.execute(_RESUME_OWN, {"of_stage": stage}).rowcount == 1
    else:
        resumed = connection.delete(pauses, {"stage": stage}) == 1
    if resumed:
        record(connection, now, operator or SLUICE, "resume", [f"stage:{stage}"])
    return resumed


def note_workers(connection: Transaction, stage: Queue, are_there: bool, at: float, waiting_since: float) -> bool:
    """Record that the stage has no worker since `at`, or has one again; False when that is what was recorded last.

    `waiting_since` is when its oldest event became ready; from then on an operator's wish for none explains the wait.
    Who reads later why an event waited finds it here: a worker that is not there leaves no other trace.
    """
    last = connection.execute(_LAST_NOTED, {"of_subject": f"stage:{stage}"}).first()
    if are_there == (last is None or last.action == NO_WORKER[1]):
        return False
    note = ""
    if not are_there:
        size = connection.select(pool_sizes, {"stage": stage}).first()
        if size is not None and not size.wanted:
            note, at = f"{size.operator} wants none", max(waiting_since, size.at)
        at = at if last is None else max(at, last.at)
    record(connection, at, SLUICE, NO_WORKER[are_there], [f"stage:{stage}"], note)
    return True


def let_probe_through(connection: Transaction, stage: Queue, now: float, probe_seconds: float) -> bool:
    """Return whether the caller may probe a paused stage; the next probe is due after `probe_seconds`."""
    facts = {"of_stage": stage, "moment": now, "again": now + probe_seconds}
    return connection.execute(_PROBE, facts).rowcount == 1


def is_paused(connection: Transaction, stage: Queue) -> bool:
    """Return whether the stage is paused."""
    return connection.select(pauses, {"stage": stage}).first() is not None


def all_paused(connection: Transaction) -> list[Pause]:
    """Return every paused stage, the longest first."""
    rows = connection.execute(_ALL).all()
    return [
        Pause(row.stage, moment(row.since), perhaps_moment(row.until), row.why, row.operator, row.probes)
        for row in rows
    ]


ANY_DUE = select(events.c.seq).where(events.c.status == "waiting", events.c.due_at <= bindparam("moment")).limit(1)
_DUE = (
    select(events.c.seq, events.c.id, events.c.queue, events.c.priority, events.c.lane)
    .where(events.c.status == "waiting", events.c.due_at <= bindparam("moment"))
    .order_by(events.c.due_at)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
)
_WAKE = (
    update(events)
    .where(events.c.seq == bindparam("of_seq"), events.c.status == "waiting")
    .values(status="ready", turn=bindparam("at_turn"), behind=bindparam("now_behind"))
    .returning(events.c.queue, events.c.id)
)


def wake(connection: Transaction, now: float, most: int) -> list[WakeUp]:
    """Make due retries ready, each at the end of its tenant queue; return the wake-ups to publish."""
    by_line = defaultdict(list)
    for row in connection.execute(_DUE, {"moment": now, "most": most}).all():
        by_line[row.queue, row.priority, row.lane].append(row)
    woken: list[AnyRow] = []
    for (queue, priority, tenant_queue), rows in sorted(by_line.items()):
        places = take_turns(connection, [queue] * len(rows), priority, tenant_queue)
        moves = [
            {"of_seq": row.seq, "at_turn": place.turn, "now_behind": place.behind}
            for row, place in zip(rows, places, strict=True)
        ]
        woken += connection.execute_each(_WAKE, moves)
    return [WakeUp(row.queue, row.id) for row in woken]
