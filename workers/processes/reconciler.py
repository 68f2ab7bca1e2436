"""The reconciler: makes the broker's queues what the ledger says they should be, at every tick; and maintains the rest.

Promises: an open event that is neither queued nor claimed is published again, whatever became of its message, so the
queues heal even from an empty broker. The reconciler does not trust the broker: publishing once too often is
harmless, because only a claimed event is handled. One reconciler is active at a time, by a lease in the
ledger that another takes over soon after its holder died.

A tick, in order:

1. hold the lease, or do nothing;
2. free the claims of workers that are silent (they count as dead), unless the ledger was away, when none could beat;
3. make the retries ready whose time has come;
4. direct the answers of runs whose deadline has passed;
5. where a stage's oldest event has been ready for longer than `REPUBLISH_AFTER_SECONDS`, publish the wake-ups that
   its queue lacks, one per ready event. A paused stage gets one, when it is time to probe;
6. bring back the dead letters of bulk replays that are due;
7. record which of these stages has no worker, or has one again: nothing else tells later why an event waited.

Beside its ticks the process does the chores of `Maintenance`, each at its own interval.
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
from functools import partial

import structlog

from sluice.contracts.errors import Unavailable
from sluice.contracts.event import Queue
from sluice.ledger.ledger import Ledger, WakeUp
from sluice.ledger.reader import Backlog
from sluice.otel import metrics
from sluice.otel.start import shutdown as stop_telemetry
from sluice.otel.start import start as start_telemetry
from sluice.workers import schedules
from sluice.workers.broker.embedded import is_embedded, keep_append_only_file
from sluice.workers.broker.transport import BROKER_ERRORS
from sluice.workers.context import Context
from sluice.workers.processes.kernel import die_with_parent, give_signs_of_life
from sluice.workers.processes.watches import backup, corpora, gate, graph, self_defence
from sluice.workers.processes.webhook_sender import WebhookSender
from sluice.workers.runtime import pools
from sluice.workers.runtime.backpressure import LEAST_FREE_BYTES, DiskRoom
from sluice.workers.runtime.blob_store import BlobCollector
from sluice.workers.setting_names import SCALED_HERE
from sluice.workers.settings import DeliverySettings, Settings
from sluice.workers.wiring.index_owner import machine_id

log = structlog.get_logger(__name__)

LEASE = "reconciler"
MOST_PUBLISHED_AT_ONCE = 5_000
"""Wake-ups that a stage gets per tick at most: a flushed backlog of 20,000 is back in four ticks."""
_LEASE_TICKS = 4
"""Missed ticks after which a holder counts as dead: short of the 5 s in which a drained queue is to heal."""
_AWAY_TICKS = 5
"""Missed ticks after which the ledger counts as having been away."""
TICK_SECONDS = 1.0
"""Seconds between two ticks."""
STUCK_SECONDS = 300.0
"""Longest turn of the loop: each step of it gives up by itself where ledger or broker do not answer."""
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
        is_served: Callable[[Queue], bool] = lambda stage: True,
    ) -> None:
        """`is_served` tells whether a stage has a worker."""
        self._ledger, self._publish, self._queued, self._settings = ledger, publish, queued, settings
        self._clock, self._republish_after_seconds = clock, republish_after_seconds
        self._is_served = is_served
        self._served: dict[Queue, tuple[bool, float]] = {}
        """Whether each stage had a worker when it was looked at last, and when that was."""
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._met_at, self._forbears_until = time.monotonic(), 0.0

    def tick(self) -> Reconciled:
        """Run one tick. Raises `Unavailable` if ledger or broker is away; a later tick publishes what is left."""
        is_active = self._ledger.lease(LEASE, self._holder, _LEASE_TICKS * TICK_SECONDS)
        forbears = self._forbears()
        if not is_active:
            return Reconciled(active=False)
        done = Reconciled(
            lease_expired=0 if forbears else self._send(self._ledger.expire_leases(self._settings.max_deliveries)),
            retry_due=self._send(self._ledger.wake_due_retries()),
            deadline=self._send(self._ledger.direct_answer_at_deadline(self._clock())),
            lost=self._send(self._lost()),
            replay=self._send(self._ledger.replays.advance()),
        )
        self._note_workers()
        return done

    def _forbears(self) -> bool:
        """Return whether a worker's silence tells nothing: the ledger, met just now, was away less than a lease ago."""
        now, lease_seconds = time.monotonic(), self._settings.lease_seconds
        if now - self._met_at > max(lease_seconds / 2, _AWAY_TICKS * TICK_SECONDS):
            self._forbears_until = now + lease_seconds
        self._met_at = now
        return now < self._forbears_until

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
            missing = self._missing(stage, backlog)
            if stage in paused:
                until = paused[stage]
                is_due = until is not None and until.timestamp() <= self._clock()
                missing = int(is_due and self._queued(stage) == 0)
            if missing > 0:
                wake_ups += self._ledger.next_ready(stage, min(missing, MOST_PUBLISHED_AT_ONCE))
        return wake_ups

    def _note_workers(self) -> None:
        now = self._clock()
        oldest = {
            stage: one.oldest
            for stage, one in self._ledger.backlogs().items()
            if now - one.oldest >= self._republish_after_seconds
        }
        absent = {stage for stage, (was_served, _) in self._served.items() if not was_served}
        for stage in {*oldest, *absent}:
            is_served, (was_served, seen_at) = self._is_served(stage), self._served.get(stage, (None, 0.0))
            if is_served != was_served:
                waiting_since = oldest.get(stage, now)
                at = now if is_served else max(waiting_since, seen_at)
                self._ledger.note_workers(stage, are_there=is_served, at=at, waiting_since=waiting_since)
            self._served[stage] = is_served, now

    def _missing(self, stage: Queue, backlog: Backlog) -> int:
        return backlog.ready - self._queued(stage)


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
        context.ledger,
        context.transport.publish_wake_ups,
        context.transport.queued,
        settings.delivery,
        context.ledger.clock,
        is_served=context.transport.is_served,
    )
    turned_at = [time.monotonic()]
    metrics.serve_metrics(
        settings.telemetry.metrics_address, lives=lambda: time.monotonic() - turned_at[0] < STUCK_SECONDS
    )
    maintenance, sender = Maintenance(context), WebhookSender(context)
    sender.start()
    while not stopping.wait(TICK_SECONDS):
        turned_at[0] = time.monotonic()
        maintenance.tick()
        _tick(reconciler, context)
    sender.stop()
    maintenance.stop()
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


DISK_LOOK_SECONDS = 1.0
STAGES_THAT_FILL_THE_DISK: tuple[Queue, ...] = ("search", "crawl", "chunk", "embed", "index", "graph")
"""Gate and query go on: their events are small, and they answer the caller."""
DISK_SHORT = "the disk of the data directory is short of room"
"""Reason of these stages' pause, by which their pause is recognised."""
TRANSIENT_LOOK_SECONDS = 10.0
"""Seconds between two searches for raw pages that were to be kept no longer than it took to read them."""

BLOB_TICK_SECONDS = 2.0
"""Seconds between two steps of the blob collection, which takes a hundredth of a processor's time."""


FOLD_SECONDS = 600.0
"""Seconds between two times that the figures of old minutes are folded into those of hours."""


@dataclass
class Chore:
    """A task that runs every so many seconds, by the monotonic clock."""

    name: str
    every_seconds: float
    do: Callable[[], object]
    due_at: float = 0.0


class Aside:
    """Does a chore in a thread of its own, once at a time: it waits for an object store, and a tick must not."""

    def __init__(self, name: str, do: Callable[[], object]) -> None:
        self._name, self._do, self._thread = name, do, threading.Thread()

    def __call__(self) -> None:
        """Begin, unless it is still at it."""
        if not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="aside", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            self._do()
        except Exception as error:  # the next turn tries again
            log.warning("chore_failed", chore=self._name, error=repr(error), exc_info=error)


class Maintenance:
    """The chores of one process. A chore that fails is logged and tried again at its next turn."""

    def __init__(self, context: Context, clock: Callable[[], float] = time.monotonic) -> None:
        self._context, self._clock = context, clock
        self._room = DiskRoom(context.settings.data_dir)
        self._enough_room = DiskRoom(context.settings.data_dir, 2 * LEAST_FREE_BYTES)
        self._is_short, self._disk_short = False, DISK_SHORT
        if context.object_store is not None:  # another machine must not resume what this one pauses
            self._disk_short += f", on machine {machine_id(context.settings.data_dir)}"
        self._broker_keeps_file = False  # unknown: an earlier process may have switched it off
        self._stages_are_paused: bool | None = None  # unknown
        settings = context.settings
        watch = corpora.CorpusWatch(settings.index_root, settings.data_dir)
        pool_sizes = pools.PoolsWatch(settings.data_dir, context.ledger.pool_sizes.all)
        evaluation = gate.EvaluationWatch(context.ledger, context.profiles)
        schedule, defence = corpora.FreshnessSchedule(context), self_defence.SelfDefence(context)
        self._nightly = backup.NightlyBackup(context)
        self._chores = [
            Chore("disk", DISK_LOOK_SECONDS, self._spare_the_disk),
            Chore("transient_pages", TRANSIENT_LOOK_SECONDS, self._aside("transient_pages", self._remove_read_pages)),
            Chore("blobs", BLOB_TICK_SECONDS, self._aside("blobs", BlobCollector(context.blobs, context.ledger).tick)),
            Chore(
                "budget",
                gate.BUDGET_LOOK_SECONDS,
                partial(gate.measure_budget, settings.budget, context.ledger.used_today),
            ),
            Chore("stage_minutes", FOLD_SECONDS, context.ledger.stage_minutes.fold),
            Chore("flags", gate.FLAGS_LOOK_SECONDS, gate.FlagWatch(context.flags).look),
            Chore("shares", gate.SHARES_LOOK_SECONDS, gate.ShareWatch(context).look),
            Chore("schedules", schedules.LOOK_SECONDS, schedules.ScheduleWatch(context).look),
            Chore("memory", corpora.MEMORY_LOOK_SECONDS, self._aside("memory", corpora.MemoryWatch(context).look)),
            Chore("graph", graph.GRAPH_LOOK_SECONDS, graph.GraphWatch(context).look),
            Chore("rollouts", gate.ROLLOUT_LOOK_SECONDS, gate.RolloutWatch(context).look),
            Chore("evaluation", gate.EVALUATION_LOOK_SECONDS, evaluation.look),
            *([Chore("pools", pools.LOOK_SECONDS, pool_sizes.look)] if os.environ.get(SCALED_HERE) else []),
            *([Chore("corpora", corpora.CORPUS_LOOK_SECONDS, watch.look)] if settings.index.engine == "local" else []),
            *([Chore("freshness", schedule.look_seconds, schedule.look)] if schedule.is_on else []),
            *([Chore("backup", backup.BACKUP_LOOK_SECONDS, self._nightly.look)] if settings.backup.to else []),
            *([Chore("self_defence", self_defence.LOOK_SECONDS, defence.look)] if defence.is_on else []),
        ]
        for profile, days in context.settings.freshness.target_age_days.items():
            metrics.CITED_AGE_TARGET_SECONDS.labels(profile).set(days * 86_400)

    def tick(self) -> None:
        """Run the chores that are due."""
        for chore in self._chores:
            if self._clock() >= chore.due_at:
                try:
                    chore.do()
                except (Unavailable, *BROKER_ERRORS) as error:
                    log.warning("chore_failed", chore=chore.name, error=repr(error))
                chore.due_at = self._clock() + chore.every_seconds

    def stop(self) -> None:
        """End what goes on in a process of its own."""
        self._nightly.stop()

    def _aside(self, name: str, do: Callable[[], object]) -> Callable[[], object]:
        """Return a chore that waits for an object store as one that does so in a thread."""
        return do if self._context.object_store is None else Aside(name, do)

    def _spare_the_disk(self) -> None:
        """While the disk is short of room, switch off the embedded broker's file and pause the stages that fill it.

        A broker that cannot write its file takes no write at all, and a direct query is one. What a restart of it would
        lose is in the ledger. Both end when there is twice the room, so that they do not alternate.
        """
        is_short = (self._enough_room if self._is_short else self._room).is_short
        if is_short != self._is_short:
            log.warning("disk_short" if is_short else "disk_has_room", free_bytes=self._room.free_bytes)
        self._is_short = is_short
        self._tell_broker(keeps_file=not is_short)
        self._tell_stages(self._context.ledger, pause=is_short)

    def _tell_broker(self, *, keeps_file: bool) -> None:
        """Repeat it at each look while the broker is to write no file: it may have been restarted."""
        if keeps_file and self._broker_keeps_file:
            return
        if is_embedded(self._context.settings):
            keep_append_only_file(self._context.settings, wanted=keeps_file)
        self._broker_keeps_file = keeps_file

    def _tell_stages(self, ledger: Ledger, *, pause: bool) -> None:
        if pause == self._stages_are_paused:
            return
        if pause:
            for stage in STAGES_THAT_FILL_THE_DISK:
                ledger.pause(stage, self._disk_short)
        else:
            for paused in ledger.paused():
                if paused.why == self._disk_short:
                    ledger.resume(paused.stage)
        self._stages_are_paused = pause

    def _remove_read_pages(self) -> None:
        """Runs without a lease: when another process removes a page first, no harm is done."""
        removed = self._context.transient_pages.remove_read(self._context.ledger)
        if removed:
            log.info("unarchived_removed", pages=removed)
