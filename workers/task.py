"""The life of one delivery: claim, run, settle and emit, publish, acknowledge.

1. *Claim.* The ledger row is claimed with a fencing epoch. A row that is settled, or claimed by a
   living worker, makes this delivery a duplicate: it is acknowledged and nothing else happens.
2. *Run.* The handler of the event's kind runs inside one span, while a heartbeat extends the lease.
   Whatever it raises becomes an outcome, by one table: `outcome_of`.
3. *Settle and emit.* One transaction settles the row and inserts what it emitted. A worker that lost
   its claim in the meantime is fenced: nothing of its work is recorded.
4. *Publish.* The emitted events go to their queues. If the broker is away they wait in the ledger.
5. *Acknowledge.* Returning acknowledges the message.

Between any two of these the process may die. Before 3 the lease runs out and the reconciler sends
the event again; after 3 the reconciler publishes what was emitted. A ledger that is away at 3 is
waited for: the work is done and perhaps paid for, and the heartbeat goes on.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import structlog
from opentelemetry.trace import Span
from pydantic import ValidationError

from contracts.errors import (
    BudgetExhausted,
    Fenced,
    InvalidInput,
    Overloaded,
    PolicyRefused,
    SluiceError,
    TimedOut,
    Unavailable,
)
from contracts.event import Event, Queue
from contracts.outcome import DeadLetter, Discard, Done, Outcome, Retry
from otel import metrics
from otel.context import current_traceparent, mark_failed, span
from workers.handlers import HANDLERS
from workers.heartbeat import Heartbeat
from workers.ledger import Claim, NotClaimed, Settled
from workers.measure import count_events
from workers.parts import Parts
from workers.settings import DeliverySettings

log = structlog.get_logger(__name__)

BUDGET_RACES = 3
"""How often work is done anew because another worker took the budget in between."""

SETTLE_PATIENCE_SECONDS = 60.0
"""How long a worker holds on to finished work while the ledger is away: a restart of PostgreSQL takes less."""

ATTEMPTS: dict[Queue, int] = {"gate": 5, "search": 3, "crawl": 3, "chunk": 3, "embed": 5, "index": 8, "query": 5}
"""Tries of a stage before an event is parked. The outside world gets few: an agent is waiting."""

PATIENT_ATTEMPTS = 12
"""Tries where nothing failed and only a turn was not to be had: a host's rate, a full queue."""


def handle_event(event_id: str, stage: Queue, worker: str, parts: Parts, heartbeat: Heartbeat) -> None:
    """Carry one delivered event through its life."""
    delivery = parts.settings.delivery
    claim = parts.ledger.claim(event_id, worker, delivery.lease_seconds, delivery.max_deliveries)
    if isinstance(claim, NotClaimed):
        log.info("delivery_ignored", event_id=event_id, stage=stage, reason=claim.reason)
        _send(claim.emitted, parts)
        return
    event, started = claim.event, time.perf_counter()
    attributes: dict[str, str | int] = {"sluice.stage": stage, "sluice.worker": worker, "sluice.epoch": claim.epoch}
    with span(
        event.kind, traceparent=event.traceparent, run_id=event.run_id, event_id=event.id, attributes=attributes
    ) as hop:
        with heartbeat.of(claim):
            settled = _run_and_settle(claim, stage, parts, hop)
        if settled is not None:
            _send(settled.emitted, parts)
    metrics.EVENT_SECONDS.labels(stage, event.kind).observe(time.perf_counter() - started)


def _run_and_settle(claim: Claim, stage: Queue, parts: Parts, hop: Span) -> Settled | None:
    outcome: Outcome
    try:
        for race in range(BUDGET_RACES):
            outcome = run_handler(claim.event, stage, claim.attempts, parts)
            try:
                return _settle(claim, outcome, stage, parts, hop)
            except BudgetExhausted as error:
                log.info("budget_taken_meanwhile", event_id=claim.event.id, race=race, error=str(error))
                outcome = DeadLetter("policy", error)
            except (Fenced, Unavailable):
                raise
            except Exception as error:
                log.error("outcome_unrecordable", event_id=claim.event.id, error=repr(error), exc_info=error)
                outcome = outcome_of(error, claim.attempts, ATTEMPTS[stage], parts.settings.delivery)
                break
        return _settle(claim, outcome, stage, parts, hop)
    except Fenced as error:
        log.warning("fenced", event_id=claim.event.id, epoch=claim.epoch, error=str(error))
        return None


def _settle(claim: Claim, outcome: Outcome, stage: Queue, parts: Parts, hop: Span) -> Settled:
    deadline, pause = time.monotonic() + SETTLE_PATIENCE_SECONDS, 0.05
    while True:
        try:
            settled = parts.ledger.settle(
                claim, outcome, traceparent=current_traceparent(), max_attempts=PATIENT_ATTEMPTS
            )
        except Unavailable as error:
            if time.monotonic() + pause > deadline:
                raise
            log.warning("settle_waits", event_id=claim.event.id, error=str(error))
            time.sleep(pause)
            pause = min(2 * pause, 2.0)
        else:
            _record(claim.event, stage, outcome, hop)
            return settled


def _send(emitted: Sequence[Event], parts: Parts) -> None:
    count_events(emitted)
    parts.transport.publish(emitted)
    parts.transport.announce(emitted)


def run_handler(event: Event, stage: Queue, attempts: int, parts: Parts) -> Outcome:
    """The outcome of the event's handler; whatever it raises is turned into one."""
    try:
        return HANDLERS[event.kind](event, parts)
    except Exception as error:
        outcome = outcome_of(error, attempts, ATTEMPTS[stage], parts.settings.delivery)
        log.warning(
            "handler_failed", kind=event.kind, outcome=type(outcome).__name__, error=repr(error), exc_info=error
        )
        return outcome


def outcome_of(error: Exception, attempts: int, most: int, delivery: DeliverySettings) -> Outcome:
    """What an error means: the one table that tells transient from permanent.

    A bug is taken for transient, as a later deployment may mend it; it is parked once its tries are used up. So is a
    handler that was fenced: whoever took the corpus over may get the next try.
    """
    match error:
        case Fenced():
            pass
        case PolicyRefused() | BudgetExhausted():
            return DeadLetter("policy", error)
        case InvalidInput() | ValidationError():
            return DeadLetter("malformed", error)
        case SluiceError(transient=False):
            return DeadLetter("discarded", error)
    if isinstance(error, Overloaded) and attempts + 1 < PATIENT_ATTEMPTS:
        return Retry(min(error.retry_after_seconds, delivery.retry_max_seconds), str(error))
    if attempts + 1 >= most:
        return DeadLetter("timeout" if isinstance(error, TimedOut) else "exhausted", error)
    return Retry(backoff_seconds(attempts, delivery), repr(error))


def backoff_seconds(attempts: int, delivery: DeliverySettings) -> float:
    """Exponential back-off with full jitter (Brooker, AWS Architecture Blog, 2015), at least a tenth of its base."""
    ceiling = min(delivery.retry_max_seconds, delivery.retry_base_seconds * 2**attempts)
    return random.uniform(delivery.retry_base_seconds / 10, ceiling)


def _record(event: Event, stage: Queue, outcome: Outcome, hop: Span) -> None:
    metrics.EVENTS_HANDLED.labels(stage, event.kind, type(outcome).__name__).inc()
    match outcome:
        case DeadLetter(reason=reason):
            metrics.DEAD_LETTERS.labels(stage, reason).inc()
            mark_failed(hop, f"dead letter, {reason}: {outcome.error!r}")
            log.error("dead_letter", kind=event.kind, reason=reason, error=repr(outcome.error))
        case Retry(after_seconds=after, why=why):
            mark_failed(hop, f"retry: {why}")
            log.warning("retry", kind=event.kind, after_seconds=round(after, 3), why=why)
        case Discard(why=why):
            log.info("discarded", kind=event.kind, why=why)
        case Done(emits=emits, gaps=gaps):
            log.info("done", kind=event.kind, emitted=[emit.body.kind for emit in emits], gaps=len(gaps))
