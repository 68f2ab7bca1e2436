"""One worker process: a Celery worker on one queue, its parts built after any fork.

`run_worker` is what `sluice worker STAGE` runs, on its own or under `sluice up`. How it ends stands in `ending`; what
it notices of itself (that it is deaf, that a child of its pool died) in the servants of `_come_forward`.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import structlog
from celery.exceptions import Reject, SecurityWarning
from celery.signals import (
    setup_logging,
    worker_init,
    worker_process_init,
    worker_process_shutdown,
    worker_ready,
    worker_shutdown,
)
from celery.worker import state
from filelock import FileLock, Timeout
from pydantic import ValidationError

from contracts.errors import InvalidInput, SluiceError, Unavailable
from contracts.event import Queue
from contracts.outcome import DeadLetterReason
from ingest.chunk.language import load_model
from otel import metrics
from otel.context import span
from otel.logs import configure as configure_logs
from otel.start import flush
from otel.start import shutdown as stop_telemetry
from otel.start import start as start_telemetry
from workers.broker.celery_app import HANDLE_TASK, POOLS, make_app, pool_size
from workers.broker.keys import EMBEDDER_DOWN_TTL_SECONDS, PRESENCE_TTL_SECONDS
from workers.broker.transport import BROKER_ERRORS, SHORT_BLOCK_SECONDS, ReadRequest, Transport
from workers.context import Context
from workers.processes.heap import limit_heaps, return_free_memory
from workers.processes.process_group import (
    belongs_to,
    child_name,
    die_with_parent,
    give_signs_of_life,
    limit_memory,
    run_below_init,
    worker_name,
)
from workers.processes.procfs import ZOMBIE, all_processes
from workers.processes.release_claims import hand_back
from workers.processes.shutdown import DEAF, Shutdown, drain_seconds, stacks
from workers.processes.stall_detector import LOOK_SECONDS, StallDetector
from workers.runtime.heartbeat import Heartbeat
from workers.settings import Settings
from workers.steps.direct_reads import DirectReads
from workers.task import SETTLE_PATIENCE_SECONDS, StageWorker, use_wake_up

log = structlog.get_logger(__name__)

HEAL_SECONDS = 60.0
"""How often the index worker looks whether what it published is still whole."""
CHUNK_LIMIT_SECONDS = 120.0
"""Longest that a child of a pool may take for one event, where events may not take less: then it is killed."""
CHILD_MEMORY_BYTES = 1_500_000_000
"""Writable memory of a child of a pool: an ordinary one has 0.3 GB, reading a page of 10 MB takes 0.4, and the largest
document that is accepted three times that. What goes beyond is stopped by the kernel, and costs its document alone."""
CHILD_START_SECONDS = 60.0
"""How long a new child may take to be ready: it opens the ledger, for which it may have to wait."""
RECONNECT_SECONDS = 1.0
TIDY_SECONDS = 2.0
"""How often a worker looks for what is no permit, and for what a dead worker had taken."""
STANDBY_SECONDS = 0.5
EMBEDDER_LOOK_SECONDS = EMBEDDER_DOWN_TTL_SECONDS / 3


@dataclass
class WorkerProcess:
    """What one process of a stage holds: its parts and its heartbeat, made anew after a fork."""

    settings: Settings
    stage: Queue
    name: str
    claimant: str = ""
    """Under what name this process claims: its own, or that of a child of a pool."""
    handled: int = 0
    """Permits used so far, more or less: enough to see that there is progress."""
    in_use: dict[int, float] = field(default_factory=dict)
    """Since when each thread that uses a permit does, by the monotonic clock."""
    _owner: int = 0
    _worker: StageWorker | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _servants: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.claimant = self.claimant or self.name
        self.ending = self._own_shutdown()

    def become_child(self) -> None:
        """Go on as a child of the pool. What its parent's threads may have held when it was forked is made anew."""
        self.claimant = child_name(self.name, os.getpid())
        self._lock, self._stopping, self._servants = threading.Lock(), threading.Event(), []
        if not self.ending.has_begun:  # else it was forked too late to take anything
            self.ending = self._own_shutdown()

    def begin(self) -> None:
        """Start telemetry and parts for this process, unless that was done."""
        with self._lock:
            if self._owner == os.getpid():
                return
            start_telemetry(
                f"sluice-{self.stage}",
                self.settings.telemetry,
                data_dir=self.settings.data_dir,
                instance=self.settings.instance,
            )
            context, delivery = Context(self.settings), self.settings.delivery
            heartbeat = Heartbeat(
                context.ledger,
                delivery.lease_seconds,
                delivery.event_timeout_seconds,
                on_overdue=lambda claim: self.ending.hang(claim.event.id),
            )
            self._worker = StageWorker(self.stage, self.claimant, context, heartbeat)
            self._owner = os.getpid()

    @property
    def worker(self) -> StageWorker:
        """What this process handles events with."""
        self.begin()
        assert self._worker is not None  # noqa: S101 - begin() has made it
        return self._worker

    @property
    def context(self) -> Context:
        """The parts of this process."""
        return self.worker.context

    @cached_property
    def direct_reads(self) -> DirectReads:
        """Answers the direct queries of a query worker; made once its parts are."""
        return DirectReads(self.context)

    def handle(self, announced: str) -> None:
        """Use one permit, published for the event `announced`.

        Raises:
            Reject: this process is about to end; the permit is another's.
        """
        if self.ending.has_begun:
            raise Reject("the worker is ending", requeue=True)
        thread = threading.get_ident()
        self.in_use[thread] = time.monotonic()
        try:
            use_wake_up(announced, self.worker)
        finally:
            del self.in_use[thread]
            self.handled += 1

    @property
    def in_hand(self) -> int:
        """How many events are being worked on, in the children of a pool too."""
        if self._owner != os.getpid() or self._worker is None:
            return len(state.active_requests)
        return self._worker.heartbeat.in_hand

    def hand_back(self, died: bool) -> None:
        """Free what this process or a child of it still holds, and let no span of its work be lost."""
        hand_back(self.settings, lambda name: belongs_to(name, self.claimant), died=died)
        flush()

    def _own_shutdown(self) -> Shutdown:
        return Shutdown(drain_seconds(self.settings), _take_no_more, lambda: self.in_hand, self.hand_back)

    def read(self, request: ReadRequest) -> None:
        """Answer one direct query."""
        with span("Read", traceparent=request.traceparent, attributes={"sluice.stage": self.stage}):
            self.direct_reads.take(request)

    def serve(self, serving: Callable[[threading.Event], None], name: str) -> None:
        """Run `serving` in a thread until the process ends, again whenever something came between."""

        def keep_serving() -> None:
            while not self._stopping.is_set():
                try:
                    serving(self._stopping)
                except (SluiceError, ValidationError, *BROKER_ERRORS) as error:
                    log.warning("serving_interrupted", thread=name, error=repr(error))
                    self._stopping.wait(RECONNECT_SECONDS)
                except Exception as error:  # a servant that is gone would not be missed until it is needed
                    log.error("serving_interrupted", thread=name, error=repr(error), exc_info=error)
                    self._stopping.wait(RECONNECT_SECONDS)

        thread = threading.Thread(target=keep_serving, name=name, daemon=True)
        self._servants.append(thread)
        thread.start()

    def end(self) -> None:
        """End the threads, close what `begin` opened, flush telemetry."""
        self._stopping.set()
        for thread in self._servants:
            thread.join(timeout=2 * SHORT_BLOCK_SECONDS)
        with self._lock:
            if self._owner != os.getpid():
                return
            if self._worker:
                self._worker.heartbeat.close()
                self._worker.context.close()
            stop_telemetry()
            self._owner = 0


def run_worker(settings: Settings, stage: Queue, name: str | None = None) -> None:
    """Run a worker of `stage` until it is told to stop."""
    run_below_init()
    die_with_parent()
    limit_heaps()
    give_signs_of_life()
    configure_logs(f"sluice-{stage}", settings.telemetry)
    process = WorkerProcess(settings, stage, name or worker_name(stage, os.getpid()))
    app = make_app(settings, worker=process.name)
    app.task(name=HANDLE_TASK, acks_late=True, shared=False)(process.handle)
    pool = POOLS[stage]
    concurrency = 1 if pool.kind == "solo" else pool_size(settings, stage)
    app.conf.update(_limits(settings) if pool.kind == "prefork" else {})
    _connect_signals(process, prefork=pool.kind == "prefork")
    turn = _await_turn(settings) if stage == "index" else None
    # Celery warns of root for the sake of pickle, which is not accepted here.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    worker = app.Worker(
        queues=[stage],
        pool=pool.kind,
        concurrency=concurrency,
        hostname=f"{process.name}@{socket.gethostname()}",
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        loglevel="WARNING",
        quiet=True,
    )
    worker.install_platform_tweaks = lambda _: process.ending.listen()  # instead of Celery's own handlers
    worker.start()
    if turn:
        turn.release()
    if worker.exitcode:
        raise SystemExit(worker.exitcode)


def _limits(settings: Settings) -> dict[str, float | None]:
    """Celery's settings for the children of a pool."""
    return {
        "task_time_limit": min(CHUNK_LIMIT_SECONDS, settings.delivery.event_timeout_seconds),
        "worker_max_tasks_per_child": settings.pools.max_tasks_per_child,
        "worker_proc_alive_timeout": CHILD_START_SECONDS,
    }


def _take_no_more() -> None:
    """Let Celery's main loop end once what is in hand is done."""
    state.should_stop = 0


def _await_turn(settings: Settings) -> FileLock:
    """Stand by until no other process of this data directory indexes; the lock to hold for as long as this one does."""
    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    turn = FileLock(settings.data_dir / "index-worker.lock", poll_interval=STANDBY_SECONDS)
    try:
        turn.acquire(timeout=0)
    except Timeout:
        log.info("standing_by", stage="index")
        turn.acquire()
    return turn


def _connect_signals(process: WorkerProcess, *, prefork: bool) -> None:
    # Celery keeps weak references to receivers, hence weak=False.
    setup_logging.connect(lambda **_: None, weak=False)
    worker_ready.connect(lambda **_: _come_forward(process), weak=False)
    if prefork:
        worker_init.connect(lambda **_: load_model(), weak=False)  # before the pool forks
        worker_ready.connect(lambda **_: _mind_children(process), weak=False)
        worker_process_init.connect(lambda **_: _begin_child(process), weak=False)
        worker_process_shutdown.connect(lambda **_: process.end(), weak=False)
    else:
        worker_init.connect(lambda **_: _warm(process), weak=False)
        worker_shutdown.connect(lambda **_: process.end(), weak=False)


def _begin_child(process: WorkerProcess) -> None:
    die_with_parent(signal.SIGKILL)  # it may hang; what it holds is told by its name
    limit_memory(CHILD_MEMORY_BYTES)
    process.become_child()
    process.begin()
    process.serve(lambda stopping: _keep_tidy(process, stopping), "tidy")
    process.serve(lambda stopping: _heed_cancellations(process, stopping), "cancellations")


def _keep_whole(process: WorkerProcess, stopping: threading.Event) -> None:
    """Publish anew what is damaged, or was published by an older Sluice. The journal has all of it."""
    while not stopping.is_set():
        for corpus in process.context.readers.names():
            _heal(process, corpus)
        stopping.wait(HEAL_SECONDS)


def _heal(process: WorkerProcess, corpus: str) -> None:
    from index.local.writer import IndexWriter

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
    except SluiceError as error:  # another worker has it, or the journal is damaged too
        log.warning("corpus_not_healed", corpus=corpus, problem=str(error))


def _warm(process: WorkerProcess) -> None:
    _load_what_is_needed(process)
    return_free_memory()


def _load_what_is_needed(process: WorkerProcess) -> None:
    process.begin()
    process.serve(lambda stopping: _keep_tidy(process, stopping), "tidy")
    process.serve(lambda stopping: _heed_cancellations(process, stopping), "cancellations")
    if process.stage in ("embed", "query"):
        _load_embedder(process)
        process.serve(lambda stopping: _watch_embedder(process, stopping), "embedder")
    if process.stage == "index":
        process.serve(lambda stopping: _keep_whole(process, stopping), "heal")
    if process.stage == "query":
        for corpus in process.context.readers.names():
            process.context.readers.reader(corpus).reload()
        process.serve(lambda stopping: _follow_snapshots(process, stopping), "snapshots")
        process.serve(process.direct_reads.look_after_waiting, "waiting-reads")
        for number in range(pool_size(process.settings, "query")):
            process.serve(lambda stopping: _serve_reads(process, stopping), f"reads-{number}")


def _load_embedder(process: WorkerProcess) -> None:
    """Load the model before the first event; an endpoint that is out of reach now may be back by then."""
    context = process.context
    embedder = context.embedder if process.stage == "embed" else context.question_embedder
    try:
        embedder.embed([f"warm {time.time_ns()}"])  # no cache has seen it, so the model itself is asked
        for profile in context.profiles.values() if process.stage == "query" else ():
            context.embedding.prototypes(profile, embedder.fingerprint)
    except Unavailable as error:
        log.warning("embedder_not_loaded", error=str(error))


def _watch_embedder(process: WorkerProcess, stopping: threading.Event) -> None:
    """While an embedding endpoint is out of reach, say so, and see whether it is back."""
    context = process.context
    while not stopping.wait(EMBEDDER_LOOK_SECONDS):
        for endpoint in tuple(context.embedding_endpoints):
            endpoint.probe()
            if why := endpoint.failure:
                context.transport.say_embedder_down(f"{endpoint.fingerprint}: {why}")


def _come_forward(process: WorkerProcess) -> None:
    """Serve metrics and give signs of life, in the parent of a prefork pool."""
    settings = process.settings
    if settings.telemetry.metrics_port:
        metrics.serve_metrics(settings.telemetry.metrics_port, settings.telemetry.metrics_host)
    transport = Transport(settings)
    process.serve(lambda stopping: _give_signs_of_life(process, transport, stopping), "presence")
    process.serve(lambda stopping: _mind_itself(process, transport, stopping), "watch")
    log.info("worker_ready", stage=process.stage, worker=process.name)


def _give_signs_of_life(process: WorkerProcess, transport: Transport, stopping: threading.Event) -> None:
    while not stopping.is_set():
        transport.say_present(process.stage, process.name)
        stopping.wait(PRESENCE_TTL_SECONDS / 3)


def _mind_itself(process: WorkerProcess, transport: Transport, stopping: threading.Event) -> None:
    """End a process that takes nothing although permits wait, or in which a thread hangs with no event in hand.

    Whoever restarts it gets one that hears.
    """
    delivery = process.settings.delivery
    stall_detector = StallDetector(delivery.deaf_after_seconds)
    longest_seconds = 2 * delivery.event_timeout_seconds + SETTLE_PATIENCE_SECONDS + delivery.deaf_after_seconds
    while not stopping.wait(LOOK_SECONDS):
        handled = process.handled + state.all_total_count[0]
        if stall_detector.look(handled, process.in_hand, lambda: transport.queued(process.stage) > 0):
            log.error("deaf", stage=process.stage, worker=process.name, stacks=stacks())
            process.ending.stop(DEAF)
        now = time.monotonic()
        if any(now - since > longest_seconds for since in process.in_use.copy().values()):
            process.ending.hang("none: a permit was in use for too long")


def _mind_children(process: WorkerProcess) -> None:
    """Hand back at once what a child of the pool held that died.

    No child is forked meanwhile: it would be born with the locks of a database that is in use.
    """
    forking, forked = threading.Lock(), threading.Event()

    def after_fork() -> None:
        forked.set()
        forking.release()

    os.register_at_fork(before=forking.acquire, after_in_parent=after_fork, after_in_child=forking.release)

    def mind(stopping: threading.Event) -> None:
        known: set[str] = set()
        while not stopping.wait(LOOK_SECONDS):
            with forking:
                living = {process.name, *(child_name(process.name, one) for one in _living_children())}
                if forked.is_set() or known - living:  # who came and went between two looks was never known
                    forked.clear()
                    _hand_back_of_children(process, living)
            known = living

    forked.set()
    process.serve(mind, "children")


def _hand_back_of_children(process: WorkerProcess, living: set[str]) -> None:
    hand_back(process.settings, lambda name: belongs_to(name, process.name) and name not in living, died=True)


def _living_children() -> set[int]:
    mine = (process for process in all_processes() if process.parent == os.getpid())
    return {process.pid for process in mine if process.state != ZOMBIE}


def _keep_tidy(process: WorkerProcess, stopping: threading.Event) -> None:
    """Park what lay in the queue and is no permit; put back what dead workers of the stage had taken; let go of corpora
    that another process wants to write.
    """
    stage, transport, dead_letters = process.stage, process.context.transport, process.context.ledger.dead_letters

    def park(item: bytes, reason: DeadLetterReason, refusal: InvalidInput) -> None:
        letter_id = dead_letters.park_raw(item, stage, reason, refusal, worker=process.name)
        metrics.DEAD_LETTERS.labels(stage, reason).inc()
        log.error("dead_letter", letter_id=letter_id, reason=reason, error=repr(refusal))

    while not stopping.is_set():
        transport.put_back_orphans(stage, process.name)
        while transport.park_malformed(stage, park) and not stopping.is_set():
            pass
        process.context.writers.close_wanted()
        stopping.wait(TIDY_SECONDS)


def _heed_cancellations(process: WorkerProcess, stopping: threading.Event) -> None:
    """Let work stop whose run was cancelled."""
    for run_id in process.context.cancellations.heard(stopping):
        process.worker.heartbeat.lose_run(run_id)


def _follow_snapshots(process: WorkerProcess, stopping: threading.Event) -> None:
    for notice in process.context.transport.announcements(stopping):
        if notice["kind"] == "SnapshotPublished":
            process.context.readers.reader(notice["corpus"]).reload()


def _serve_reads(process: WorkerProcess, stopping: threading.Event) -> None:
    while not stopping.is_set():
        request = process.context.transport.next_read()
        if request is not None:
            process.read(request)
