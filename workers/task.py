"""The life of one delivery: claim, run, settle and emit, publish, acknowledge.

1. *Claim.* A message permits one claim, and the ledger gives the event whose turn it is, under a new fencing epoch.
   Where nothing is ready (another wake-up brought it, or the stage rests) the message is acknowledged, no more.
2. *Run.* The handler of the event's kind runs inside one span, while the process's heartbeat keeps the claim.
   Whatever it raises becomes an outcome, by one table: `outcome_of`.
3. *Settle and emit.* One transaction settles the row and inserts what it emitted. A worker that lost
   its claim in the meantime is fenced: nothing of its work is recorded. Where a stage of the same process comes next,
   the transaction claims that stage's next event too: whose turn it is, which may be another tenant's.
4. *Publish.* Wake-ups for the emitted events go to their queues, but for one whose place the claim of 3 has taken. If
   the broker is away they wait in the ledger. If nothing else has to be published, the transaction of 3 is synced and
   announced together with that of the event that follows: one sync for both.
5. *Go on.* With what was claimed in 3 the worker begins again at 2, `MOST_IN_A_ROW` times at most.
6. *Acknowledge.* Returning acknowledges the message.

Between any two of these the process may die. Before 3 the lease runs out and the reconciler sends
the event again, and so it does with an event claimed in 3; after 3 the reconciler publishes what was emitted. A ledger
that is away at 3 is waited for: the work is done and perhaps paid for, and the heartbeat goes on.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import structlog
from opentelemetry.trace import Span
from pydantic import ValidationError

from sluice.contracts import errors
from sluice.contracts.budget import Spend
from sluice.contracts.event import (
    CostlyFailure,
    DeadLetter,
    Discard,
    Done,
    Event,
    Gap,
    Next,
    Outcome,
    Postponable,
    Queue,
    Retry,
)
from sluice.contracts.gate import GateDecided
from sluice.contracts.ingest import CrawlDirected
from sluice.ingest.circuit_breaker import FailureWindow
from sluice.ledger.dead_letters.letter import subject_of
from sluice.ledger.events.outbox import wake_ups_of
from sluice.ledger.ledger import PROBE_SECONDS, Claim, GoOn, NotClaimed, Settled, WakeUp
from sluice.otel import metrics
from sluice.otel.context import RUN_TRACEPARENT, current_traceparent, mark_failed, messaging, span
from sluice.otel.spans import EPOCH
from sluice.workers.broker.celery_app import POOLS
from sluice.workers.context import Context
from sluice.workers.handlers import HANDLERS
from sluice.workers.page_handlers import links_left_out
from sluice.workers.runtime.claims import Heartbeat, Isolation, counts_as_failure, stage_window
from sluice.workers.runtime.observers import count_events, utc_now
from sluice.workers.settings import DeliverySettings
from sluice.workers.steps.embed import apart

log = structlog.get_logger(__name__)

SETTLE_PATIENCE_SECONDS = 60.0
"""Longest time that a worker keeps finished work while the ledger is away: a restart of PostgreSQL takes less."""

ATTEMPTS: dict[Queue, int] = {
    "gate": 5,
    "search": 3,
    "crawl": 3,
    "chunk": 3,
    "embed": 5,
    "index": 8,
    "query": 5,
    "graph": 5,
}
"""Tries of a stage before an event is parked. The outside world gets few: an agent is waiting."""

MOST_IN_A_ROW = 8
"""Most events that one wake-up may handle in a row in a thread: a covered question has three, and a process that shuts
down waits only for the current one."""

SHARE_LOOK_SECONDS, SHARE_PATIENCE_SECONDS = 0.2, 5.0
"""Pause of a waiting child between two looks for another tenant's event, and its longest wait."""

PATIENT_ATTEMPTS = 12
"""Tries of an event that only had to wait: for a host's rate limit, a full queue, a full disk."""


@dataclass(frozen=True, slots=True)
class StageWorker:
    """Everything that a process needs to handle the events of its stage. Safe across its threads."""

    stage: Queue
    name: str
    context: Context
    heartbeat: Heartbeat
    isolation: Isolation = field(default_factory=Isolation)
    outcomes: FailureWindow = field(default_factory=stage_window)
    pool: Mapping[Queue, StageWorker] = field(default_factory=dict)
    """The workers of every stage of the process, this one among them."""
    may_go_on: Callable[[], bool] = lambda: True
    """Whether the process still takes events; called between two events of a thread."""
    most_of_a_tenant: int | None = None
    """Events of one tenant that the children of a pool handle at once; a child that is left waits for other tenants."""

    def claim(self, *, alone: bool) -> Claim | NotClaimed:
        """Claim the stage's next event, if there is one."""
        self.heartbeat.ready(self.name)
        return self.context.ledger.claim_next(
            self.stage, self.name, self.longest_seconds, alone=alone, most_of_a_tenant=self.most_of_a_tenant
        )

    @property
    def longest_seconds(self) -> float:
        """How long a claim may stand: a lease longer than its event may take, after which the worker gives it up."""
        delivery = self.context.settings.delivery
        return delivery.event_timeout_seconds + delivery.lease_seconds


class Handled(NamedTuple):
    """The outcome of a handler, the error behind it and its duration."""

    outcome: Outcome
    error: BaseException | None = None
    seconds: float = 0.0
    """Duration of the handler, in seconds."""


def use_wake_up(announced: str, worker: StageWorker) -> bool:
    """Carry the stage's next event through its life; return whether the wake-up was used.

    `announced` is the event that the wake-up was published for. While everything that is ready belongs to tenants who
    have their share of the pool, waits for another tenant's event, for `SHARE_PATIENCE_SECONDS` at most.
    """
    until = time.monotonic() + SHARE_PATIENCE_SECONDS
    while not _is_used(announced, worker):
        if time.monotonic() > until or not worker.may_go_on():
            return False
        time.sleep(SHARE_LOOK_SECONDS)
    return True


def _is_used(announced: str, worker: StageWorker) -> bool:
    with worker.isolation.shared():
        claim = worker.claim(alone=False)
        if isinstance(claim, Claim):
            _carry_through(claim, worker, MOST_IN_A_ROW)
            return True
    if claim.reason == "suspects_wait":
        with worker.isolation.alone():
            claim = worker.claim(alone=True)
            if isinstance(claim, Claim):
                _carry_through(claim, worker, 1)
                return True
    if claim.reason == "share_used":
        return False
    _put_aside(announced, claim, worker)
    return True


def _carry_through(claim: Claim, worker: StageWorker, most: int) -> None:
    """Handle the event, and those that its settlement claims next in this process: `most` in all."""
    untold: list[Event] = []
    for left in reversed(range(most)):
        following = _handle(claim, worker, untold, may_go_on=left > 0)
        if following is None:
            return
        claim, worker = following, next(one for one in worker.pool.values() if one.stage == following.event.queue)


def _handle(claim: Claim, worker: StageWorker, untold: list[Event], *, may_go_on: bool) -> Claim | None:
    """Run steps 2 to 4 of one event; return the next claim. `untold` holds emitted events not announced yet."""
    event, started = claim.event, time.perf_counter()
    with span(
        f"process {worker.stage}",
        kind="consumer",
        traceparent=claim.replay_traceparent or event.traceparent,
        run_id=event.run_id,
        event_id=event.id,
        attributes={
            **messaging("process", worker.stage),
            "messaging.message.id": event.id,
            "messaging.message.conversation_id": event.run_id,
            "sluice.kind": event.kind,
            "sluice.worker": worker.name,
            EPOCH: claim.epoch,
        },
        links=[event.baggage.get(RUN_TRACEPARENT), event.traceparent if claim.replay_traceparent else None],
    ) as hop:
        with worker.heartbeat.of(claim):
            settled = _run_and_settle(claim, worker, hop, may_go_on=may_go_on) or Settled()
        untold += settled.emitted
        if not settled.is_told_later:
            _send(untold, worker.context, settled.wake_ups)
            untold.clear()
        metrics.EVENT_SECONDS.labels(worker.stage, event.kind).observe(time.perf_counter() - started)
    return settled.following


def _go_on(worker: StageWorker) -> GoOn | None:
    """Return the stages that this process may go on with: those whose events threads handle side by side.

    In the other stages one process handles one event at a time.
    """
    if not worker.pool or not worker.may_go_on():
        return None
    stages = {stage: one.longest_seconds for stage, one in worker.pool.items() if POOLS[stage] == "threads"}
    return GoOn(stages, worker.name)


def _put_aside(announced: str, refusal: NotClaimed, worker: StageWorker) -> None:
    """Publish what a refused claim emitted. Park a wake-up for an event that was never recorded as a dead letter."""
    log.debug("permit_spare", event_id=announced, stage=worker.stage, reason=refusal.reason)
    _send(refusal.emitted, worker.context, wake_ups_of(refusal.emitted))
    ledger = worker.context.ledger
    if refusal.reason == "nothing_ready" and ledger.standing(announced) is None:
        log.warning("permit_unknown", event_id=announced, stage=worker.stage)
        error = errors.NotFound(f"the ledger has no event {announced}")
        ledger.dead_letters.park_raw(announced.encode(), worker.stage, "unroutable", error)


def _run_and_settle(claim: Claim, worker: StageWorker, hop: Span, *, may_go_on: bool) -> Settled | None:
    stage, context = worker.stage, worker.context
    try:
        handled = run_handler(claim, stage, context)
        go_on = _go_on(worker) if may_go_on else None
        try:
            return _settle_within_budget(claim, handled, worker, hop, go_on)
        except (errors.Fenced, errors.Unavailable):
            raise
        except Exception as error:
            log.error("outcome_unrecordable", event_id=claim.event.id, error=repr(error), exc_info=error)
            outcome = outcome_of(error, claim.attempts, ATTEMPTS[stage], context.settings.delivery)
            return _settle(claim, Handled(outcome, error), worker, hop)
    except errors.Fenced as error:
        log.warning("fenced", event_id=claim.event.id, epoch=claim.epoch, error=str(error))
        return None


def _settle_within_budget(
    claim: Claim, handled: Handled, worker: StageWorker, hop: Span, go_on: GoOn | None
) -> Settled:
    """Settle the outcome, even if another worker has taken the budget of the events that should follow.

    Leaves out half of the costly events, and half again, until the rest fits; each becomes a gap. The work itself is
    not repeated: it may have been paid for.
    """
    while True:
        try:
            return _settle(claim, handled, worker, hop, go_on)
        except errors.BudgetExhausted as error:
            log.info("budget_taken_meanwhile", event_id=claim.event.id, error=str(error))
            outcome = handled.outcome
            costly = [emit for emit in outcome.emits if emit.reserve] if isinstance(outcome, Done) else []
            if not isinstance(outcome, Done) or not costly:
                raise
            handled = handled._replace(outcome=_without(costly[len(costly) // 2 :], outcome, worker.stage, str(error)))


def _without(left_out: Sequence[Next], outcome: Done, stage: Queue, why: str) -> Done:
    links = [one.body for one in left_out if isinstance(one.body, CrawlDirected) and one.body.scope is not None]
    gaps = [
        Gap(stage=stage, subject=subject_of(emit.body), reason=errors.BudgetExhausted.code, detail=why)
        for emit in left_out
        if not any(emit.body is one for one in links)
    ]
    kept = tuple(emit for emit in outcome.emits if not any(emit is one for one in left_out))
    if links:
        kept += (links_left_out(len(links), links[0].came_by[-1], why, "limit of the request, or the budget"),)
    return replace(outcome, emits=kept, gaps=(*outcome.gaps, *gaps))


def _settle(claim: Claim, handled: Handled, worker: StageWorker, hop: Span, go_on: GoOn | None = None) -> Settled:
    deadline, pause = time.monotonic() + SETTLE_PATIENCE_SECONDS, 0.05
    fence = None
    if worker.stage == "index" and isinstance(handled.outcome, Done):  # who is no owner any more may give it back
        worker.context.index_owner.check()
        fence = worker.context.index_owner.fence
    while True:
        try:
            settled = worker.context.ledger.settle(
                claim,
                handled.outcome,
                traceparent=current_traceparent(),
                max_attempts=PATIENT_ATTEMPTS,
                go_on=go_on,
                fence=fence,
            )
        except errors.Unavailable as error:
            if time.monotonic() + pause > deadline:
                raise
            log.warning("settle_waits", event_id=claim.event.id, error=str(error))
            time.sleep(pause)
            pause = min(2 * pause, 2.0)
        else:
            _record(claim, worker.stage, handled, hop)
            _judge_stage(claim, handled.error, worker)
            return settled


def _judge_stage(claim: Claim, error: BaseException | None, worker: StageWorker) -> None:
    """Pause the stage when most of its work fails, and resume it when a probe succeeded."""
    stage, ledger = worker.stage, worker.context.ledger
    failed = counts_as_failure(stage, error) and not _has_fallback(error, worker.context)
    why = worker.outcomes.record(failed=failed)
    try:
        if claim.is_probe and not failed:
            ledger.resume(stage)
            log.info("stage_resumed", stage=stage)
        elif why and ledger.pause(stage, why, seconds=PROBE_SECONDS):
            metrics.STAGE_PAUSES.labels(stage).inc()
            log.error("stage_paused", stage=stage, why=why, error=repr(error))
    except errors.Unavailable as away:
        log.warning("stage_unjudged", stage=stage, error=str(away))


def _send(emitted: Sequence[Event], context: Context, wake_ups: Sequence[WakeUp]) -> None:
    count_events(emitted)
    context.transport.publish_wake_ups(wake_ups, emitted)


def run_handler(claim: Claim, stage: Queue, context: Context) -> Handled:
    """Return the outcome of the event's handler; `outcome_of` turns whatever it raises into one.

    An event of several documents on which a worker died, or which cannot be handled, is parted instead.
    """
    started, event, attempts = time.perf_counter(), claim.event, claim.attempts
    try:
        if claim.deaths and (parted := _parted(event, context)):
            return Handled(parted, seconds=time.perf_counter() - started)
        outcome = _decided(HANDLERS[event.kind](event, context), event, context)
        return Handled(outcome, seconds=time.perf_counter() - started)
    except CostlyFailure as failure:
        met, spend = failure.__cause__, failure.spend
        error = met if isinstance(met, Exception) else failure
    except Exception as raised:  # noqa: BLE001 - whatever it is, it has an outcome and is logged
        error, spend = raised, Spend()
    failed = outcome_of(error, attempts, ATTEMPTS[stage], context.settings.delivery)
    if isinstance(failed, Retry) and _has_fallback(error, context):
        age_seconds = (utc_now() - event.occurred_at).total_seconds()
        failed = replace(failed, after_seconds=outage_pause_seconds(failed.after_seconds, age_seconds))
    stack = None if isinstance(error, errors.EmbedderDown) else error  # a known outage, reported while it lasts
    log.warning("handler_failed", kind=event.kind, outcome=type(failed).__name__, error=repr(error), exc_info=stack)
    if (isinstance(failed, DeadLetter) or not isinstance(error, errors.SluiceError | OSError)) and (
        parted := _parted(event, context)
    ):
        return Handled(replace(parted, spend=spend), seconds=time.perf_counter() - started)
    return Handled(replace(failed, spend=spend), error, time.perf_counter() - started)


def _parted(event: Event, context: Context) -> Done | None:
    try:
        return apart(event, context)
    except Exception as error:  # its documents cannot be loaded: it fails as a whole
        log.warning("not_parted", kind=event.kind, error=repr(error), exc_info=error)
        return None


def _decided(outcome: Outcome | Postponable, event: Event, context: Context) -> Outcome:
    """Resolve postponable work: a replay waits and is retried, any other event takes the outcome given instead."""
    if not isinstance(outcome, Postponable):
        return outcome
    if context.ledger.dead_letters.is_replay(event):
        return Retry(outcome.after_seconds, outcome.why, outcome.instead.spend)
    return outcome.instead


def outcome_of(error: Exception, attempts: int, most: int, delivery: DeliverySettings) -> Retry | DeadLetter:
    """Map an error to an outcome: the one table that separates transient from permanent errors.

    Work that needs an embedding model or an object store which is out of reach waits for it, however long that is. A
    bug counts as transient, as a later deployment may mend it; its event is parked once its tries are used up. A fenced
    handler counts so too: the worker that took the corpus over may get the next try.
    """
    match error:
        case errors.Fenced():
            pass
        case errors.PolicyRefused() | errors.BudgetExhausted():
            return DeadLetter("policy", error)
        case errors.InvalidInput() | ValidationError():
            return DeadLetter("malformed", error)
        case errors.SluiceError(transient=False):
            return DeadLetter("discarded", error)
    if isinstance(error, errors.EmbedderDown | errors.StoreDown):
        return Retry(error.retry_after_seconds, str(error), counts=False)
    if errors.is_disk_full(error) and attempts + 1 < PATIENT_ATTEMPTS:
        return Retry(delivery.retry_max_seconds, "the disk is full")
    if isinstance(error, errors.Overloaded) and attempts + 1 < PATIENT_ATTEMPTS:
        return Retry(min(error.retry_after_seconds, delivery.retry_max_seconds), str(error))
    if attempts + 1 >= most:
        return DeadLetter("timeout" if isinstance(error, errors.TimedOut) else "exhausted", error)
    return Retry(backoff_seconds(attempts, delivery), repr(error))


def _has_fallback(error: BaseException | None, context: Context) -> bool:
    """Return whether the local model goes on, in the same stage, while work waits for an endpoint."""
    return isinstance(error, errors.EmbedderDown) and context.settings.embed.fallback == "local"


def outage_pause_seconds(least_seconds: float, age_seconds: float) -> float:
    """Return a quarter of an event's age, five minutes at most: what waits in a stage that goes on must not fill it."""
    return max(least_seconds, min(age_seconds / 4, 300.0))


def backoff_seconds(attempts: int, delivery: DeliverySettings) -> float:
    """Return an exponential back-off with full jitter (Brooker, AWS Architecture Blog, 2015), at least base / 10."""
    ceiling = min(delivery.retry_max_seconds, delivery.retry_base_seconds * 2**attempts)
    return random.uniform(delivery.retry_base_seconds / 10, ceiling)


def _record(claim: Claim, stage: Queue, handled: Handled, hop: Span) -> None:
    """Count an event that the ledger has settled, mark failures on its span, and write one log line."""
    event, outcome = claim.event, handled.outcome
    metrics.EVENTS_HANDLED.labels(stage, event.kind, type(outcome).__name__).inc()
    facts: dict[str, object] = {}
    match outcome:
        case DeadLetter(reason=reason):
            metrics.DEAD_LETTERS.labels(stage, reason).inc()
            mark_failed(hop, f"dead letter, {reason}: {outcome.error!r}")
            log.error("dead_letter", kind=event.kind, reason=reason, error=repr(outcome.error))
        case Retry(after_seconds=after, why=why):
            mark_failed(hop, f"retry: {why}")
            facts = {"after_seconds": round(after, 3), "why": why}
        case Discard(why=why):
            facts = {"why": why}
        case Done(emits=emits, gaps=gaps):
            facts = {
                "emitted": dict(Counter(emit.body.kind for emit in emits)),
                "gaps": dict(Counter(gap.reason for gap in gaps)),
            }
            for decided in (emit.body for emit in emits if isinstance(emit.body, GateDecided)):
                facts |= {"plan": decided.plan, "vetoes": [veto.name for veto in decided.vetoes]}
    log.info(
        "event_handled",
        kind=event.kind,
        **({"url": url} if (url := getattr(event.body, "url", None)) else {}),
        run_id=event.run_id,
        stage=stage,
        outcome=type(outcome).__name__,
        attempt=claim.attempts + 1,
        duration_seconds=round(handled.seconds, 6),
        spend={} if isinstance(outcome, Discard) else outcome.spend.model_dump(exclude_defaults=True),
        **facts,
    )
