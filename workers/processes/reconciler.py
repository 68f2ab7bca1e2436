"""The reconciler: makes the broker's queues what the ledger says they should be, at every tick.

Promises: an open event that is neither queued nor claimed is published again, whatever became of its message, so the
queues heal even from an empty broker. The reconciler does not trust the broker: publishing once too often is
harmless, because only a claimed event is handled. One reconciler is active at a time, by a lease in the
ledger that another takes over soon after its holder died.

A tick, in order:

1. hold the lease, or do nothing;
2. free the claims whose lease ran out (their worker counts as dead);
3. make the retries ready whose time has come;
4. direct the answers of runs whose deadline has passed;
5. where a stage's oldest event has been ready for longer than `REPUBLISH_AFTER_SECONDS`, publish the wake-ups that
   its queue lacks, one per ready event. A paused stage gets one, when it is time to probe;
6. bring back the dead letters of bulk replays that are due.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime

import structlog

from sluice.contracts.errors import Unavailable
from sluice.contracts.event import Queue
from sluice.ledger.ledger import Ledger, WakeUp
from sluice.ledger.reader import Backlog
from sluice.otel import metrics
from sluice.otel.start import shutdown as stop_telemetry
from sluice.otel.start import start as start_telemetry
from sluice.workers.broker.transport import BROKER_ERRORS
from sluice.workers.context import Context
from sluice.workers.processes.maintenance import Maintenance
from sluice.workers.processes.process_group import die_with_parent, give_signs_of_life
from sluice.workers.settings import DeliverySettings, Settings

log = structlog.get_logger(__name__)

LEASE = "reconciler"
MOST_PUBLISHED_AT_ONCE = 5_000
"""Wake-ups that a stage gets per tick at most: a flushed backlog of 20,000 is back in four ticks."""
_LEASE_TICKS = 4
"""Missed ticks after which a holder counts as dead: short of the 5 s in which a drained queue is to heal."""
TICK_SECONDS = 1.0
"""Seconds between two ticks."""
REPUBLISH_AFTER_SECONDS = 2.0
"""Seconds that an event may be neither queued nor claimed before it is published again."""


@dataclass(frozen=True, slots=True)
class Reconciled:
    """Number of wake-ups one tick published, by cause. `active` is False when another reconciler holds the lease."""

    active: bool = True
    lease_expired: int = 0
    retry_due: int = 0
    deadline: int = 0
    replay: int = 0
    lost: int = 0


class Reconciler:
    """Ticks of one process. `publish` sends wake-ups to their queues, `queued` counts those that a queue holds."""

    def __init__(
        self,
        ledger: Ledger,
        publish: Callable[[Sequence[WakeUp]], object],
        queued: Callable[[Queue], int],
        settings: DeliverySettings,
        clock: Callable[[], float] = time.time,
        republish_after_seconds: float = REPUBLISH_AFTER_SECONDS,
    ) -> None:
        self._ledger = ledger
        self._publish = publish
        self._queued = queued
        self._settings = settings
        self._clock = clock
        self._republish_after_seconds = republish_after_seconds
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"

    def tick(self) -> Reconciled:
        """Run one tick. Raises `Unavailable` if ledger or broker is away; a later tick publishes what is left."""
        if not self._ledger.lease(LEASE, self._holder, _LEASE_TICKS * TICK_SECONDS):
            return Reconciled(active=False)
        return Reconciled(
            lease_expired=self._send(self._ledger.expire_leases(self._settings.max_deliveries)),
            retry_due=self._send(self._ledger.wake_due_retries()),
            deadline=self._send(self._ledger.direct_answer_at_deadline(self._clock())),
            lost=self._send(self._lost()),
            replay=self._send(self._ledger.replays.advance()),
        )

    def stop(self) -> None:
        """Give up the lease, so that another reconciler takes over at once."""
        self._ledger.give_up_lease(LEASE, self._holder)

    def _send(self, wake_ups: Sequence[WakeUp]) -> int:
        if wake_ups:
            self._publish(wake_ups)
        return len(wake_ups)

    def _lost(self) -> list[WakeUp]:
        wake_ups: list[WakeUp] = []
        paused = {pause.stage: pause.until for pause in self._ledger.paused()}
        for stage, backlog in self._ledger.backlogs().items():
            if self._clock() - backlog.oldest < self._republish_after_seconds:
                continue
            missing = self._probes(paused[stage], stage) if stage in paused else self._missing(stage, backlog)
            if missing > 0:
                wake_ups += self._ledger.next_ready(stage, min(missing, MOST_PUBLISHED_AT_ONCE))
        return wake_ups

    def _missing(self, stage: Queue, backlog: Backlog) -> int:
        return backlog.ready - self._queued(stage)

    def _probes(self, until: datetime | None, stage: Queue) -> int:
        due = until is not None and until.timestamp() <= self._clock()
        return 1 if due and self._queued(stage) == 0 else 0


def run_reconciler(settings: Settings) -> None:
    """Tick every second until SIGTERM or SIGINT."""
    die_with_parent()
    give_signs_of_life()
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    start_telemetry("sluice-reconciler", settings.telemetry, data_dir=settings.data_dir, instance=settings.instance)
    context = Context(settings)
    reconciler = Reconciler(
        context.ledger, context.transport.publish_wake_ups, context.transport.queued, settings.delivery
    )
    if settings.telemetry.metrics_address:
        metrics.serve_metrics(settings.telemetry.metrics_address)
    maintenance = Maintenance(context)
    while not stopping.wait(TICK_SECONDS):
        maintenance.tick()
        _tick(reconciler, context)
    try:
        reconciler.stop()
    except Unavailable as error:
        log.warning("lease_kept", error=repr(error))
    context.close()
    stop_telemetry()


def _tick(reconciler: Reconciler, context: Context) -> None:
    try:
        context.transport.declare()
        done = reconciler.tick()
        if done.active:
            _measure(done, context)
    except (Unavailable, *BROKER_ERRORS) as error:
        log.warning("tick_failed", error=repr(error))
    except Exception as error:  # one failure must not keep the next tick from everything else
        log.error("tick_failed", error=repr(error), exc_info=error)


def _measure(done: Reconciled, context: Context) -> None:
    for cause in (one.name for one in fields(done) if one.name != "active"):
        count = getattr(done, cause)
        if count:
            metrics.RECONCILER_REPUBLISHED.labels(cause).inc(count)
            log.info("republished", cause=cause, events=count)
    for stage, depth in context.ledger.queue_stats().items():
        metrics.STAGE_READY.labels(stage).set(depth.ready)
        metrics.STAGE_IN_FLIGHT.labels(stage).set(depth.claimed)
        metrics.STAGE_OLDEST_READY_SECONDS.labels(stage).set(depth.oldest_ready_seconds)
    metrics.QUARANTINE_HELD.set(context.ledger.quarantine.count())
