"""One worker process: a Celery worker on the queue of one stage or of several, its context built after any fork.

`sluice worker STAGE` runs `run_worker`, on its own or under `sluice up`. Its state is in `worker_process`, its
background threads in `background`, its end in `shutdown`.
"""

from __future__ import annotations

import faulthandler
import os
import secrets
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Any

import structlog
from celery import Celery, Task, bootsteps, signals
from celery.exceptions import SecurityWarning
from celery.worker.consumer.tasks import Tasks
from filelock import FileLock, Timeout

from sluice.contracts.errors import SluiceError, Unavailable
from sluice.contracts.event import Body, Queue
from sluice.ingest.chunk.language import map_model
from sluice.otel import metrics
from sluice.otel.logs import configure as configure_logs
from sluice.workers.broker.celery_app import POOLS, make_app, pool_size, stages_of
from sluice.workers.broker.keys import HANDLE_TASK, PRESENCE_TTL_SECONDS
from sluice.workers.broker.transport import BROKER_ERRORS, Transport
from sluice.workers.handlers import HANDLERS
from sluice.workers.processes import background, kernel
from sluice.workers.processes.shutdown import DEAF
from sluice.workers.processes.worker_process import WorkerProcess
from sluice.workers.runtime.observers import begin_series
from sluice.workers.settings import Settings
from sluice.workers.wiring.index_owner import LOOK_SECONDS, PULL_SECONDS, TURN_LOCK
from sluice.workers.wiring.inject import build

log = structlog.get_logger(__name__)

CHILD_MEMORY_BYTES = 1_500_000_000
"""Writable memory of a child of a pool: an ordinary one has 0.3 GB, reading a page of 10 MB takes 0.4, and the largest
accepted document three times that. The kernel stops a child that needs more, which costs only its document."""
NICENESS, CHILD_NICENESS = 5, 5
"""How far what works on documents steps back for what answers, and a child that reads them further still."""
CHILD_START_SECONDS = 60.0
"""Longest start of a new child: it opens the ledger, for which it may have to wait."""


def run_worker(settings: Settings, name: str) -> None:
    """Run a worker of a stage, or of several that share a process (`gate+query`), until a signal ends it."""
    stages = tuple(sorted(stages_of(name), key=lambda stage: stage == "index"))  # it may have to wait for its turn
    kernel.die_with_parent()
    kernel.limit_heaps()
    if not {"gate", "query"} & set(stages):
        os.nice(NICENESS)
    kernel.give_signs_of_life()
    # A container's first process ignores what it does not handle, and a standby of the index waits here for long.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    configure_logs(f"sluice-{name}", settings.telemetry)
    own_name = kernel.child_name(kernel.worker_name(name, os.getpid()), secrets.token_hex(2))
    process = WorkerProcess(settings, stages, own_name)
    metrics.serve_metrics(settings.telemetry.metrics_address, is_ready=lambda: process.takes_work)
    app = make_app(settings, worker=process.name)

    @app.task(name=HANDLE_TASK, acks_late=True, shared=False, bind=True)  # type: ignore[untyped-decorator]
    def handle(task: Task, announced: str) -> None:
        process.handle(announced, task.request.delivery_info["routing_key"])

    sizes = {stage: pool_size(settings, stage) for stage in stages}
    kind = POOLS[stages[0]] if len(stages) == 1 else "threads"
    if kind == "prefork":
        app.conf.update(
            task_time_limit=background.child_limit_seconds(settings),
            worker_max_tasks_per_child=settings.pools.max_tasks_per_child,
            worker_proc_alive_timeout=CHILD_START_SECONDS,
        )
    _connect_signals(process, prefork=kind == "prefork")
    turn = IndexTurn(process) if "index" in stages else None
    if len(stages) > 1:
        share_queues(app, sizes, process.consumed, turn)
    else:
        process.consumed.update(stages)
        if turn:
            process.is_ready = True  # to take over
            with _ended_early(process):
                turn.wait()
            process.is_ready = False
            turn.on_lost = lambda: process.ending.stop(DEAF)  # started again, it stands by
    # Celery warns of root for the sake of pickle, which is not accepted here.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    with _ended_early(process):
        worker = app.Worker(
            queues=[stages[0]],
            pool=kind,
            concurrency=1 if kind == "solo" else sum(sizes.values()),
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
        turn.end()
    with suppress(*BROKER_ERRORS), closing(Transport(settings)) as transport:  # else it would seem alive for seconds
        for stage in stages:
            transport.say_gone(stage, process.name)
    if worker.exitcode:
        raise SystemExit(worker.exitcode)


@contextmanager
def _ended_early(process: WorkerProcess) -> Iterator[None]:
    """Close what was opened if a signal ends the process before it listens to them: others take its place at once."""
    try:
        yield
    except SystemExit:
        process.end()
        raise


def _connect_signals(process: WorkerProcess, *, prefork: bool) -> None:
    # Celery keeps weak references to receivers, hence weak=False.
    signals.setup_logging.connect(lambda **_: None, weak=False)
    signals.worker_ready.connect(lambda **_: _come_forward(process), weak=False)
    signals.worker_ready.connect(lambda **_: kernel.notify_system("READY=1"), weak=False)
    if prefork:
        # before the pool forks
        signals.worker_init.connect(lambda **_: _map_language_model(process.settings), weak=False)
        signals.worker_ready.connect(lambda **_: background.release_claims_of_children(process), weak=False)
        signals.worker_process_init.connect(lambda **_: _begin_child(process), weak=False)
        signals.worker_process_shutdown.connect(lambda **_: process.end(), weak=False)
    else:
        signals.worker_init.connect(lambda **_: _warm(process), weak=False)
        signals.worker_shutdown.connect(lambda **_: process.end(), weak=False)


def _map_language_model(settings: Settings) -> None:
    try:
        map_model(settings.model_dir)
    except OSError as error:  # each child of the pool then unpacks its own, at its first document
        log.warning("language_model_not_mapped", error=repr(error))


def _begin_child(process: WorkerProcess) -> None:
    kernel.die_with_parent(signal.SIGKILL)  # it may hang; its claims are known by its name
    kernel.limit_memory(CHILD_MEMORY_BYTES)
    os.nice(CHILD_NICENESS)
    faulthandler.register(signal.SIGXCPU, chain=True)  # tells where a reading hung that the kernel ends
    process.become_child()
    process.begin()
    process.serve(background.keep_queues_tidy, "tidy")
    process.serve(background.stop_cancelled_work, "cancellations")


def _warm(process: WorkerProcess) -> None:
    """Load what the stages need, and start the background threads."""
    process.begin()
    process.serve(background.keep_queues_tidy, "tidy")
    process.serve(background.stop_cancelled_work, "cancellations")
    graph = process.settings.graph
    if process.settings.object_store.url is not None and READERS & set(process.stages):
        pull = partial(process.context.index_puller.look, folds="query" in process.stages)
        process.repeat(PULL_SECONDS, pull, "pull")
    if {"embed", "query"} & set(process.stages):
        _load_embedder(process)
        process.repeat(background.EMBEDDER_LOOK_SECONDS, partial(background.look_at_embedder, process), "embedder")
    if "index" in process.stages:
        process.serve(background.keep_whole, "heal")
    if "graph" in process.stages and graph.enabled:
        from sluice.workers.processes.watches.graph import (
            CYPHER_LOOK_SECONDS,
            SERVER_LOOK_SECONDS,
            CypherFiles,
            GraphServerFeed,
        )

        if graph.url:
            process.repeat(SERVER_LOOK_SECONDS, GraphServerFeed(process.context).look, "graph-server")
        if graph.cypher:
            process.repeat(CYPHER_LOOK_SECONDS, CypherFiles(process.context).look, "cypher-files")
    if "query" in process.stages:
        for corpus in process.context.readers.names():
            process.context.readers.reader(corpus).reload()
        process.serve(background.follow_snapshots, "snapshots")
        process.serve(lambda _, stopping: process.direct_reads.look_after_waiting(stopping), "waiting-reads")
        for number in range(pool_size(process.settings, "query")):
            process.serve(background.answer_direct_queries, f"reads-{number}")
    _build_parts(process)
    kernel.return_free_memory()


def _build_parts(process: WorkerProcess) -> None:
    """Build what the handlers of questions need, so that the first one is answered as quickly as the second."""
    answering = {"gate", "query"}.intersection(process.stages)
    for body in Body.registry.values():
        if body.queue in answering and (handler := HANDLERS.get(body.kind)):
            try:
                build(handler, process.context)
            except SluiceError as error:  # the handler says so again, and there it counts
                log.warning("part_not_built", kind=body.kind, error=str(error))


def _load_embedder(process: WorkerProcess) -> None:
    """Load the model before the first event; an endpoint that is out of reach now may be back by then."""
    context = process.context
    embedder = context.embedder if "embed" in process.stages else context.question_embedder
    try:
        embedder.embed([f"warm {time.time_ns()}"])  # not in any cache, so this calls the model itself
        for profile in context.profiles.values() if "query" in process.stages else ():
            context.embedding.prototypes(profile, embedder.fingerprint)
    except Unavailable as error:
        log.warning("embedder_not_loaded", error=str(error))


def _come_forward(process: WorkerProcess) -> None:
    """Give signs of life, in the parent of a prefork pool."""
    settings = process.settings
    for stage in process.stages:
        begin_series(stage, settings)
    transport = Transport(settings)
    process.repeat(PRESENCE_TTL_SECONDS / 3, partial(background.announce_presence, process, transport), "presence")
    process.serve(partial(background.watch_itself, transport), "watch")
    process.is_ready = True
    log.info("worker_ready", stages=process.stages, worker=process.name)


READERS = {"gate", "query", "embed", "graph"}
"""Stages that read corpora: on their machines generations are pulled."""
STANDBY_SECONDS = 0.5
"""Seconds between two tries of a process to become the one that indexes."""


class IndexTurn:
    """The right to index, of one process of a data directory for as long as it lives; and where machines share their
    data, of the one that owns the index (`wiring.index_owner`): a thread takes that, and takes over first."""

    def __init__(self, process: WorkerProcess) -> None:
        settings = process.settings
        settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = FileLock(settings.data_dir / TURN_LOCK, thread_local=False)
        self._waits = False
        self._process = process
        self._is_shared = settings.object_store.url is not None
        self.on_lost: Callable[[], object] = lambda: None
        """Called when another machine may have become the owner."""
        if self._is_shared:
            process.context.index_owner.waits_for_turn = True
            process.serve(self._keep, "index-turn")

    def take(self) -> bool:
        """Return whether it is this process's turn now; logs the first time that it is not."""
        if not self._lock.is_locked:
            with suppress(Timeout):
                self._lock.acquire(timeout=0)
        is_mine = self._lock.is_locked and (not self._is_shared or self._process.context.index_owner.is_ready)
        if not is_mine and not self._waits:
            log.info("standing_by", stage="index")
        self._waits = not is_mine
        return is_mine

    def wait(self) -> None:
        """Wait until it is this process's turn."""
        while not self.take():
            time.sleep(STANDBY_SECONDS)

    def end(self) -> None:
        """Release the turn to another process."""
        self._lock.release(force=True)

    def _keep(self, process: WorkerProcess, stopping: threading.Event) -> None:
        """Become the owner of the index when nobody else is; pull meanwhile what it publishes."""
        context, was_mine = process.context, False
        while not stopping.wait(LOOK_SECONDS):
            if was_mine and not context.index_owner.is_ready:
                was_mine = False
                self.on_lost()
            if self._lock.is_locked and context.index_owner.fence is None:
                context.writers.close_wanted(every=True)
                if not context.index_owner.take():
                    context.index_puller.look(stands_by=True)
            was_mine = context.index_owner.is_ready


def share_queues(app: Celery, sizes: Mapping[Queue, int], consumed: set[Queue], turn: IndexTurn | None) -> None:
    """Let the worker of `app` consume the queues of all stages in `sizes`, each with so many wake-ups at once.

    A channel takes from one queue (`workers.broker.redis_channel`), and no more than its stage has threads, so that no
    stage takes the threads of another. Celery consumes the first queue by itself. `consumed` collects the stages being
    consumed: `index` only once it is this process's `turn`.
    """
    first = next(iter(sizes))

    class Queues(bootsteps.StartStopStep):  # type: ignore[misc]  # celery is untyped
        """The channels of one connection, as a step of the worker's start, repeated at each new connection."""

        requires = (Tasks,)

        def start(self, consumer: Any) -> None:
            self._channels: list[Any] = []
            self._index_channel: Any = None
            consumer.connection.default_channel.basic_qos(0, sizes[first], False)
            consumed.clear()
            for stage in sizes:
                self._begin_in_turn(stage, consumer)

        def _begin_in_turn(self, stage: Queue, consumer: Any) -> None:
            if stage in consumed:  # by a start since this one
                return
            if stage != "index" or turn is None or turn.take():
                self._begin(stage, consumer)
            if stage == "index" and turn is not None:
                consumer.timer.call_after(STANDBY_SECONDS, self._look_at_turn, (consumer,))

        def _look_at_turn(self, consumer: Any) -> None:
            if "index" in consumed and turn is not None and not turn.take():
                consumed.discard("index")
                with suppress(*BROKER_ERRORS):
                    self._index_channel.close()
            if "index" in consumed:
                consumer.timer.call_after(STANDBY_SECONDS, self._look_at_turn, (consumer,))
            else:
                self._begin_in_turn("index", consumer)

        def _begin(self, stage: Queue, consumer: Any) -> None:
            consumed.add(stage)
            if stage == first:
                return
            channel = consumer.connection.channel()
            self._channels.append(channel)
            if stage == "index":
                self._index_channel = channel
            channel.basic_qos(0, sizes[stage], False)
            queue = consumer.app.amqp.queues[stage]
            taking = consumer.app.amqp.TaskConsumer(channel, [queue], on_decode_error=consumer.on_decode_error)
            taking.on_message = consumer.create_task_handler()
            taking.consume()

        def stop(self, consumer: Any) -> None:
            for channel in self._channels:
                with suppress(*BROKER_ERRORS):
                    channel.close()

    app.conf.update(worker_enable_prefetch_count_reduction=False)  # it would raise what one channel takes to the sum
    app.steps["consumer"].add(Queues)
