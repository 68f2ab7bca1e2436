"""The ledger: runs and events in SQL, and the guarantee that nothing is lost and nothing counts twice.

The transport may lose a message or bring it twice. So an event is a row here before it is a message, a worker claims
a row before it handles it, and one transaction both settles the row and records what came of it:

                      claim_next                settle(Done, Discard)
    ready ------------------------> claimed ------------------------> settled
      ^ ^ ^                         | |  | |
      | | +-- lease ran out, -------+ |  | +-- settle(DeadLetter), last attempt, ---> dead
      | |     worker died (deaths+1)  |  |     last death (poison)                     |
      | |                             |  +---- cancel ---> cancelled                   |
      | +---- due_at has come -- waiting  <--- settle(Retry)                           |
      +------------------------------- replay (attempts and deaths at nought) ---------+

    recorded: events that no queue consumes (streamed, never open)

A message is a permit, "this stage has one more ready event", and nothing else: which event a worker gets is decided
here, when it claims, by whose turn it is (`turns`). So a lost message costs time until the reconciler has counted,
one too many costs a look, and neither can make an event be handled twice.

A claim raises the row's epoch. Whatever is done under an older epoch, or after the claim was taken away, raises
`Fenced` and changes nothing. Claiming and settling are one commit each, and no other is needed per event.

`Ledger` opens the transactions; what happens in them stands in `runs`, `turns`, `claims`, `settling`, `closing` (how
a run ends), `reservations` (what work may cost), `pauses`, `dead_letters`, `overdue` and `history`. Safe across
threads and forks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from contracts.api import RunStatus, RunView, StageView
from contracts.budget import Ceilings
from contracts.errors import MalformedEvent, NotFound
from contracts.event import Body, Event, Queue
from contracts.outcome import Next, Outcome
from ledger import backlog, claims, finish, pauses, queries, reservations, runs, settle
from ledger.api_keys import KeysTable
from ledger.backlog import Backlog
from ledger.blob_references import Place, references
from ledger.claims import Claim, NotClaimed
from ledger.database import Database
from ledger.dead_letters.bulk_replay import Replays
from ledger.dead_letters.store import DeadLetters
from ledger.finish import Maker
from ledger.known_pages import LedgerPageMemory
from ledger.outbox import Entry, WakeUp, permits_of, write
from ledger.pauses import Pause
from ledger.queries import QueueDepth, RunSummary
from ledger.runs import CreatedRun, NewRun
from ledger.settle import Settled
from ledger.tables import install

__all__ = ["Claim", "CreatedRun", "Ledger", "NewRun", "NotClaimed", "QueueDepth", "RunSummary", "Settled", "WakeUp"]

PROBE_SECONDS = 5.0
"""Between two probes of a paused stage."""


class Ledger:
    """The truth about runs and events. Every method is one transaction.

    Every method may raise `Unavailable` when the database does not answer; then nothing was written.
    """

    def __init__(self, url: str, *, clock: Callable[[], float] = time.time) -> None:
        """Open the ledger at an SQLAlchemy URL, and make its tables where they are missing.

        Raises:
            InvalidSetting: the URL names no SQLite file and no PostgreSQL database.
            Conflict: the ledger was written by a newer Sluice, or by an older one and nobody has migrated it.
        """
        self._database = Database(url)
        self._clock = clock
        self.dead_letters = DeadLetters(self._database, clock)
        self.replays = Replays(self._database, clock)
        self.keys = KeysTable(self._database, clock)
        with self._database.installing() as connection:
            install(connection)

    def page_memory(self, *, read_as: str, is_there: Callable[[str], bool]) -> LedgerPageMemory:
        """What was read of each page; see `LedgerPageMemory`."""
        return LedgerPageMemory(self._database, read_as=read_as, is_there=is_there)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close this process's connections."""
        self._database.close()

    # -- runs

    def create_run(self, run: NewRun, first: Sequence[tuple[Event, Next]]) -> CreatedRun:
        """Record a run with its first events and what each was made from; the caller publishes `CreatedRun.events`.

        Raises:
            Conflict: the idempotency key was used for a different request.
            BudgetExhausted: what the first events may cost does not fit; no run is recorded.
        """
        entries = [Entry(event, origin.dedupe_key, origin.reserve) for event, origin in first]
        with self._database.writing() as connection:
            return runs.create(connection, run, entries, self._clock())

    def add_event(self, event: Event, *, dedupe_key: str | None = None) -> bool:
        """Add an event from outside (feedback, say) to its run, finished or not; False when it is a second one.

        Raises:
            NotFound: there is no such run.
        """
        with self._database.writing() as connection:
            run = runs.take(connection, event.run_id)
            return bool(write(connection, run, [Entry(event, dedupe_key)], self._clock()))

    def cancel(self, run_id: str) -> tuple[Event, ...] | None:
        """Cancel a run's open events and finish it; None when there was nothing to cancel. Claims are fenced.

        Returns the events that say so, to be announced.

        Raises:
            NotFound: there is no such run.
        """
        with self._database.writing() as connection:
            changed, emitted = finish.cancel(connection, run_id, self._clock())
        return tuple(emitted) if changed else None

    def direct_answer_at_deadline(self, now: float | None = None, *, most: int = 100) -> tuple[WakeUp, ...]:
        """Direct the answers of gate runs whose deadline has passed, once each; what is to be published."""
        moment = self._clock() if now is None else now
        with self._database.reading() as connection:
            due = finish.runs_due_for_answer(connection, moment, most)
        directed: list[Event] = []
        for run_id in due:
            with self._database.writing() as connection:
                directed += finish.answer_at_deadline(connection, run_id, moment)
        return tuple(permits_of(directed))

    # -- the life of an event

    def claim_next(self, stage: Queue, worker: str, lease_seconds: float, *, alone: bool = True) -> Claim | NotClaimed:
        """Claim the ready event of `stage` whose turn it is, or learn why there is none.

        `alone`: the worker holds nothing else, so it may have an event that others died on. One commit (see
        `Database.holding`).
        """
        with self._database.holding() as connection:
            taken = claims.take_next(
                connection, stage, worker, self._clock(), lease_seconds, alone=alone, probe_seconds=PROBE_SECONDS
            )
        if isinstance(taken, NotClaimed):
            return taken
        try:
            return claims.claim_in(taken)
        except MalformedEvent as error:
            with self._database.writing() as connection:
                return claims.park_malformed(connection, taken, error, self._clock())

    def standing(self, event_id: str) -> str | None:
        """The event's status, or None when there is no such event."""
        with self._database.reading() as connection:
            return claims.standing(connection, event_id)

    def heartbeat(self, claim: Claim, lease_seconds: float) -> None:
        """Extend a claim's lease.

        Raises:
            Fenced: the claim was lost, or the run cancelled: stop working on it.
        """
        with self._database.holding() as connection:
            claims.heartbeat(connection, claim, self._clock(), lease_seconds)

    def settle(
        self, claim: Claim, outcome: Outcome, *, traceparent: str | None = None, max_attempts: int = 10
    ) -> Settled:
        """Make the outcome of a claimed event true. One durable commit.

        `traceparent` is what the emitted events continue; without it, the claimed event's. A `Retry` of an event's
        `max_attempts`-th try parks it as `exhausted`.

        Raises:
            Fenced: the claim was lost; nothing was written.
            BudgetExhausted: a `Next.reserve` does not fit; nothing was written, and the claim still stands.
        """
        make = _maker(claim, traceparent)
        entries = settle.entries_of(outcome, make)
        with self._database.writing() as connection:
            return settle.settle(connection, claim, outcome, entries, make, max_attempts, self._clock())

    def release(self, worker: str, *, max_deliveries: int = 3, died: bool = True) -> tuple[WakeUp, ...]:
        """Free what `worker` holds, because it is known to be dead, or (`died` False) hands it back.

        Returns what is to be published: what was freed, and what parking the poisonous ones emitted.
        """
        with self._database.reading() as connection:
            held = claims.held_by(connection, worker)
        return self._free(held, max_deliveries, died)

    def expire_leases(self, max_deliveries: int, *, most: int = 500) -> tuple[WakeUp, ...]:
        """Free every claim whose lease has run out; what is to be published, as from `release`."""
        with self._database.reading() as connection:
            now = self._clock()
            expired = claims.run_out(connection, now, most)
        return self._free(expired, max_deliveries, died=True, run_out_by=now)

    def wake_due_retries(self, *, most: int = 500) -> tuple[WakeUp, ...]:
        """Make retries ready whose time has come; what is to be published."""
        with self._database.reading() as connection:
            if not backlog.any_waiting(connection, self._clock()):
                return ()
        with self._database.writing() as connection:
            return tuple(backlog.wake(connection, self._clock(), most))

    # -- stages that rest

    def pause(self, stage: Queue, why: str, *, seconds: float | None = None, operator: str | None = None) -> bool:
        """Let nobody claim events of `stage` for a while, then a probe; without `seconds`, until `resume`.

        False when it was paused already; then only an operator's pause takes the place of the breaker's.
        """
        with self._database.writing() as connection:
            return pauses.pause(connection, stage, why, self._clock(), seconds=seconds, operator=operator)

    def resume(self, stage: Queue, *, operator: str | None = None) -> bool:
        """End a pause; False when there was none. One that an operator began ends only by an operator."""
        with self._database.writing() as connection:
            return pauses.resume(connection, stage, self._clock(), operator=operator)

    def paused(self) -> list[Pause]:
        """Every stage that rests, the longest first."""
        with self._database.reading() as connection:
            return pauses.all_paused(connection)

    # -- reading

    def run(self, run_id: str) -> RunView:
        """Everything about a run.

        Raises:
            NotFound: there is no such run.
        """
        with self._database.reading() as connection:
            return queries.view(connection, run_id)

    def runs(
        self,
        limit: int = 50,
        before: str | None = None,
        corpus: str | None = None,
        status: RunStatus | None = None,
        owner: str | None = None,
    ) -> list[RunSummary]:
        """Runs that meet every filter given, the latest first; `before` is the last run id of the page before."""
        filters = {"corpus": corpus, "status": status, "owner": owner}
        with self._database.reading() as connection:
            return queries.summaries(connection, limit, before, filters)

    def owner_of(self, run_id: str) -> str:
        """Who asked for the run.

        Raises:
            NotFound: there is no such run.
        """
        with self._database.reading() as connection:
            return queries.owner_of(connection, run_id)

    def status_of(self, run_id: str) -> RunStatus:
        """How the run stands: the cheapest question about it.

        Raises:
            NotFound: there is no such run.
        """
        with self._database.reading() as connection:
            return queries.status_of(connection, run_id)

    def open_by_queue(self, run_id: str) -> dict[Queue, int]:
        """How many events of the run are open, per queue: what an answer at the deadline does without."""
        with self._database.reading() as connection:
            return queries.open_by_queue(connection, run_id)

    def budget_left(self, run_id: str) -> Ceilings:
        """What the run and its day may still reserve; None where there is no ceiling.

        Raises:
            NotFound: there is no such run.
        """
        with self._database.reading() as connection:
            left = reservations.left(connection, run_id, self._clock())
        if left is None:
            raise NotFound(f"no run {run_id}")
        return left

    def events_after(self, run_id: str, seq: int = 0, limit: int = 1_000) -> list[tuple[int, Event]]:
        """The run's events behind position `seq`, in commit order, each with its position."""
        with self._database.reading() as connection:
            return queries.events_after(connection, run_id, seq, limit)

    def events_of_kind(self, run_id: str, kind: str) -> list[Event]:
        """The run's events of one kind, in commit order."""
        with self._database.reading() as connection:
            return queries.events_of_kind(connection, run_id, kind)

    def keyed_event(self, run_id: str, dedupe_key: str) -> Event:
        """The event of the run that was added under that key.

        Raises:
            NotFound: there is none.
        """
        with self._database.reading() as connection:
            return queries.keyed_event(connection, run_id, dedupe_key)

    def unread_crawls(self, run_id: str) -> frozenset[str]:
        """The ids of the run's `CrawlDirected` that are not over, or whose page has still to be read."""
        with self._database.reading() as connection:
            return queries.unread_crawls(connection, run_id)

    def event(self, event_id: str) -> Event:
        """One event.

        Raises:
            NotFound: there is no such event.
        """
        with self._database.reading() as connection:
            return queries.one_event(connection, event_id)

    def queue_stats(self) -> dict[Queue, QueueDepth]:
        """What every queue has before it."""
        with self._database.reading() as connection:
            return queries.depths(connection, self._clock())

    def stages(self) -> list[StageView]:
        """Every stage: what it has before it, and whether it rests."""
        with self._database.reading() as connection:
            depths, resting = queries.depths(connection, self._clock()), pauses.all_paused(connection)
        by_stage = {pause.stage: pause for pause in resting}
        return [queries.stage_view(stage, depth, by_stage.get(stage)) for stage, depth in depths.items()]

    def open_count(self) -> int:
        """How many events are open."""
        return sum(depth.ready + depth.claimed + depth.waiting for depth in self.queue_stats().values())

    def blob_references(self, place: Place, most: int) -> tuple[set[str], Place | None]:
        """What the next `most` rows refer to, as SHA-256 in hexadecimal, and where to go on; None when all was read."""
        with self._database.reading() as connection:
            return references(connection, place, most)

    # -- for the reconciler

    def backlogs(self) -> dict[Queue, Backlog]:
        """What every stage that has something ready has."""
        with self._database.reading() as connection:
            return backlog.backlogs(connection)

    def lane_backlog(self, stage: Queue, priority: int, lane: str) -> int:
        """How many events of the lane wait in the stage."""
        with self._database.reading() as connection:
            return backlog.lane_backlog(connection, stage, priority, lane)

    def next_ready(self, stage: Queue, most: int) -> list[WakeUp]:
        """Permits for the stage's next `most` ready events."""
        with self._database.reading() as connection:
            return backlog.next_ready(connection, stage, most)

    def lease(self, name: str, holder: str, seconds: float) -> bool:
        """Take or renew a named lease; False while another holder has it."""
        with self._database.writing() as connection:
            return backlog.lease(connection, name, holder, self._clock(), seconds)

    def give_up_lease(self, name: str, holder: str) -> None:
        """End a lease before its time."""
        with self._database.writing() as connection:
            backlog.give_up(connection, name, holder)

    def _free(
        self, seen: Sequence[claims.Held], max_deliveries: int, died: bool, run_out_by: float = math.inf
    ) -> tuple[WakeUp, ...]:
        freed: list[WakeUp] = []
        for row in seen:
            with self._database.writing() as connection:
                freed += claims.free(connection, row, self._clock(), max_deliveries, died=died, run_out_by=run_out_by)
        return tuple(freed)


def _maker(claim: Claim, traceparent: str | None) -> Maker:
    event = claim.event

    def make(body: Body) -> Event:
        return Event.of(body, run_id=event.run_id, corpus=event.corpus, cause=event, traceparent=traceparent)

    return make
