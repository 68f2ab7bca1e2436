"""Reads what the ledger knows of a run's time: its events, the attempts on them, and when their stages took nothing.

All times are seconds since the epoch, as the columns have them, so that a cause's end equals its child's beginning.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import bindparam, func, select

from sluice.contracts.api import RunStatus
from sluice.contracts.event import QUEUES, Queue
from sluice.ledger.audit import SLUICE
from sluice.ledger.events.attempts import Attempt, of_run
from sluice.ledger.events.outbox import SERVED
from sluice.ledger.events.stages import NO_WORKER, all_paused
from sluice.ledger.schema.tables import AnyRow, dead_letters, events, operator_actions, runs
from sluice.ledger.transaction import Transaction

MOST_EVENTS, MOST_ACTIONS = 50_000, 400
_HEAD_CHARACTERS = 1_500
"""Beginning of a payload: the envelope, and the subject of most bodies."""
_CAUSE = re.compile(r'"cause_id":"([^"]+)"')
_SUBJECT = re.compile(r'"(?:url|query|subject)":("(?:[^"\\]|\\.){1,300}")')


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event of the run. `behind` counts the events of its tenant that stand before it, while it is ready."""

    id: str
    kind: str
    stage: Queue | None
    status: str
    created_at: float
    settled_at: float | None = None
    due_at: float | None = None
    why: str = ""
    cause_id: str | None = None
    subject: str = ""
    behind: int = 0


@dataclass(frozen=True, slots=True)
class Rest:
    """A stretch of time in which a stage took nothing; `ends` None: it goes on."""

    stage: Queue
    begins: float
    ends: float | None
    why: str


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run with everything that tells of its time. `replayed_by` names the operator by the event that was parked."""

    run_id: str
    corpus: str
    status: RunStatus
    created_at: float
    finished_at: float | None = None
    traceparent: str | None = None
    events: tuple[EventRow, ...] = ()
    attempts: Mapping[str, tuple[Attempt, ...]] = field(default_factory=dict)
    rests: tuple[Rest, ...] = ()
    replayed_by: Mapping[str, str] = field(default_factory=dict)


_EVENTS = (
    select(
        *(events.c[name] for name in ("id", "kind", "queue", "status", "created_at", "settled_at", "due_at", "why")),
        events.c.priority,
        events.c.turn,
        func.substr(events.c.payload, 1, _HEAD_CHARACTERS).label("head"),
    )
    .where(events.c.run_id == bindparam("of_run"))
    .order_by(events.c.seq)
    .limit(MOST_EVENTS)
)
_ACTIONS = (
    select(operator_actions)
    .where(operator_actions.c.subject.in_([f"stage:{stage}" for stage in QUEUES]))
    .where(operator_actions.c.at <= bindparam("until"))
    .order_by(operator_actions.c.seq.desc())
    .limit(MOST_ACTIONS)
)
_REPLAYS = select(dead_letters.c.event_id, dead_letters.c.operator).where(
    dead_letters.c.run_id == bindparam("of_run"), dead_letters.c.status == "replayed"
)


def read_record(connection: Transaction, run_id: str, now: float) -> RunRecord:
    """Read the record of a run. Raises `NotFound` if there is none."""
    run = connection.select(runs, {"run_id": run_id}).found(f"run {run_id}")
    rows, tries = connection.execute(_EVENTS, {"of_run": run_id}).all(), defaultdict(list)
    for one in of_run(connection, run_id, MOST_EVENTS):
        tries[one.event_id].append(one)
    replays = connection.execute(_REPLAYS, {"of_run": run_id}) if run.dead_letters or _any_was_parked(tries) else ()
    return RunRecord(
        *(run_id, run.corpus, run.status, run.created_at, run.finished_at, run.traceparent),
        events=_events_of(connection, rows),
        attempts={event_id: tuple(found) for event_id, found in tries.items()},
        rests=_rests_of(connection, {row.queue for row in rows} - {None}, now),
        replayed_by={row.event_id: row.operator or "" for row in replays},
    )


def _any_was_parked(tries: Mapping[str, list[Attempt]]) -> bool:
    return any(one.ending == "parked" for found in tries.values() for one in found)


def _events_of(connection: Transaction, rows: Iterable[AnyRow]) -> tuple[EventRow, ...]:
    served: dict[tuple[str, int], int] = {}
    found = []
    for row in rows:
        behind = 0
        if row.status == "ready":
            line = row.queue, row.priority
            if line not in served:
                facts = {"of_queue": row.queue, "at_priority": row.priority}
                served[line] = connection.execute(SERVED, facts).scalar() or 0
            behind = max(0, row.turn - served[line])
        envelope, _, body = row.head.partition('"body":')
        cause, subject = _CAUSE.search(envelope), _SUBJECT.search(body)
        found.append(
            EventRow(
                *(row.id, row.kind, row.queue, row.status, row.created_at, row.settled_at, row.due_at),
                why=row.why or _gap(row.kind, body),
                cause_id=cause[1] if cause else None,
                subject=str(json.loads(subject[1])) if subject else "",
                behind=behind,
            )
        )
    return tuple(found)


_GAP = re.compile(r'"subject":"((?:[^"\\]|\\.)*)","reason":"([^"]*)"(?:,"detail":("(?:[^"\\]|\\.)*"))?')


def _gap(kind: str, body: str) -> str:
    """Return the reason of a `GapFound`, of any other event nothing."""
    found = _GAP.search(body) if kind == "GapFound" else None
    if found is None:
        return ""
    detail = json.loads(found[3]) if found[3] else ""
    return f"{found[2]}: {detail}" if detail else found[2]


def _rests_of(connection: Transaction, stages: set[Queue], now: float) -> tuple[Rest, ...]:
    """Return when these stages took nothing: paused, or without a worker. From the operators' actions."""
    begun: dict[tuple[Queue, bool], tuple[float, str]] = {}
    found: list[Rest] = []
    for row in reversed(connection.execute(_ACTIONS, {"until": now}).all()):
        stage, is_absence = row.subject.partition(":")[2], row.action in NO_WORKER
        if stage not in stages or row.action not in ("pause", "resume", *NO_WORKER):
            continue
        if begun.get((stage, is_absence)):
            began, why = begun.pop((stage, is_absence))
            found.append(Rest(stage, began, row.at, why))
        if row.action in ("pause", NO_WORKER[0]):
            begun[stage, is_absence] = row.at, _why(row)
    for pause in all_paused(connection):
        if pause.stage in stages:
            begun.setdefault((pause.stage, False), (pause.since.timestamp(), _paused(pause.operator, pause.why)))
    return (*found, *(Rest(stage, began, None, why) for (stage, _), (began, why) in begun.items()))


def _why(row: AnyRow) -> str:
    if row.action == NO_WORKER[0]:
        return "no worker" + (f": {row.note}" if row.note else "")
    return _paused(row.operator, row.note)


def _paused(operator: str | None, why: str) -> str:
    by = "its circuit breaker" if operator in (None, SLUICE) else operator
    return f"stage paused by {by}" + (f": {why}" if why else "")
