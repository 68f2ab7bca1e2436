"""The ledger: runs and events in SQL, and the guarantee that nothing is lost and nothing counts twice.

The transport may lose a message or bring it twice. So an event is a row here before it is a message, a worker claims
the row before it handles it, and one transaction both settles the row and records what came of it:

                      claim                     settle(Done, Discard)
    ready ------------------------> claimed ------------------------> settled
      ^ ^ ^                         | |  | |
      | | +-- lease ran out, -------+ |  | +-- settle(DeadLetter), last attempt, ---> dead
      | |     worker died (deaths+1)  |  |     last death (poison)                     |
      | |                             |  +---- cancel ---> cancelled                   |
      | +---- due_at has come -- waiting  <--- settle(Retry)                           |
      +------------------------------- replay (attempts and deaths at nought) ---------+

    recorded: events that no queue consumes (streamed, never open)

A claim raises the row's epoch. Whatever is done under an older epoch, or after the claim was taken away, raises
`Fenced` and changes nothing. Claiming and settling are one commit each, and no other is needed per event.

`Ledger` opens the transactions; what happens in them stands in `runs`, `claims`, `settling`, `closing` (how a run
ends), `reservations` (money and pages), `dead_letters`, `overdue` and `history`. Safe across threads and forks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType

from contracts.api import RunStatus, RunView
from contracts.errors import NotFound
from contracts.event import Body, Event, Queue
from contracts.outcome import Next, Outcome
from workers import claims, closing, history, overdue, reservations, runs, settling
from workers.claims import Claim, NotClaimed
from workers.closing import Maker
from workers.database import Database
from workers.dead_letters import DeadLetters
from workers.history import QueueDepth, RunSummary
from workers.keys_table import KeysTable
from workers.outbox import Entry, write
from workers.reservations import BudgetLeft
from workers.runs import CreatedRun, NewRun
from workers.schema import install
from workers.settling import Settled

__all__ = ["BudgetLeft", "Claim", "CreatedRun", "Ledger", "NewRun", "NotClaimed", "QueueDepth", "RunSummary", "Settled"]


class Ledger:
    """The truth about runs and events. Every method is one transaction.

    Every method may raise `Unavailable` when the database does not answer; then nothing was written.
    """

    def __init__(self, url: str, *, clock: Callable[[], float] = time.time) -> None:
        """Open the ledger at an SQLAlchemy URL, and make its tables where they are missing.

        Raises:
            InvalidSetting: the URL names no SQLite file and no PostgreSQL database.
            Conflict: the ledger was written by a newer Sluice.
        """
        self._database = Database(url)
        self._clock = clock
        self.dead_letters = DeadLetters(self._database, clock)
        self.keys = KeysTable(self._database, clock)
        with self._database.writing() as connection:
            install(connection)

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

    def cancel(self, run_id: str) -> bool:
        """Cancel a run's open events and finish it; False when there was nothing to cancel. Claims are fenced.

        Raises:
            NotFound: there is no such run.
        """
        with self._database.writing() as connection:
            return closing.cancel(connection, run_id, self._clock())[0]

    def direct_answer_at_deadline(self, now: float | None = None, *, most: int = 100) -> tuple[Event, ...]:
        """Direct the answers of gate runs whose deadline has passed, once each; the events to publish."""
        moment = self._clock() if now is None else now
        with self._database.reading() as connection:
            due = closing.runs_due_for_answer(connection, moment, most)
        directed: list[Event] = []
        for run_id in due:
            with self._database.writing() as connection:
                directed += closing.answer_at_deadline(connection, run_id, moment)
        return tuple(directed)

    # -- the life of an event

    def claim(self, event_id: str, worker: str, lease_seconds: float, max_deliveries: int) -> Claim | NotClaimed:
        """Claim an event for `worker`, or learn why there is nothing to do. One commit (see `Database.holding`)."""
        with self._database.holding() as connection:
            return claims.claim(connection, event_id, worker, self._clock(), lease_seconds, max_deliveries)

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
        with self._database.writing() as connection:
            return settling.settle(connection, claim, outcome, make, max_attempts, self._clock())

    def release(self, worker: str, *, max_deliveries: int = 3, died: bool = True) -> tuple[Event, ...]:
        """Free what `worker` holds, because it is known to be dead, or (`died` False) hands it back.

        Returns the events to publish: those freed, and what parking the poisonous ones emitted.
        """
        with self._database.reading() as connection:
            held = claims.held_by(connection, worker)
        return self._free(held, max_deliveries, died)

    def expire_leases(self, max_deliveries: int, *, most: int = 500) -> tuple[Event, ...]:
        """Free every claim whose lease has run out; the events to publish, as from `release`."""
        with self._database.reading() as connection:
            expired = claims.run_out(connection, self._clock(), most)
        return self._free(expired, max_deliveries, died=True)

    def wake_due_retries(self, *, most: int = 500) -> tuple[Event, ...]:
        """Make retries ready whose time has come; the events to publish."""
        with self._database.reading() as connection:
            if not overdue.any_waiting(connection, self._clock()):
                return ()
        with self._database.writing() as connection:
            return tuple(overdue.wake(connection, self._clock(), most))

    # -- reading

    def run(self, run_id: str) -> RunView:
        """Everything about a run.

        Raises:
            NotFound: there is no such run.
        """
        with self._database.reading() as connection:
            return history.view(connection, run_id)

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
            return history.summaries(connection, limit, before, filters)

    def owner_of(self, run_id: str) -> str:
        """Who asked for the run.

        Raises:
            NotFound: there is no such run.
        """
        with self._database.reading() as connection:
            return history.owner_of(connection, run_id)

    def status_of(self, run_id: str) -> RunStatus:
        """How the run stands: the cheapest question about it.

        Raises:
            NotFound: there is no such run.
        """
        with self._database.reading() as connection:
            return history.status_of(connection, run_id)

    def open_by_queue(self, run_id: str) -> dict[Queue, int]:
        """How many events of the run are open, per queue: what an answer at the deadline does without."""
        with self._database.reading() as connection:
            return history.open_by_queue(connection, run_id)

    def budget_left(self, run_id: str) -> BudgetLeft:
        """What the run and its day may still reserve.

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
            return history.events_after(connection, run_id, seq, limit)

    def events_of_kind(self, run_id: str, kind: str) -> list[Event]:
        """The run's events of one kind, in commit order."""
        with self._database.reading() as connection:
            return history.events_of_kind(connection, run_id, kind)

    def event(self, event_id: str) -> Event:
        """One event.

        Raises:
            NotFound: there is no such event.
        """
        with self._database.reading() as connection:
            return history.one_event(connection, event_id)

    def queue_stats(self) -> dict[Queue, QueueDepth]:
        """What every queue has before it."""
        with self._database.reading() as connection:
            return history.depths(connection, self._clock())

    def open_count(self) -> int:
        """How many events are open."""
        return sum(depth.ready + depth.claimed + depth.waiting for depth in self.queue_stats().values())

    # -- for the reconciler

    def ready_since(self, since: float, after: tuple[float, int], most: int) -> list[overdue.Waiting]:
        """Events that became ready before `since`, oldest first, behind a position; without their bodies."""
        with self._database.reading() as connection:
            return overdue.ready_since(connection, since, after, most)

    def still_ready(self, event_ids: Sequence[str]) -> list[Event]:
        """Those of the events that are ready now."""
        with self._database.reading() as connection:
            return overdue.still_ready(connection, event_ids)

    def lease(self, name: str, holder: str, seconds: float) -> bool:
        """Take or renew a named lease; False while another holder has it."""
        with self._database.writing() as connection:
            return overdue.lease(connection, name, holder, self._clock(), seconds)

    def give_up_lease(self, name: str, holder: str) -> None:
        """End a lease before its time."""
        with self._database.writing() as connection:
            overdue.give_up(connection, name, holder)

    def _free(self, seen: Sequence[claims.Held], max_deliveries: int, died: bool) -> tuple[Event, ...]:
        freed: list[Event] = []
        for row in seen:
            with self._database.writing() as connection:
                freed += claims.free(connection, row, self._clock(), max_deliveries, died=died)
        return tuple(freed)


def _maker(claim: Claim, traceparent: str | None) -> Maker:
    event = claim.event

    def make(body: Body) -> Event:
        return Event.of(body, run_id=event.run_id, corpus=event.corpus, cause=event, traceparent=traceparent)

    return make
