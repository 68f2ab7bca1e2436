"""One worker process: a Celery worker on one queue, its context built after any fork.

`run_worker` is what `sluice worker STAGE` runs, on its own or under `sluice up`. What it holds stands in
`worker_process`, what its threads do beside the events in `background`, how it ends in `shutdown`.
"""

from __future__ import annotations

import os
import signal
import socket
import time
import warnings

import structlog
from celery.exceptions import SecurityWarning
from celery.signals import (
    setup_logging,
    worker_init,
    worker_process_init,
    worker_process_shutdown,
    worker_ready,
    worker_shutdown,
)
from filelock import FileLock, Timeout

from sluice.contracts.errors import Unavailable
from sluice.contracts.event import Queue
from sluice.ingest.chunk.language import map_model
from sluice.otel import metrics
from sluice.otel.logs import configure as configure_logs
from sluice.workers.broker.celery_app import HANDLE_TASK, POOLS, make_app, pool_size
from sluice.workers.broker.transport import Transport
from sluice.workers.processes.background import (
    announce_presence,
    answer_direct_queries,
    feed_graph_server,
    follow_snapshots,
    keep_queue_tidy,
    keep_whole,
    release_claims_of_children,
    stop_cancelled_work,
    watch_embedder,
    watch_itself,
    write_cypher_files,
)
from sluice.workers.processes.heap import limit_heaps, return_free_memory
from sluice.workers.processes.process_group import (
    die_with_parent,
    give_signs_of_life,
    limit_memory,
    run_below_init,
    worker_name,
)
from sluice.workers.processes.worker_process import WorkerProcess
from sluice.workers.runtime.initial_series import begin_series
from sluice.workers.settings import Settings

log = structlog.get_logger(__name__)

CHUNK_LIMIT_SECONDS = 120.0
"""Longest that a child of a pool may take for one event, where events may not take less: then it is killed."""
CHILD_MEMORY_BYTES = 1_500_000_000
"""Writable memory of a child of a pool: an ordinary one has 0.3 GB, reading a page of 10 MB takes 0.4, and the largest
document that is accepted three times that. What goes beyond is stopped by the kernel, and costs its document alone."""
CHILD_START_SECONDS = 60.0
"""How long a new child may take to be ready: it opens the ledger, for which it may have to wait."""
STANDBY_SECONDS = 0.5


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
        worker_init.connect(lambda **_: _map_language_model(process.settings), weak=False)  # before the pool forks
        worker_ready.connect(lambda **_: release_claims_of_children(process), weak=False)
        worker_process_init.connect(lambda **_: _begin_child(process), weak=False)
        worker_process_shutdown.connect(lambda **_: process.end(), weak=False)
    else:
        worker_init.connect(lambda **_: _warm(process), weak=False)
        worker_shutdown.connect(lambda **_: process.end(), weak=False)


def _map_language_model(settings: Settings) -> None:
    try:
        map_model(settings.model_dir)
    except OSError as error:  # each child of the pool then unpacks its own, at its first document
        log.warning("language_model_not_mapped", error=repr(error))


def _begin_child(process: WorkerProcess) -> None:
    die_with_parent(signal.SIGKILL)  # it may hang; what it holds is told by its name
    limit_memory(CHILD_MEMORY_BYTES)
    process.become_child()
    process.begin()
    process.serve(lambda stopping: keep_queue_tidy(process, stopping), "tidy")
    process.serve(lambda stopping: stop_cancelled_work(process, stopping), "cancellations")


def _warm(process: WorkerProcess) -> None:
    _load_what_is_needed(process)
    return_free_memory()


def _load_what_is_needed(process: WorkerProcess) -> None:
    process.begin()
    process.serve(lambda stopping: keep_queue_tidy(process, stopping), "tidy")
    process.serve(lambda stopping: stop_cancelled_work(process, stopping), "cancellations")
    if process.stage in ("embed", "query"):
        _load_embedder(process)
        process.serve(lambda stopping: watch_embedder(process, stopping), "embedder")
    if process.stage == "index":
        process.serve(lambda stopping: keep_whole(process, stopping), "heal")
    if process.stage == "graph" and process.settings.graph.enabled and process.settings.graph.url:
        process.serve(lambda stopping: feed_graph_server(process, stopping), "graph-server")
    if process.stage == "graph" and process.settings.graph.enabled and process.settings.graph.cypher:
        process.serve(lambda stopping: write_cypher_files(process, stopping), "cypher-files")
    if process.stage == "query":
        for corpus in process.context.readers.names():
            process.context.readers.reader(corpus).reload()
        process.serve(lambda stopping: follow_snapshots(process, stopping), "snapshots")
        process.serve(process.direct_reads.look_after_waiting, "waiting-reads")
        for number in range(pool_size(process.settings, "query")):
            process.serve(lambda stopping: answer_direct_queries(process, stopping), f"reads-{number}")


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


def _come_forward(process: WorkerProcess) -> None:
    """Serve metrics and give signs of life, in the parent of a prefork pool."""
    settings = process.settings
    begin_series(process.stage, settings)
    if settings.telemetry.metrics_port:
        metrics.serve_metrics(settings.telemetry.metrics_port, settings.telemetry.metrics_host)
    transport = Transport(settings)
    process.serve(lambda stopping: announce_presence(process, transport, stopping), "presence")
    process.serve(lambda stopping: watch_itself(process, transport, stopping), "watch")
    log.info("worker_ready", stage=process.stage, worker=process.name)
