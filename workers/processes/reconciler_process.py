"""The reconciler's process: ticks until it is told to stop, measures the queues while it is there, and tidies up."""

from __future__ import annotations

import signal
import threading

import structlog

from sluice.contracts.errors import Unavailable
from sluice.otel import metrics
from sluice.otel.start import shutdown as stop_telemetry
from sluice.otel.start import start as start_telemetry
from sluice.workers.broker.transport import BROKER_ERRORS
from sluice.workers.context import Context
from sluice.workers.processes.maintenance import Maintenance
from sluice.workers.processes.process_group import die_with_parent, give_signs_of_life
from sluice.workers.processes.reconciler import TICK_SECONDS, Reconciled, Reconciler
from sluice.workers.settings import Settings

log = structlog.get_logger(__name__)


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
    except Exception as error:  # one thing that cannot be done must not keep the next tick from all the others
        log.error("tick_failed", error=repr(error), exc_info=error)


def _measure(done: Reconciled, context: Context) -> None:
    causes = {
        "lease_expired": done.leases_expired,
        "retry_due": done.retries_due,
        "deadline": done.deadlines,
        "replay": done.replayed,
        "lost": done.lost,
    }
    for cause, count in causes.items():
        if count:
            metrics.RECONCILER_REPUBLISHED.labels(cause).inc(count)
            log.info("republished", cause=cause, events=count)
    for stage, depth in context.ledger.queue_stats().items():
        metrics.STAGE_READY.labels(stage).set(depth.ready)
        metrics.STAGE_IN_FLIGHT.labels(stage).set(depth.claimed)
        metrics.STAGE_OLDEST_READY_SECONDS.labels(stage).set(depth.oldest_ready_seconds)
    metrics.QUARANTINE_HELD.set(context.ledger.quarantine.count_held())
