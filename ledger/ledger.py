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

    recorded: an event without a queue (streamed, never open)

A message is only a wake-up: "this stage has one more ready event". The fair queue (`outbox`) chooses the event
when the worker claims. A lost message delays an event until the reconciler counts, a surplus message costs one query,
and neither can make an event be handled twice.

A claim raises the row's epoch. A write under an older epoch, or after the claim was taken away, raises `Fenced` and
changes nothing. An event needs two commits: one to claim it, one to settle it.

`Ledger` opens the transactions that write, `LedgerReader` those that read; their statements are in `runs`,
`outbox`, `claims`, `settle`, `finish` (how a run ends), `reservations` (what work may cost), `stages` (pauses) and
`dead_letters`. Safe across threads and forks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any

from sqlalchemy import bindparam, or_, update

from sluice.contracts.errors import Conflict, MalformedEvent, NotFound
from sluice.contracts.event import DeadLetter, Event, Next, Outcome, Queue, Retry
from sluice.contracts.index import AnswerStale, StaleCitation
from sluice.ledger import index_lease, runs
from sluice.ledger.audit import LET_GO, ConsoleTable, KeysTable, record
from sluice.ledger.corpora import Corpora
from sluice.ledger.database import Database
from sluice.ledger.dead_letters.bulk_replay import Replays
from sluice.ledger.dead_letters.store import DeadLetters
from sluice.ledger.events import beats, claims, finish, settle, stages
from sluice.ledger.events.claims import Claim, GoOn, NotClaimed, Taken
from sluice.ledger.events.outbox import Entry, WakeUp, own_event, wake_ups_of, write
from sluice.ledger.events.settle import Settled
from sluice.ledger.graph.store import Graphs
from sluice.ledger.index_lease import Fence, IndexLease
from sluice.ledger.known_pages import PageMemory
from sluice.ledger.learning.controls import Configurations, Defences, Rollouts
from sluice.ledger.learning.flags import Flags
from sluice.ledger.learning.outcomes import Outcomes
from sluice.ledger.learning.passage_marks import PassageMarks
from sluice.ledger.overview import Glances, PoolSizes
from sluice.ledger.reader import LedgerReader
from sluice.ledger.run_lists import RunSummary
from sluice.ledger.runs import CreatedRun, NewRun
from sluice.ledger.schedules import Schedules
from sluice.ledger.schema.migrate import install
from sluice.ledger.schema.tables import leases
from sluice.ledger.stage_minutes import Ended, StageMinutes
from sluice.ledger.transaction import Transaction
from sluice.ledger.trust import citations
from sluice.ledger.trust.blobs import Erasure
from sluice.ledger.trust.citations import CitedChunk
from sluice.ledger.trust.forgotten import Forgotten
from sluice.ledger.trust.quarantine import Quarantine
from sluice.ledger.webhooks.store import Webhooks

__all__ = ["Claim", "CreatedRun", "GoOn", "Ledger", "NewRun", "NotClaimed", "RunSummary", "Settled", "WakeUp"]

PROBE_SECONDS = 5.0
"""Seconds between two probes of a paused stage."""
_RENEW = (
    update(leases)
    .where(
        leases.c.name == bindparam("of_name"),
        or_(leases.c.holder == bindparam("by_holder"), leases.c.until <= bindparam("moment")),
    )
    .values(holder=bindparam("by_holder"), until=bindparam("up_to"))
)


class Ledger(LedgerReader):
    """Writes runs and events. Every method is one transaction.

    Every method may raise `Unavailable` when the database does not answer; then nothing was written.
    """

    def __init__(self, url: str, *, clock: Callable[[], float] | None = None, threads: int = 0) -> None:
        """Open the ledger at an SQLAlchemy URL, and create missing tables.

        `clock` is that of the database if it is None. `threads` of this process use the ledger at once.

        Raises:
            InvalidSetting: the URL names no SQLite file and no PostgreSQL database.
            Conflict: the ledger was written by a newer Sluice, or by an older one and was not migrated.
        """
        self.database = Database(url, threads)
        self.clock = clock = clock or self.database.clock
        self.dead_letters = DeadLetters(self.database, clock)
        self.replays = Replays(self.database, clock)
        self.keys = KeysTable(self.database, clock)
        self.console = ConsoleTable(self.database, clock)
        self.quarantine = Quarantine(self.database, clock)
        self.forgotten = Forgotten(self.database, clock)
        self.corpora = Corpora(self.database, clock)
        self.flags = Flags(self.database, clock)
        self.erasure = Erasure(self.database)
        self.outcomes = Outcomes(self.database, clock)
        self.marks = PassageMarks(self.database, clock)
        self.configurations = Configurations(self.database)
        self.defences = Defences(self.database, clock)
        self.rollouts = Rollouts(self.database, clock)
        self.graph = Graphs(self.database, clock)
        self.index = IndexLease(self.database, clock)
        self.webhooks = Webhooks(self.database, clock)
        self.schedules = Schedules(self.database, clock)
        self.pool_sizes = PoolSizes(self.database, clock)
        self.glances = Glances(self.database, clock)
        self.stage_minutes = StageMinutes(self.database, clock)
        with self.database.installing() as connection:
            install(connection)

    def page_memory(self, *, read_as: str, is_there: Callable[[str], bool]) -> PageMemory:
        """Return the memory of the pages that were read; see `PageMemory`."""
        return PageMemory(self.database, read_as=read_as, is_there=is_there)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close this process's connections."""
        self.database.close()

    def let_go(self, corpus: str, operator: str) -> None:
        """Record that an operator gives up the records that the corpus's journal lacks."""
        with self.database.writing() as connection:
            record(connection, self.clock(), operator, LET_GO, [f"corpus:{corpus}"])

    # -- runs

    def create_run(self, run: NewRun, first: Sequence[tuple[Event, Next]]) -> CreatedRun:
        """Record a run with its first events and the origin of each; the caller publishes `CreatedRun.events`.

        Raises:
            Conflict: the idempotency key was used for a different request.
            BudgetExhausted: the first events' reservations do not fit; no run is recorded.
        """
        entries = [Entry(event, origin.dedupe_key, origin.reserve) for event, origin in first]
        with self.database.writing() as connection:
            created = runs.create(connection, run, entries, self.clock())
        self.stage_minutes.note_entered(created.events)
        return created

    def add_event(self, event: Event, *, dedupe_key: str | None = None) -> bool:
        """Add an event from outside (feedback, say) to its run, finished or not; False when its key was used before.

        Raises `NotFound` if there is no such run.
        """
        with self.database.writing() as connection:
            run = runs.take(connection, event.run_id)
            written = write(connection, run, [Entry(event, dedupe_key)], self.clock())
        self.stage_minutes.note_entered(written)
        return bool(written)

    def cancel(self, run_id: str) -> tuple[Event, ...] | None:
        """Cancel a run's open events and finish it, fencing their claims; None when there was nothing to cancel.

        Returns the closing events, which the caller announces. Raises `NotFound` if there is no such run.
        """
        with self.database.writing() as connection:
            changed, emitted = finish.cancel(connection, run_id, self.clock())
        return tuple(emitted) if changed else None

    def direct_answer_at_deadline(self, now: float | None = None, *, most: int = 100) -> tuple[WakeUp, ...]:
        """Direct the answers of gate runs whose deadline has passed, once each. Returns the wake-ups to publish."""
        moment = self.clock() if now is None else now
        with self.database.reading() as connection:
            due = finish.runs_due_for_answer(connection, moment, most)
        directed: list[Event] = []
        for run_id in due:
            with self.database.writing() as connection:
                directed += finish.answer_at_deadline(connection, run_id, moment)
        self.stage_minutes.note_entered(directed)
        return tuple(wake_ups_of(directed))

    # -- the life of an event

    def claim_next(
        self, stage: Queue, worker: str, most_seconds: float, *, alone: bool = True, most_of_a_tenant: int | None = None
    ) -> Claim | NotClaimed:
        """Claim the stage's next ready event for at most so many seconds, or return why there is none.

        The claim ends earlier when its worker, which beats, falls silent. `alone`: the worker holds no other event, so
        it may take one that another worker died on. `most_of_a_tenant` bounds the events of one tenant that the workers
        of its pool hold. One commit (see `Database.holding`).
        """
        with self.database.holding() as connection:
            taken = self._take_next(
                connection, stage, worker, most_seconds, alone=alone, most_of_a_tenant=most_of_a_tenant
            )
        return self._read(taken)

    def _take_next(
        self, connection: Transaction, stage: Queue, worker: str, most_seconds: float, **how: Any
    ) -> Taken | NotClaimed:
        how = {"alone": False, "probe_seconds": PROBE_SECONDS, **how}
        return claims.take_next(connection, stage, worker, self.clock(), most_seconds, **how)

    def _read(self, taken: Taken | NotClaimed) -> Claim | NotClaimed:
        if isinstance(taken, NotClaimed):
            return taken
        try:
            return claims.claim_in(taken)
        except MalformedEvent as error:
            with self.database.writing() as connection:
                return claims.park_malformed(connection, taken, error, self.clock())

    def beat(self, worker: str, lease_seconds: float) -> frozenset[tuple[str, int]]:
        """Record that a worker lives; return id and epoch of its claims that stand. The others it has lost.

        A worker beats before it claims, and then often enough: the claims of one that was silent for `lease_seconds`
        are free, later in the stages that wait for longer (`beats.PATIENCE`).
        """
        with self.database.holding() as connection:
            return beats.beat(connection, worker, self.clock(), lease_seconds)

    def settle(
        self,
        claim: Claim,
        outcome: Outcome,
        *,
        traceparent: str | None = None,
        max_attempts: int = 10,
        go_on: GoOn | None = None,
        fence: Fence | None = None,
    ) -> Settled:
        """Record the outcome of a claimed event, in one durable commit.

        The emitted events continue `traceparent`, or the claimed event's trace when it is None. A `Retry` of an event's
        `max_attempts`-th try parks it as `exhausted`. With `go_on`, where an event for one of its stages is emitted,
        the same commit claims that stage's next event, as `claim_next` would: `Settled.following`.
        If nothing else has to be published, this commit is synced together with that of the following event.
        `fence` is the owner of the index under which the event was handled.
        Raises:
            Fenced: the claim was lost, or the index has another owner; nothing was written.
            BudgetExhausted: a `Next.reserve` does not fit; nothing was written, and the claim still stands.
        """
        event = claim.event
        make = partial(Event.of, run_id=event.run_id, corpus=event.corpus, cause=event, traceparent=traceparent)
        entries = settle.entries_of(outcome, make)
        taken: Taken | NotClaimed | None = None
        with self.database.writing() as connection:
            if fence is not None:
                index_lease.check(connection, fence)
            settled = settle.settle(connection, claim, outcome, entries, make, max_attempts, self.clock())
            leads_to = (event.queue for event in settled.emitted if go_on and event.queue in go_on.stages)
            if go_on and (stage := next(leads_to, None)):
                taken = self._take_next(connection, stage, go_on.worker, go_on.stages[stage])
                connection.is_synced_later = isinstance(taken, Taken) and len(wake_ups_of(settled.emitted)) == 1
        self._count(claim, outcome, settled)
        match taken and self._read(taken):
            case Claim() as following:
                return replace(settled, following=following)
            case NotClaimed(emitted=emitted):
                return replace(settled, emitted=(*settled.emitted, *emitted))
        return settled

    def _count(self, claim: Claim, outcome: Outcome, settled: Settled) -> None:
        self.stage_minutes.note_entered(settled.emitted)
        ended: Ended = "parked" if isinstance(outcome, Retry | DeadLetter) else "handled"
        if isinstance(outcome, Retry) and not settled.emitted:
            if not outcome.counts:
                return
            ended = "failed"
        if claim.event.queue is None:
            return
        worked_seconds = max(0.0, self.clock() - claim.claimed_at)
        self.stage_minutes.note_ended(claim.event.queue, ended, claim.waited_seconds, worked_seconds)

    def release(self, worker: str, *, max_deliveries: int = 3, died: bool = True) -> tuple[WakeUp, ...]:
        """Free every event that `worker` holds, because the worker is dead or (`died` False) gives them back.

        Returns the wake-ups to publish: for the freed events, and for those that parking poisonous ones emitted.
        """
        with self.database.reading() as connection:
            held = claims.held_by(connection, worker)
        return self._free(held, max_deliveries, died)

    def expire_leases(self, max_deliveries: int, *, most: int = 500) -> tuple[WakeUp, ...]:
        """Free every claim that was held for too long, or whose worker is silent. Returns as `release` does."""
        with self.database.reading() as connection:
            now = self.clock()
            overdue, silent = claims.run_out(connection, now, most), beats.of_silent(connection, now, most)
            any_gone = beats.any_gone(connection, now)
        if any_gone:
            with self.database.holding() as connection:
                beats.drop_gone(connection, now)
        freed = self._free(overdue, max_deliveries, died=True, run_out_by=now)
        for row in silent:
            freed += self._free([row], max_deliveries, died=True, silent_since=row.beat_at)
        return freed

    def wake_due_retries(self, *, most: int = 500) -> tuple[WakeUp, ...]:
        """Make the retries that are due ready. Returns the wake-ups to publish."""
        if self.database.read(stages.ANY_DUE, {"moment": self.clock()}).first() is None:
            return ()
        with self.database.writing() as connection:
            return tuple(stages.wake(connection, self.clock(), most))

    # -- paused stages

    def pause(self, stage: Queue, why: str, *, seconds: float | None = None, operator: str | None = None) -> bool:
        """Pause the claims of a stage: for `seconds` until a probe, or without `seconds` until `resume`.

        Returns False when the stage was paused already; then only an operator's pause replaces the existing one.
        """
        with self.database.writing() as connection:
            return stages.pause(connection, stage, why, self.clock(), seconds=seconds, operator=operator)

    def resume(self, stage: Queue, *, operator: str | None = None) -> bool:
        """End a pause; False when none was ended. Only an operator ends an operator's pause."""
        with self.database.writing() as connection:
            return stages.resume(connection, stage, self.clock(), operator=operator)

    def note_workers(self, stage: Queue, *, are_there: bool, at: float, waiting_since: float) -> bool:
        """Record that the stage has no worker since `at`, or has one again; False when nothing changed."""
        with self.database.writing() as connection:
            return stages.note_workers(connection, stage, are_there, at, waiting_since)

    # -- citations

    def uncheck_citations(self, corpus: str, document_ids: Sequence[str], journal_offset: int) -> bool:
        """Uncheck the citations of documents that the journal, up to an offset, changed; True when any is cited."""
        with self.database.reading() as connection:
            cited = citations.cited_ones(connection, corpus, document_ids)
        if cited:
            with self.database.writing() as connection:
                citations.uncheck(connection, corpus, cited, journal_offset)
        return bool(cited)

    def unchecked_citations(self, corpus: str, served_offset: int, *, most: int = 1_000) -> list[CitedChunk]:
        """Return the cited chunks to check against the current index, which covers `served_offset`.

        Chunks whose answer came from that same index state need no check: they are marked as checked and left out.
        """
        with self.database.reading() as connection:
            found = citations.unchecked(connection, corpus, served_offset, most)
        if any(one.seen_offset == served_offset for one in found):
            with self.database.holding() as connection:
                citations.pass_unchanged(connection, corpus, served_offset)
        return [one for one in found if one.seen_offset != served_offset]

    def pass_citations(self, checked: Sequence[CitedChunk]) -> None:
        """Mark these citations as checked: their documents still have the chunks."""
        if checked:
            with self.database.holding() as connection:
                citations.pass_checked(connection, checked)

    def tell_stale(self, run_id: str, stale: Sequence[StaleCitation]) -> Event | None:
        """Record stale citations on a run, finished or not; None where all of them were recorded before.

        The transaction that records the event deletes the citations' rows: a second caller, or one that was killed and
        tries again, finds none and records nothing.
        """
        with self.database.writing() as connection:
            try:
                run = runs.take(connection, run_id)
            except NotFound:  # pruned meanwhile
                citations.drop_citations(connection, run_id)
                return None
            untold = tuple(one for one in stale if citations.drop_citations(connection, run_id, one.citation))
            if not untold:
                return None
            event = own_event(run, AnswerStale(citations=untold), self.clock())
            write(connection, run, [Entry(event)], self.clock())
            return event

    # -- leases

    def lease(self, name: str, holder: str, seconds: float) -> bool:
        """Take or renew a named lease; False while another holder has it."""
        with self.database.writing() as connection:
            now = self.clock()
            if connection.insert_once(leases, {"name": name, "holder": holder, "until": now + seconds}):
                return True
            facts = {"of_name": name, "by_holder": holder, "moment": now, "up_to": now + seconds}
            return connection.execute(_RENEW, facts).rowcount == 1

    def require_no_backup(self, what: str) -> None:
        """Raise `Conflict` while a backup is being taken; `what` has to wait."""
        if self.is_backed_up_now():
            raise Conflict(f"a backup is being taken, and {what} would remove what it is to hold: wait for its end")

    def give_up_lease(self, name: str, holder: str) -> None:
        """End a lease before its time."""
        with self.database.writing() as connection:
            connection.update(leases, {"name": name, "holder": holder}, {"until": 0.0})

    def _free(
        self, seen: Sequence[claims.Held], max_deliveries: int, died: bool, **only_if: float
    ) -> tuple[WakeUp, ...]:
        freed: list[WakeUp] = []
        for row in seen:
            with self.database.writing() as connection:
                freed += claims.free(connection, row, self.clock(), max_deliveries, died=died, **only_if)
        return tuple(freed)
