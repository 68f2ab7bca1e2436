"""Background threads of a worker: each function is one thread, until `stopping` is set.

A thread that fails is started again after a pause (`WorkerProcess.serve`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

import structlog
from celery.worker import state

from sluice.contracts.errors import InvalidInput, SluiceError
from sluice.contracts.event import DeadLetterReason, Queue
from sluice.otel import metrics
from sluice.workers.broker.celery_app import POOLS, pool_size
from sluice.workers.broker.keys import EMBEDDER_DOWN_TTL_SECONDS
from sluice.workers.broker.transport import Transport
from sluice.workers.processes.kernel import all_processes, belongs_to, child_name
from sluice.workers.processes.shutdown import DEAF, hand_back, stacks
from sluice.workers.runtime.observers import utc_now
from sluice.workers.settings import Settings
from sluice.workers.task import SETTLE_PATIENCE_SECONDS

if TYPE_CHECKING:
    from sluice.workers.processes.worker_process import WorkerProcess

log = structlog.get_logger(__name__)

HEAL_SECONDS = 60.0
"""Seconds between two checks of the index worker that its published files are whole."""
EMBEDDER_LOOK_SECONDS = EMBEDDER_DOWN_TTL_SECONDS / 3
LOOK_SECONDS = 1.0
"""Seconds between two checks for a stalled worker, and of the children of its pool."""
_MOST_PER_LOOK = 2.0
"""Most that one check can add to the stalled time, in multiples of `LOOK_SECONDS`."""
CHUNK_LIMIT_SECONDS = 120.0
CHILD_GRACE_SECONDS = 5.0
"""Time that a pool may take to kill a child whose event has reached its limit."""
TIDY_SECONDS = 2.0
"""Seconds between two searches for malformed messages, and for items that a dead worker had taken."""


def announce_presence(process: WorkerProcess, transport: Transport) -> None:
    """Announce that a worker of each stage is alive."""
    for stage in process.stages:
        at_once = 1 if POOLS[stage] == "solo" else pool_size(process.settings, stage)
        transport.say_present(stage, process.name, at_once)


class StallDetector:
    """Detects that a worker has stalled: wake-ups wait in its queue, it handles nothing, and it takes none.

    A paused stage is no stall: its wake-ups are taken and have no effect. Nor is a broker that is away, as
    the queue's length is unknown then. Time during which the process itself did not run does not count: after a suspend
    of the machine no worker counts as stalled.
    """

    def __init__(self, after_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._after_seconds, self._clock = after_seconds, clock
        self._looked_at = clock()
        self._handled = 0
        self._seconds = 0.0

    def look(self, handled: int, in_hand: int, waits: Callable[[], int]) -> bool:
        """Return whether it has stalled: `handled` wake-ups so far, `in_hand` events now, `waits()` wake-ups queued."""
        now = self._clock()
        passed, self._looked_at = min(now - self._looked_at, _MOST_PER_LOOK * LOOK_SECONDS), now
        hears = handled != self._handled or bool(in_hand) or not waits()
        self._handled = handled
        self._seconds = 0.0 if hears else self._seconds + passed
        return self._seconds >= self._after_seconds


def watch_itself(transport: Transport, process: WorkerProcess, stopping: threading.Event) -> None:
    """End a process that takes no wake-ups although some wait, or in which a thread hangs with no event in hand.

    The supervisor, or the container engine, starts it again.
    """
    delivery = process.settings.delivery
    detectors = {stage: StallDetector(delivery.deaf_after_seconds) for stage in process.stages}
    longest_seconds = 2 * delivery.event_timeout_seconds + SETTLE_PATIENCE_SECONDS + delivery.deaf_after_seconds
    while not stopping.wait(LOOK_SECONDS):
        in_use = tuple(process.in_use.copy().values())
        children = children_at_work(process.settings) if process.is_parent else 0
        for stage in tuple(process.consumed):
            handled = process.handled[stage] + (state.all_total_count[0] if process.is_parent else 0)
            in_hand = children + sum(one == stage for one, _ in in_use)
            if detectors[stage].look(handled, in_hand, partial(transport.queued, stage)):
                log.error("deaf", stage=stage, worker=process.name, stacks=stacks())
                process.ending.stop(DEAF)
        now = time.monotonic()
        if any(now - since > longest_seconds for _, since in in_use):
            process.ending.hang("none: a wake-up was in use for too long")


def child_limit_seconds(settings: Settings) -> float:
    """Return the longest time for one event in a pool's child; then the pool kills the child."""
    return min(CHUNK_LIMIT_SECONDS, settings.delivery.event_timeout_seconds)


def children_at_work(settings: Settings) -> int:
    """Return how many children of the pool have an event in hand, but for those that its limit should have ended.

    The pool's main thread ends them. If that hangs, they would count for ever, and the worker would never seem stalled.
    """
    oldest = time.time() - child_limit_seconds(settings) - CHILD_GRACE_SECONDS
    # Copied in one step: the main thread changes the set, and whoever iterates over it meanwhile gets a RuntimeError.
    requests = [reference() for reference in state.active_requests.data.copy()]
    return sum((one.time_start or time.time()) > oldest for one in requests if one is not None)


def release_claims_of_children(process: WorkerProcess) -> None:
    """Release at once the claims of a pool's child that died.

    No child is forked meanwhile: it would inherit the locks of a database in use.
    """
    forking, forked = threading.Lock(), threading.Event()

    def after_fork() -> None:
        forked.set()
        forking.release()

    os.register_at_fork(before=forking.acquire, after_in_parent=after_fork, after_in_child=forking.release)

    def mind(process: WorkerProcess, stopping: threading.Event) -> None:
        known: set[str] = set()
        while not stopping.wait(LOOK_SECONDS):
            with forking:
                children = (one.pid for one in all_processes() if one.parent == os.getpid() and one.lives)
                living = {process.name, *(child_name(process.name, one) for one in children)}
                if forked.is_set() or known - living:  # a child that came and went between two checks was never known
                    forked.clear()
                    is_gone = partial(_is_child_of, process.name, living)
                    hand_back(process.settings, is_gone, died=True)
            known = living

    forked.set()
    process.serve(mind, "children")


def _is_child_of(worker: str, living: Collection[str], name: str) -> bool:
    """Return whether `name` belongs to the worker, but to none of its living processes."""
    return belongs_to(name, worker) and name not in living


def keep_queues_tidy(process: WorkerProcess, stopping: threading.Event) -> None:
    """Park messages that are no wake-ups, put back items that dead workers of the stages had taken, and close the
    writers of corpora that another process needs to write.
    """
    wake_ups = process.context.transport.wake_ups
    while not stopping.is_set():
        for stage in process.stages:
            wake_ups.put_back_orphans(stage, process.name)
            while wake_ups.park_malformed(stage, partial(_park, process, stage)) and not stopping.is_set():
                pass
        process.context.writers.close_wanted()
        stopping.wait(TIDY_SECONDS)


def _park(process: WorkerProcess, stage: Queue, item: bytes, reason: DeadLetterReason, refusal: InvalidInput) -> None:
    letter_id = process.context.ledger.dead_letters.park_raw(item, stage, reason, refusal, worker=process.name)
    metrics.DEAD_LETTERS.labels(stage, reason).inc()
    log.error("dead_letter", letter_id=letter_id, reason=reason, error=repr(refusal))


def stop_cancelled_work(process: WorkerProcess, stopping: threading.Event) -> None:
    """Signal work to stop whose run was cancelled."""
    for run_id in process.context.transport.cancelled_runs(stopping):
        process.heartbeat.lose_run(run_id)


def follow_snapshots(process: WorkerProcess, stopping: threading.Event) -> None:
    """Open each new generation as soon as it is announced, so that no query waits for that."""
    for notice in process.context.transport.announcements(stopping):
        if notice["kind"] == "SnapshotPublished":
            process.context.index_puller.look()
            process.context.readers.reader(notice["corpus"]).reload()


def answer_direct_queries(process: WorkerProcess, stopping: threading.Event) -> None:
    """Answer direct queries, one at a time."""
    while not stopping.is_set():
        request = process.context.transport.next_read()
        if request is not None:
            process.read(request)


def keep_whole(process: WorkerProcess, stopping: threading.Event) -> None:
    """Publish again from the journal each damaged generation, or one that an older Sluice published.

    Record stale citations of answers whose documents changed while they were recorded.
    """
    from sluice.workers.steps.answer import tell_stale_answers

    while not stopping.is_set():
        for corpus in process.context.readers.names():
            _heal(process, corpus)
            tell_stale_answers(corpus, process.context.ledger, process.context.readers, utc_now())
        stopping.wait(HEAL_SECONDS)


def _heal(process: WorkerProcess, corpus: str) -> None:
    from sluice.index.local.writer import IndexWriter

    reader = process.context.readers.reader(corpus)
    try:
        reader.reload()
        problem = reader.fallback_reason
    except SluiceError as error:
        problem = str(error)
    if problem is None:
        return
    log.warning("corpus_healing", corpus=corpus, problem=problem)
    try:
        with process.context.writers.writing(corpus) as writer:
            if isinstance(writer, IndexWriter):
                writer.heal()
    except SluiceError as error:  # another worker writes it, or the journal is damaged too
        log.warning("corpus_not_healed", corpus=corpus, problem=str(error))


def look_at_embedder(process: WorkerProcess) -> None:
    """Probe each embedding endpoint; report one that is out of reach."""
    context = process.context
    for endpoint in tuple(context.embedding_endpoints):
        endpoint.probe()
        if why := endpoint.failure:
            context.transport.say_embedder_down(f"{endpoint.fingerprint}: {why}")
