"""Queries of the ledger. Each method is one consistent view and writes nothing."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, bindparam, exists, func, literal_column, or_, select

from sluice.contracts.api import ENDED, RunStatus, RunView, StageBacklog, StageView
from sluice.contracts.budget import Ceilings, Spend
from sluice.contracts.errors import NotFound
from sluice.contracts.event import QUEUES, Event, Queue, decode, made_at
from sluice.contracts.gate import Decision, GateDecided
from sluice.contracts.index import AnswerReady, AnswerStale
from sluice.contracts.ingest import CrawlDirected, PageCrawled
from sluice.ledger import run_lists
from sluice.ledger.audit import BACKUP, LET_GO, PRUNED_SUBJECT
from sluice.ledger.database import Database
from sluice.ledger.events import attempts, reservations, stages
from sluice.ledger.events.attempts import Attempt
from sluice.ledger.events.finish import sorted_gaps
from sluice.ledger.events.outbox import TAKEN, WakeUp
from sluice.ledger.events.stages import Pause
from sluice.ledger.run_lists import RunFilter, RunSummary
from sluice.ledger.schema.tables import (
    IS_OPEN,
    IS_READY,
    dead_letters,
    events,
    leases,
    moment,
    operator_actions,
    pauses,
    perhaps_moment,
    runs,
    storable,
)
from sluice.ledger.timeline.record import RunRecord, read_record
from sluice.ledger.transaction import Transaction
from sluice.ledger.trust.blobs import Place, references


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """Events of a queue, by status. `oldest_ready_seconds` is 0 when nothing is ready."""

    ready: int = 0
    claimed: int = 0
    waiting: int = 0
    oldest_ready_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Backlog:
    """Ready events of a stage: how many, and since when the oldest is ready (seconds since the epoch)."""

    ready: int
    oldest: float


_TENANCY = select(runs.c.corpus, runs.c.owner).where(runs.c.run_id == bindparam("of_run"))
_STATUS = select(runs.c.status).where(runs.c.run_id == bindparam("of_run"))
_OF_RUN = events.c.run_id == bindparam("of_run")
_PAYLOADS = select(events.c.payload).where(_OF_RUN).order_by(events.c.seq)
_KEYED = _PAYLOADS.where(events.c.dedupe_key == bindparam("of_key"))
_OF_KIND = _PAYLOADS.where(events.c.kind == bindparam("of_kind"))
_COUNTS = select(events.c.kind, func.count().label("how_many")).where(_OF_RUN).group_by(events.c.kind)
_TOLD_KINDS = (GateDecided.kind, AnswerReady.kind, AnswerStale.kind)
_TOLD = _PAYLOADS.where(events.c.kind.in_(_TOLD_KINDS))
_LET_GO = select(func.max(operator_actions.c.at)).where(
    operator_actions.c.action == LET_GO, operator_actions.c.subject == "corpus:" + runs.c.corpus
)
_WRITTEN = (
    select(runs.c.corpus, func.max(runs.c.journal_offset).label("reached"))
    .where(runs.c.journal_offset > 0, runs.c.created_at > func.coalesce(_LET_GO.scalar_subquery(), 0.0))
    .group_by(runs.c.corpus)
)
_AFTER = (
    select(events.c.seq, events.c.payload)
    .where(_OF_RUN, events.c.seq > bindparam("after"))
    .order_by(events.c.seq)
    .limit(bindparam("most"))
)
_OPEN_BY_QUEUE = (
    select(events.c.queue, func.count().label("open_count")).where(_OF_RUN, IS_OPEN).group_by(events.c.queue)
)
_PARKED = exists().where(dead_letters.c.event_id == events.c.id, dead_letters.c.status == "parked")
_UNREAD = _PAYLOADS.where(events.c.kind.in_((CrawlDirected.kind, PageCrawled.kind)), or_(IS_OPEN, _PARKED))
BACKUP_LEASE = "backup"
"""Lease of the backup that is being taken: what it is to hold must not go meanwhile."""
_BACKUP = select(leases.c.until).where(leases.c.name == BACKUP_LEASE, leases.c.until > bindparam("moment"))
_LAST_BACKUP = (
    select(operator_actions.c.at)
    .where(
        operator_actions.c.action == literal_column(f"'{BACKUP}'"),
        operator_actions.c.note.startswith(bindparam("told")),
    )
    .order_by(operator_actions.c.seq.desc())
    .limit(1)
)
_EVENT = select(events.c.payload, events.c.status).where(events.c.id == bindparam("of_event"))
_DEPTHS = (
    select(events.c.queue, events.c.status, func.count().label("how_many"), func.min(events.c.due_at).label("oldest"))
    .where(events.c.due_at.is_not(None))
    .group_by(events.c.status, events.c.queue)
)
_BACKLOGS = (
    select(events.c.queue, func.count().label("ready"), func.min(events.c.due_at).label("oldest"))
    .where(events.c.status == "ready", events.c.due_at >= 0)
    .group_by(events.c.queue)
)
_PRUNINGS = (
    select(operator_actions)
    .where(operator_actions.c.subject == PRUNED_SUBJECT, operator_actions.c.action == "prune")
    .order_by(operator_actions.c.seq)
)
SOON_SECONDS = 60.0
"""As the longest pause between two tries: no worker is taken away that the next try would need again."""


def _count(status: str, is_due: ColumnElement[bool] = IS_OPEN) -> ColumnElement[int]:
    of_stage = (events.c.status == literal_column(f"'{status}'"), is_due, events.c.queue == bindparam("of_queue"))
    return select(func.count()).where(*of_stage).scalar_subquery().label(status)


_PAUSE = select(pauses).where(pauses.c.stage == bindparam("of_queue")).subquery()
_WORK = select(
    _count("ready"),
    _count("claimed"),
    _count("waiting", events.c.due_at <= bindparam("soon")),
    select(func.count()).select_from(_PAUSE).scalar_subquery().label("paused"),
    select(func.count(_PAUSE.c.until)).scalar_subquery().label("probed"),
)
_IN_QUEUE = (IS_READY, events.c.queue == bindparam("of_queue"))
_NEXT_READY = (
    select(events.c.id)
    .where(*_IN_QUEUE)
    .order_by(events.c.priority, events.c.turn, events.c.seq)
    .limit(bindparam("most"))
)
_LANE_READY = select(func.count()).where(
    *_IN_QUEUE, events.c.priority == bindparam("at_priority"), events.c.lane == bindparam("of_lane")
)


def is_backed_up_now(database: Database) -> bool:
    """Return whether the lease of a backup is held."""
    return database.read(_BACKUP, {"moment": database.clock()}).first() is not None


class LedgerReader:
    """Queries on runs, events, stages and references.

    Every method may raise `Unavailable` when the database does not answer; a query on one run raises `NotFound` where
    there is no such run.
    """

    database: Database
    clock: Callable[[], float]

    # -- runs and their events

    def run(self, run_id: str) -> RunView:
        """Return everything about a run. Raises `NotFound`, which says when the run was pruned if it was."""
        with self.database.reading() as connection, _saying_when_pruned(connection, run_id):
            return _view(connection, run_id)

    def ended_run(self, run_id: str) -> RunView | None:
        """Return everything about a run; None while it has not ended."""
        with self.database.reading() as connection:
            return _view(connection, run_id) if _status(connection, run_id) in ENDED else None

    def tenancy(self, run_id: str) -> tuple[str, str]:
        """Return the corpus and the owner of a run."""
        row = self.database.read(_TENANCY, {"of_run": run_id}).found(f"run {run_id}")
        return row.corpus, row.owner

    def runs(
        self, limit: int = 50, before: str | None = None, corpus: str | None = None, **filters: Any
    ) -> list[RunSummary]:
        """Return the runs that match every filter, newest first; `filters` are those of `run_lists.RunFilter`.

        `before` is the last run id of the previous page. Raises `InvalidInput` if `text` cannot be searched for.
        """
        with self.database.reading() as connection:
            return run_lists.newest(connection, RunFilter(corpus=corpus, **filters), limit, before)

    def status_of(self, run_id: str) -> RunStatus:
        """Return the run's status: the cheapest query about it."""
        with self.database.reading() as connection:
            return _status(connection, run_id)

    def open_by_queue(self, run_id: str) -> dict[Queue, int]:
        """Count the run's open events per queue: results that an answer at the deadline must do without."""
        with self.database.reading() as connection:
            return _open_by_queue(connection, run_id)

    def budget_left(self, run_id: str) -> Ceilings:
        """Return the amounts that the run and its day may still reserve; None where there is no ceiling."""
        with self.database.reading() as connection:
            return reservations.left(connection, run_id, self.clock())

    def used_today(self) -> Spend:
        """Return the sum of all amounts reserved and spent in this UTC day."""
        with self.database.reading() as connection:
            return reservations.used_in_day(connection, self.clock())

    def spent_today(self) -> Spend:
        """Return the amounts spent by the runs of this UTC day."""
        with self.database.reading() as connection:
            return reservations.spent_on_day(connection, self.clock())

    def days_over(self, most_usd: float, since: datetime) -> int:
        """Count the UTC days, from that of `since` on, whose runs together spent more than `most_usd`."""
        with self.database.reading() as connection:
            return reservations.days_over(connection, most_usd, since.timestamp())

    def events_after(self, run_id: str, seq: int = 0, limit: int = 1_000) -> list[tuple[int, Event]]:
        """Return the run's events after position `seq`, in commit order, each with its position."""
        rows = self.database.read(_AFTER, {"of_run": run_id, "after": seq, "most": limit}).all()
        return [(row.seq, decode(row.payload)) for row in rows]

    def events_of_kind(self, run_id: str, kind: str) -> list[Event]:
        """Return the run's events of one kind, in commit order."""
        payloads = self.database.read(_OF_KIND, {"of_run": run_id, "of_kind": kind}).scalars()
        return [decode(payload) for payload in payloads]

    def count_kinds(self, run_id: str) -> dict[str, int]:
        """Count the run's events by kind."""
        return {row.kind: row.how_many for row in self.database.read(_COUNTS, {"of_run": run_id})}

    def keyed_event(self, run_id: str, dedupe_key: str) -> Event:
        """Return the run's event with that dedupe key. Raises `NotFound` if there is none."""
        asked = {"of_run": run_id, "of_key": storable(dedupe_key)}
        found = self.database.read(_KEYED, asked).found(f"event of run {run_id} under the key {dedupe_key}")
        return decode(found.payload)

    def taken_keys(self, run_id: str, keys: Sequence[str]) -> frozenset[str]:
        """Return those dedupe keys that an event of the run has."""
        with self.database.reading() as connection:
            found = connection.execute_each(TAKEN, [{"of_run": run_id, "of_key": storable(key)} for key in keys])
        return frozenset(row.dedupe_key for row in found)

    def unread_crawls(self, run_id: str) -> frozenset[str]:
        """Return the ids of the run's `CrawlDirected` that are open, or whose page may not be kept and is still unread.

        Parked ones count, as they may be replayed. An unread page that may be kept adds an empty text.
        """
        payloads = self.database.read(_UNREAD, {"of_run": run_id}).scalars()
        return frozenset(
            event.body.unarchived_by or "" if isinstance(event.body, PageCrawled) else event.id
            for event in map(decode, payloads)
        )

    def attempts(self, run_id: str, most: int = 10_000) -> Sequence[Attempt]:
        """Return the attempts on the run's events, by event and epoch; see `events.attempts` for what is kept."""
        with self.database.reading() as connection:
            return attempts.of_run(connection, run_id, most)

    def run_record(self, run_id: str) -> RunRecord:
        """Return what is known of a run's time. Raises `NotFound`, which says when the run was pruned if it was."""
        with self.database.reading() as connection, _saying_when_pruned(connection, run_id):
            return read_record(connection, run_id, self.clock())

    def written_offsets(self) -> dict[str, int]:
        """Return the journal offset that runs have reached in each corpus, since an operator last let one go."""
        return {row.corpus: row.reached for row in self.database.read(_WRITTEN)}

    def event(self, event_id: str) -> Event:
        """Return one event. Raises `NotFound` if there is no such event."""
        return decode(self.database.read(_EVENT, {"of_event": event_id}).found(f"event {event_id}").payload)

    def standing(self, event_id: str) -> str | None:
        """Return the event's status, or None when there is no such event."""
        found = self.database.read(_EVENT, {"of_event": event_id}).first()
        return found.status if found else None

    def blob_references(self, place: Place, most: int) -> tuple[set[str], Place | None]:
        """Return the SHA-256s (hexadecimal) that the next `most` rows refer to, and the next place; None at the end."""
        with self.database.reading() as connection:
            return references(connection, place, most)

    def is_backed_up_now(self) -> bool:
        """Return whether a backup is being taken: then nothing may be removed that the ledger refers to."""
        return is_backed_up_now(self.database)

    def last_backup_at(self, told: str) -> float:
        """Return when the last backup was recorded whose note begins so (seconds since the epoch); 0 without one."""
        return float(self.database.read(_LAST_BACKUP, {"told": told}).scalar() or 0.0)

    # -- stages

    def queue_stats(self) -> dict[Queue, QueueDepth]:
        """Return the depth of every queue."""
        with self.database.reading() as connection:
            return _depths(connection, self.clock())

    def stages(self) -> list[StageView]:
        """Return every stage, with the depth of its queue and its pause, if any."""
        with self.database.reading() as connection:
            depths, resting = _depths(connection, self.clock()), stages.all_paused(connection)
        by_stage = {pause.stage: pause for pause in resting}
        return [_stage_view(stage, depth, by_stage.get(stage)) for stage, depth in depths.items()]

    def open_count(self) -> int:
        """Count the open events."""
        return sum(depth.ready + depth.claimed + depth.waiting for depth in self.queue_stats().values())

    def paused(self) -> list[Pause]:
        """Return every paused stage, the longest first."""
        with self.database.reading() as connection:
            return stages.all_paused(connection)

    def backlogs(self) -> dict[Queue, Backlog]:
        """Return the backlog of every stage with ready events. Reads only the index of open events."""
        found = {row.queue: Backlog(row.ready, row.oldest) for row in self.database.read(_BACKLOGS).all()}
        return {queue: found[queue] for queue in QUEUES if queue in found}

    def backlog(self, stage: Queue) -> StageBacklog:
        """Count the open events of a stage, in one statement. Reads only the index of open events."""
        facts = {"of_queue": stage, "soon": self.clock() + SOON_SECONDS}
        row = self.database.read(_WORK, facts).one()
        takeable = row.ready + row.waiting
        workable = min(takeable, row.probed) if row.paused else takeable
        return StageBacklog(ready=row.ready, claimed=row.claimed, due_soon=row.waiting, open=row.claimed + workable)

    def tenant_backlog(self, stage: Queue, priority: int, tenant_queue: str) -> int:
        """Count the ready events of a tenant queue in the stage. Reads a partial index of ready events only."""
        facts = {"of_queue": stage, "at_priority": priority, "of_lane": tenant_queue}
        return int(self.database.read(_LANE_READY, facts).scalar() or 0)

    def next_ready(self, stage: Queue, most: int) -> list[WakeUp]:
        """Return wake-ups for the stage's next `most` ready events."""
        ids = self.database.read(_NEXT_READY, {"of_queue": stage, "most": most}).scalars()
        return [WakeUp(stage, event_id) for event_id in ids]


@contextlib.contextmanager
def _saying_when_pruned(connection: Transaction, run_id: str) -> Iterator[None]:
    try:
        yield
    except NotFound as error:
        raise NotFound(f"{error}{_pruned(connection, run_id)}") from None


def _pruned(connection: Transaction, run_id: str) -> str:
    """Return when a run was pruned, as the end of a sentence; nothing if it cannot have been."""
    with contextlib.suppress(ValueError, IndexError, OverflowError):
        made = made_at(run_id)
        for row in connection.execute(_PRUNINGS):
            before = row.note.rpartition(" ")[2]
            if made < datetime.fromisoformat(before):
                when = f"{moment(row.at):%Y-%m-%d %H:%M} UTC"
                return f" any more: what ended before {before} was pruned by {row.operator} at {when}"
    return ""


def _view(connection: Transaction, run_id: str) -> RunView:
    run = connection.select(runs, {"run_id": run_id}).found(f"run {run_id}")
    told = [decode(payload).body for payload in connection.execute(_TOLD, {"of_run": run_id}).scalars()]
    ready = next((body for body in reversed(told) if isinstance(body, AnswerReady)), None)
    same = ("kind", "corpus", "status", "query", "traceparent", "settled_events", "dead_letters")
    gaps = sorted_gaps(connection, run_id)
    return RunView(
        run_id=run_id,
        created_at=moment(run.created_at),
        deadline_at=perhaps_moment(run.deadline_at),
        finished_at=perhaps_moment(run.finished_at),
        decision=next((Decision.of(body) for body in reversed(told) if isinstance(body, GateDecided)), None),
        answer=ready.answer if ready else None,
        prompt=ready.prompt if ready else (),
        missing=tuple(gap for gap, is_mended in gaps if not is_mended),
        mended=tuple(gap for gap, is_mended in gaps if is_mended),
        spend=reservations.spend_in(run, "spent"),
        open_events=sum(_open_by_queue(connection, run_id).values()),
        journal_offset=run.journal_offset,
        generation=run.generation,
        stale=tuple(one for body in told if isinstance(body, AnswerStale) for one in body.citations),
        **{name: getattr(run, name) for name in same},
    )


def _open_by_queue(connection: Transaction, run_id: str) -> dict[Queue, int]:
    return {row.queue: row.open_count for row in connection.execute(_OPEN_BY_QUEUE, {"of_run": run_id})}


def _status(connection: Transaction, run_id: str) -> RunStatus:
    status: RunStatus = connection.execute(_STATUS, {"of_run": run_id}).found(f"run {run_id}").status
    return status


def _depths(connection: Transaction, now: float) -> dict[Queue, QueueDepth]:
    """Return the depth of every queue. Reads only the index of open events."""
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for row in connection.execute(_DEPTHS):
        found[row.queue][row.status] = row.how_many
        if row.status == "ready":
            found[row.queue]["oldest_ready_seconds"] = max(0.0, now - row.oldest)
    return {queue: QueueDepth(**found[queue]) for queue in QUEUES}


def _stage_view(stage: Queue, depth: QueueDepth, pause: Pause | None) -> StageView:
    return StageView(
        stage=stage,
        **asdict(depth),
        paused_because=pause.why if pause else None,
        paused_by=pause.operator if pause else None,
        paused_since=pause.since if pause else None,
        probe_at=pause.until if pause else None,
    )
