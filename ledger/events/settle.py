"""Settling: the one transaction that records the outcome of handling an event.

Promises: it happens once. The row must still be claimed at the claim's epoch, else it raises `Fenced` and writes
nothing; the spend, emitted events, gaps, dead letter and closing of the run are written with it, all or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, update

from sluice.contracts.budget import Spend
from sluice.contracts.errors import Fenced
from sluice.contracts.event import DeadLetter, Discard, Done, Event, GapFound, Outcome, Retry
from sluice.contracts.gate import FeedbackGiven
from sluice.ledger.dead_letters.letter import park
from sluice.ledger.events import attempts
from sluice.ledger.events.claims import MINE, Claim
from sluice.ledger.events.finish import Maker, close_if_done
from sluice.ledger.events.outbox import Entry, WakeUp, wake_ups_of, write
from sluice.ledger.events.reservations import Balance
from sluice.ledger.learning.outcome_rows import note_feedback
from sluice.ledger.runs import take
from sluice.ledger.schema.tables import UNITS, AnyRow, events
from sluice.ledger.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Settled:
    """The result of settling an event.

    `emitted` holds every event that the transaction recorded, in order: the caller streams all, and publishes those
    with a queue. `finished`: whether it closed the run; `dropped` counts entries whose dedupe key was taken.
    `following` is the worker's next claim: it needs no wake-up, so `wake_ups` holds one less for its stage.
    """

    emitted: tuple[Event, ...] = ()
    finished: bool = False
    dropped: int = 0
    following: Claim | None = None

    @property
    def is_told_later(self) -> bool:
        """Whether to announce `emitted` only when `following` settles, whose commit syncs both."""
        return self.following is not None and not self.wake_ups

    @property
    def wake_ups(self) -> list[WakeUp]:
        """The wake-ups to publish."""
        wake_ups = wake_ups_of(self.emitted)
        if self.following is not None:
            spare = next(one for one in wake_ups if one.stage == self.following.event.queue)
            wake_ups.remove(spare)
        return wake_ups


_SETTLE = (
    update(events)
    .where(*MINE)
    .values(
        status="settled",
        due_at=None,
        worker=None,
        settled_at=bindparam("moment"),
        why=bindparam("because"),
        waited_ms=bindparam("idle_ms"),
    )
    .returning(events.c.priority, events.c.reserved_on, *(events.c[f"reserve_{unit}"] for unit in UNITS))
)
_WAIT = (
    update(events)
    .where(*MINE)
    .values(
        status="waiting",
        due_at=bindparam("moment"),
        worker=None,
        attempts=events.c.attempts + bindparam("counted"),
        why=bindparam("because"),
    )
    .returning(*attempts.LAST)
)
_COUNT_ATTEMPT = update(events).where(*MINE).values(attempts=events.c.attempts + 1).returning(*events.c)
_MINE_NOW = update(events).where(*MINE).values(epoch=events.c.epoch).returning(*events.c)


def entries_of(outcome: Outcome, make: Maker) -> tuple[Entry, ...]:
    """Encode the events of an outcome before the transaction begins."""
    if not isinstance(outcome, Done):
        return ()
    gaps = [Entry(make(GapFound(gap=gap))) for gap in outcome.gaps]
    return (*gaps, *(Entry(make(one.body), one.dedupe_key, one.reserve) for one in outcome.emits))


def settle(
    connection: Transaction,
    claim: Claim,
    outcome: Outcome,
    entries: Sequence[Entry],
    make: Maker,
    max_attempts: int,
    now: float,
) -> Settled:
    """Write the outcome of a claimed event; `entries` are those of `entries_of`.

    Raises:
        Fenced: the claim was lost.
        BudgetExhausted: what `Done.emits` reserve does not fit. Nothing was written and the claim still stands.
    """
    match outcome:
        case Done():
            return _done(connection, claim, outcome, entries, make, now)
        case Retry() if not outcome.counts or claim.attempts + 1 < max_attempts:
            return _wait(connection, claim, outcome, now)
        case Retry():
            verdict = DeadLetter("exhausted", _Exhausted(outcome.why), outcome.spend)
            return _dead(connection, claim, verdict, make, now)
        case Discard():
            return _done(connection, claim, Done(), (), make, now, why=outcome.why)
        case DeadLetter():
            return _dead(connection, claim, outcome, make, now)


def _done(
    connection: Transaction,
    claim: Claim,
    outcome: Done,
    entries: Sequence[Entry],
    make: Maker,
    now: float,
    why: str | None = None,
) -> Settled:
    balance = Balance(spent=outcome.spend)
    run = take(connection, claim.event.run_id, settled=1, spend=outcome.spend)
    idle_ms, why = (round(1_000 * outcome.waited.seconds), outcome.waited.why) if outcome.waited else (0, why)
    facts = {"of_event": claim.event.id, "at_epoch": claim.epoch, "moment": now, "because": why, "idle_ms": idle_ms}
    row = _still_mine(connection.execute(_SETTLE, facts).first(), claim)
    balance.free(row)
    if claim.has_failed:
        attempts.count_retrying(connection, run.run_id, -1)
    if isinstance(claim.event.body, FeedbackGiven):
        note_feedback(connection, run.run_id, now)
    emitted = write(connection, run, entries, now, balance, cause_priority=row.priority)
    return _closed(connection, run, emitted, make, now, balance, dropped=len(entries) - len(emitted))


def _wait(connection: Transaction, claim: Claim, outcome: Retry, now: float) -> Settled:
    due_at = now + max(0.0, outcome.after_seconds)
    balance = Balance(spent=outcome.spend)
    run = take(connection, claim.event.run_id, spend=outcome.spend) if outcome.spend != Spend() else None
    facts = {"of_event": claim.event.id, "at_epoch": claim.epoch, "moment": due_at, "because": outcome.why}
    facts["counted"] = int(outcome.counts)
    if outcome.counts and not claim.has_failed:
        attempts.count_retrying(connection, claim.event.run_id, 1)
    row = _still_mine(connection.execute(_WAIT, facts).first(), claim)
    attempts.ended(connection, row, "retried", outcome.why, now)
    if run is not None:
        balance.carry_out(connection, run, now)
    return Settled()


def _dead(connection: Transaction, claim: Claim, verdict: DeadLetter, make: Maker, now: float) -> Settled:
    run = take(connection, claim.event.run_id, dead=1, spend=verdict.spend)
    statement = _COUNT_ATTEMPT if verdict.reason == "exhausted" else _MINE_NOW
    found = connection.execute(statement, {"of_event": claim.event.id, "at_epoch": claim.epoch}).first()
    row = _still_mine(found, claim)
    if claim.has_failed:
        attempts.count_retrying(connection, run.run_id, -1)
    balance = Balance(spent=verdict.spend)
    emitted = park(connection, run, row, verdict, make, now, balance)
    return _closed(connection, run, emitted, make, now, balance)


def _closed(
    connection: Transaction,
    run: AnyRow,
    emitted: Sequence[Event],
    make: Maker,
    now: float,
    balance: Balance,
    dropped: int = 0,
) -> Settled:
    closing = close_if_done(connection, run, emitted, make, now)
    balance.carry_out(connection, run, now)
    finished = any(event.kind == "RunFinished" for event in closing)
    return Settled((*emitted, *closing), finished, dropped)


def _still_mine(row: AnyRow | None, claim: Claim) -> AnyRow:
    if row is None:
        raise _lost(claim)
    return row


def _lost(claim: Claim) -> Fenced:
    return Fenced(f"the claim on {claim.event.id} at epoch {claim.epoch} was lost; what it did does not count")


class _Exhausted(Exception):
    """The reason of the last retry, after which the attempts were exhausted."""
