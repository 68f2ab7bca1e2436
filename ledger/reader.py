"""Queries of the ledger. Each method is one consistent view and writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sluice.contracts.api import ENDED, RunKind, RunStatus, RunView, StageView
from sluice.contracts.budget import Ceilings, Spend
from sluice.contracts.errors import NotFound
from sluice.contracts.event import Event, Queue
from sluice.ledger import queries
from sluice.ledger.blob_references import Place, references
from sluice.ledger.database import Database
from sluice.ledger.events import backlog, claims, pauses, reservations
from sluice.ledger.events.backlog import Backlog
from sluice.ledger.events.outbox import WakeUp
from sluice.ledger.events.pauses import Pause
from sluice.ledger.queries import QueueDepth, RunSummary


class LedgerReader:
    """The questions about runs, events, stages and references.

    Every method may raise `Unavailable` when the database does not answer.
    """

    database: Database
    clock: Callable[[], float]

    # -- runs and their events

    def run(self, run_id: str) -> RunView:
        """Everything about a run.

        Raises:
            NotFound: there is no such run.
        """
        with self.database.reading() as connection:
            return queries.view(connection, run_id)

    def ended_run(self, run_id: str) -> RunView | None:
        """Everything about a run, once it has ended.

        Raises:
            NotFound: there is no such run.
        """
        with self.database.reading() as connection:
            return queries.view(connection, run_id) if queries.status_of(connection, run_id) in ENDED else None

    def runs(
        self,
        limit: int = 50,
        before: str | None = None,
        corpus: str | None = None,
        status: RunStatus | None = None,
        owner: str | None = None,
        kind: RunKind | None = None,
    ) -> list[RunSummary]:
        """Runs that meet every filter given, the latest first; `before` is the last run id of the page before."""
        filters = {"corpus": corpus, "status": status, "owner": owner, "kind": kind}
        with self.database.reading() as connection:
            return queries.summaries(connection, limit, before, filters)

    def owner_of(self, run_id: str) -> str:
        """Who asked for the run.

        Raises:
            NotFound: there is no such run.
        """
        with self.database.reading() as connection:
            return queries.owner_of(connection, run_id)

    def status_of(self, run_id: str) -> RunStatus:
        """How the run stands: the cheapest question about it.

        Raises:
            NotFound: there is no such run.
        """
        with self.database.reading() as connection:
            return queries.status_of(connection, run_id)

    def open_by_queue(self, run_id: str) -> dict[Queue, int]:
        """How many events of the run are open, per queue: what an answer at the deadline does without."""
        with self.database.reading() as connection:
            return queries.open_by_queue(connection, run_id)

    def budget_left(self, run_id: str) -> Ceilings:
        """What the run and its day may still reserve; None where there is no ceiling.

        Raises:
            NotFound: there is no such run.
        """
        with self.database.reading() as connection:
            left = reservations.left(connection, run_id, self.clock())
        if left is None:
            raise NotFound(f"no run {run_id}")
        return left

    def used_today(self) -> Spend:
        """What all runs have reserved and spent together in this UTC day."""
        with self.database.reading() as connection:
            return reservations.used_in_day(connection, self.clock())

    def spent_today(self) -> Spend:
        """What the runs of this UTC day have spent."""
        with self.database.reading() as connection:
            return reservations.spent_on_day(connection, self.clock())

    def days_over(self, most_usd: float, since: datetime) -> int:
        """UTC days from that of `since` on whose runs together spent more."""
        with self.database.reading() as connection:
            return reservations.days_over(connection, most_usd, since.timestamp())

    def events_after(self, run_id: str, seq: int = 0, limit: int = 1_000) -> list[tuple[int, Event]]:
        """The run's events behind position `seq`, in commit order, each with its position."""
        with self.database.reading() as connection:
            return queries.events_after(connection, run_id, seq, limit)

    def events_of_kind(self, run_id: str, kind: str) -> list[Event]:
        """The run's events of one kind, in commit order."""
        with self.database.reading() as connection:
            return queries.events_of_kind(connection, run_id, kind)

    def keyed_event(self, run_id: str, dedupe_key: str) -> Event:
        """The event of the run that was added under that key.

        Raises:
            NotFound: there is none.
        """
        with self.database.reading() as connection:
            return queries.keyed_event(connection, run_id, dedupe_key)

    def unread_crawls(self, run_id: str) -> frozenset[str]:
        """The ids of the run's `CrawlDirected` that are not over, or whose page has still to be read."""
        with self.database.reading() as connection:
            return queries.unread_crawls(connection, run_id)

    def event(self, event_id: str) -> Event:
        """One event.

        Raises:
            NotFound: there is no such event.
        """
        with self.database.reading() as connection:
            return queries.one_event(connection, event_id)

    def queue_stats(self) -> dict[Queue, QueueDepth]:
        """What every queue has before it."""
        with self.database.reading() as connection:
            return queries.depths(connection, self.clock())

    def stages(self) -> list[StageView]:
        """Every stage: what it has before it, and whether it rests."""
        with self.database.reading() as connection:
            depths, resting = queries.depths(connection, self.clock()), pauses.all_paused(connection)
        by_stage = {pause.stage: pause for pause in resting}
        return [queries.stage_view(stage, depth, by_stage.get(stage)) for stage, depth in depths.items()]

    def open_count(self) -> int:
        """How many events are open."""
        return sum(depth.ready + depth.claimed + depth.waiting for depth in self.queue_stats().values())

    def blob_references(self, place: Place, most: int) -> tuple[set[str], Place | None]:
        """What the next `most` rows refer to, as SHA-256 in hexadecimal, and where to go on; None when all was read."""
        with self.database.reading() as connection:
            return references(connection, place, most)

    # -- events and stages

    def standing(self, event_id: str) -> str | None:
        """The event's status, or None when there is no such event."""
        with self.database.reading() as connection:
            return claims.standing(connection, event_id)

    def paused(self) -> list[Pause]:
        """Every stage that rests, the longest first."""
        with self.database.reading() as connection:
            return pauses.all_paused(connection)

    def backlogs(self) -> dict[Queue, Backlog]:
        """What every stage that has something ready has."""
        with self.database.reading() as connection:
            return backlog.backlogs(connection)

    def tenant_backlog(self, stage: Queue, priority: int, tenant_queue: str) -> int:
        """How many events of a tenant queue wait in the stage."""
        with self.database.reading() as connection:
            return backlog.tenant_backlog(connection, stage, priority, tenant_queue)

    def next_ready(self, stage: Queue, most: int) -> list[WakeUp]:
        """Wake-ups for the stage's next `most` ready events."""
        with self.database.reading() as connection:
            return backlog.next_ready(connection, stage, most)
