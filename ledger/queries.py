"""Reading the ledger: a run as its agent sees it, its events in order, the depth of the queues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import bindparam, exists, func, or_, select

from sluice.contracts.api import RunKind, RunStatus, RunView, StageView
from sluice.contracts.errors import NotFound
from sluice.contracts.event import QUEUES, Event, GapFound, Queue, decode
from sluice.contracts.gate import Decision, GateDecided
from sluice.contracts.index import AnswerReady, AnswerStale
from sluice.contracts.ingest import CrawlDirected, PageCrawled
from sluice.ledger.events.finish import spend_of
from sluice.ledger.events.pauses import Pause
from sluice.ledger.events.reservations import usd
from sluice.ledger.schema.columns import storable
from sluice.ledger.schema.tables import IS_OPEN, AnyRow, dead_letters, events, runs
from sluice.ledger.transaction import Transaction


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in a list."""

    run_id: str
    kind: RunKind
    corpus: str
    owner: str
    status: RunStatus
    query: str | None
    created_at: datetime
    finished_at: datetime | None
    usd: float


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """What a queue has before it. `oldest_ready_seconds` is 0 when nothing is ready."""

    ready: int = 0
    claimed: int = 0
    waiting: int = 0
    oldest_ready_seconds: float = 0.0


_RUN = select(runs).where(runs.c.run_id == bindparam("of_run"))
_BRIEF = select(runs.c.owner, runs.c.status).where(runs.c.run_id == bindparam("of_run"))
_KEYED = select(events.c.payload).where(
    events.c.run_id == bindparam("of_run"), events.c.dedupe_key == bindparam("of_key")
)
_TOLD = (
    select(events.c.payload)
    .where(
        events.c.run_id == bindparam("of_run"),
        events.c.kind.in_((GateDecided.kind, AnswerReady.kind, GapFound.kind, AnswerStale.kind)),
    )
    .order_by(events.c.seq)
)
_OPEN_BY_QUEUE = (
    select(events.c.queue, func.count().label("open_count"))
    .where(events.c.run_id == bindparam("of_run"), IS_OPEN)
    .group_by(events.c.queue)
)
_AFTER = (
    select(events.c.seq, events.c.payload)
    .where(events.c.run_id == bindparam("of_run"), events.c.seq > bindparam("after"))
    .order_by(events.c.seq)
    .limit(bindparam("most"))
)
_OF_KIND = (
    select(events.c.payload)
    .where(events.c.run_id == bindparam("of_run"), events.c.kind == bindparam("of_kind"))
    .order_by(events.c.seq)
)
_PARKED = exists().where(dead_letters.c.event_id == events.c.id, dead_letters.c.status == "parked")
_UNREAD = select(events.c.payload).where(
    events.c.run_id == bindparam("of_run"),
    events.c.kind.in_((CrawlDirected.kind, PageCrawled.kind)),
    or_(IS_OPEN, _PARKED),
)
_EVENT = select(events.c.payload).where(events.c.id == bindparam("of_event"))
_DEPTHS = (
    select(events.c.queue, events.c.status, func.count().label("how_many"), func.min(events.c.due_at).label("oldest"))
    .where(events.c.due_at.is_not(None))
    .group_by(events.c.status, events.c.queue)
)


def view(connection: Transaction, run_id: str) -> RunView:
    """Everything about a run.

    Raises:
        NotFound: there is no such run.
    """
    run = connection.execute(_RUN, {"of_run": run_id}).first()
    if run is None:
        raise NotFound(f"no run {run_id}")
    told = [decode(payload).body for payload in connection.execute(_TOLD, {"of_run": run_id}).scalars()]
    ready = next((body for body in reversed(told) if isinstance(body, AnswerReady)), None)
    return RunView(
        run_id=run.run_id,
        kind=run.kind,
        corpus=run.corpus,
        status=run.status,
        query=run.query,
        created_at=_moment(run.created_at),
        deadline_at=_perhaps(run.deadline_at),
        finished_at=_perhaps(run.finished_at),
        traceparent=run.traceparent,
        decision=next((Decision.of(body) for body in reversed(told) if isinstance(body, GateDecided)), None),
        answer=ready.answer if ready else None,
        prompt=ready.prompt if ready else (),
        missing=tuple(body.gap for body in told if isinstance(body, GapFound)),
        spend=spend_of(run),
        open_events=sum(open_by_queue(connection, run_id).values()),
        settled_events=run.settled_events,
        dead_letters=run.dead_letters,
        journal_offset=run.journal_offset,
        generation=run.generation,
        stale=tuple(one for body in told if isinstance(body, AnswerStale) for one in body.citations),
    )


def summaries(
    connection: Transaction, limit: int, before: str | None, filters: Mapping[str, str | None]
) -> list[RunSummary]:
    """Runs that match, the latest first, from those made before the run `before` on."""
    conditions = [runs.c[name] == value for name, value in filters.items() if value is not None]
    if before is not None:
        conditions.append(runs.c.run_id < before)
    rows = connection.execute(select(runs).where(*conditions).order_by(runs.c.run_id.desc()).limit(limit))
    return [_summary(row) for row in rows]


def owner_of(connection: Transaction, run_id: str) -> str:
    """Who asked for the run.

    Raises:
        NotFound: there is no such run.
    """
    owner: str = _brief(connection, run_id).owner
    return owner


def status_of(connection: Transaction, run_id: str) -> RunStatus:
    """How far the run is.

    Raises:
        NotFound: there is no such run.
    """
    status: RunStatus = _brief(connection, run_id).status
    return status


def open_by_queue(connection: Transaction, run_id: str) -> dict[Queue, int]:
    """How many events of the run are open, per queue."""
    rows = connection.execute(_OPEN_BY_QUEUE, {"of_run": run_id})
    return {row.queue: row.open_count for row in rows}


def events_after(connection: Transaction, run_id: str, seq: int, limit: int) -> list[tuple[int, Event]]:
    """The run's events behind position `seq`, in commit order, with their positions."""
    rows = connection.execute(_AFTER, {"of_run": run_id, "after": seq, "most": limit})
    return [(row.seq, decode(row.payload)) for row in rows]


def events_of_kind(connection: Transaction, run_id: str, kind: str) -> list[Event]:
    """The run's events of one kind, in commit order."""
    rows = connection.execute(_OF_KIND, {"of_run": run_id, "of_kind": kind}).scalars()
    return [decode(payload) for payload in rows]


def keyed_event(connection: Transaction, run_id: str, dedupe_key: str) -> Event:
    """The event of the run that was added under that key.

    Raises:
        NotFound: there is none.
    """
    payload = connection.execute(_KEYED, {"of_run": run_id, "of_key": storable(dedupe_key)}).scalar()
    if payload is None:
        raise NotFound(f"run {run_id} has no event under the key {dedupe_key}")
    return decode(payload)


def one_event(connection: Transaction, event_id: str) -> Event:
    """One event.

    Raises:
        NotFound: there is no such event.
    """
    payload = connection.execute(_EVENT, {"of_event": event_id}).scalar()
    if payload is None:
        raise NotFound(f"no event {event_id}")
    return decode(payload)


def depths(connection: Transaction, now: float) -> dict[Queue, QueueDepth]:
    """What every queue has before it, from the index of open events alone."""
    found = {(row.queue, row.status): row for row in connection.execute(_DEPTHS)}
    return {queue: _depth(found, queue, now) for queue in QUEUES}


def stage_view(stage: Queue, depth: QueueDepth, pause: Pause | None) -> StageView:
    """A stage as operators see it."""
    return StageView(
        stage=stage,
        ready=depth.ready,
        claimed=depth.claimed,
        waiting=depth.waiting,
        oldest_ready_seconds=depth.oldest_ready_seconds,
        paused_because=pause.why if pause else None,
        paused_by=pause.operator if pause else None,
        paused_since=pause.since if pause else None,
        probe_at=pause.until if pause else None,
    )


def _brief(connection: Transaction, run_id: str) -> AnyRow:
    row = connection.execute(_BRIEF, {"of_run": run_id}).first()
    if row is None:
        raise NotFound(f"no run {run_id}")
    return row


def _depth(found: Mapping[tuple[str, str], AnyRow], queue: Queue, now: float) -> QueueDepth:
    ready, claimed, waiting = (found.get((queue, status)) for status in ("ready", "claimed", "waiting"))
    return QueueDepth(
        ready=ready.how_many if ready else 0,
        claimed=claimed.how_many if claimed else 0,
        waiting=waiting.how_many if waiting else 0,
        oldest_ready_seconds=max(0.0, now - ready.oldest) if ready else 0.0,
    )


def _summary(row: AnyRow) -> RunSummary:
    return RunSummary(
        run_id=row.run_id,
        kind=row.kind,
        corpus=row.corpus,
        owner=row.owner,
        status=row.status,
        query=row.query,
        created_at=_moment(row.created_at),
        finished_at=_perhaps(row.finished_at),
        usd=usd(row.spent_nanousd),
    )


def unread_crawls(connection: Transaction, run_id: str) -> frozenset[str]:
    """The ids of the run's crawls that are not over, or whose page has still to be read: parked ones may come back."""
    found = (decode(payload) for payload in connection.execute(_UNREAD, {"of_run": run_id}).scalars())
    return frozenset(
        event.body.unarchived_by or "" if isinstance(event.body, PageCrawled) else event.id for event in found
    )


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _perhaps(seconds: float | None) -> datetime | None:
    return None if seconds is None else _moment(seconds)
