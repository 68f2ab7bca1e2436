"""One worker process: a Celery worker on one queue, its parts built after any fork.

`run_worker` is what `sluice worker STAGE` runs, on its own or under `sluice up`.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

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
from pydantic import ValidationError

from contracts.errors import SluiceError
from contracts.event import Queue
from otel import metrics
from otel.context import span
from otel.logs import configure as configure_logs
from otel.start import shutdown as stop_telemetry
from otel.start import start as start_telemetry
from workers.answering import read
from workers.app import HANDLE_TASK, POOLS, make_app, pool_size
from workers.heartbeat import Heartbeat
from workers.keys import PRESENCE_TTL_SECONDS
from workers.life import die_with_parent, worker_name
from workers.parts import Parts
from workers.reads import bad_reply
from workers.settings import Settings
from workers.task import handle_event
from workers.transport import BROKER_ERRORS, SHORT_BLOCK_SECONDS, ReadRequest, Transport

log = structlog.get_logger(__name__)

CHUNK_LIMIT_SECONDS = 120
RECONNECT_SECONDS = 1.0
STANDBY_SECONDS = 0.5


@dataclass
class WorkerProcess:
    """What one process of a stage holds: its parts and its heartbeat, made anew after a fork."""

    settings: Settings
    stage: Queue
    name: str
    _owner: int = 0
    _parts: Parts | None = None
    _heartbeat: Heartbeat | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _servants: list[threading.Thread] = field(default_factory=list)

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
            self._parts = Parts(self.settings)
            delivery = self.settings.delivery
            self._heartbeat = Heartbeat(self._parts.ledger, delivery.lease_seconds, delivery.event_timeout_seconds)
            self._owner = os.getpid()

    @property
    def parts(self) -> Parts:
        """The parts of this process."""
        self.begin()
        assert self._parts is not None  # noqa: S101 - begin() has made them
        return self._parts

    def handle(self, event_id: str) -> None:
        """Handle one event."""
        parts = self.parts
        assert self._heartbeat is not None  # noqa: S101 - begin() has made it
        handle_event(event_id, self.stage, self.name, parts, self._heartbeat)

    def read(self, request: ReadRequest) -> None:
        """Answer one direct query."""
        with span("Read", traceparent=request.traceparent, attributes={"sluice.stage": self.stage}):
            try:
                reply = read(request.query, self.parts)
            except Exception as error:
                log.error("read_failed", error=repr(error), exc_info=error)
                reply = bad_reply(SluiceError("the query worker failed; its log has the trace"))
        self.parts.transport.reply(request.reply_key, reply)

    def serve(self, serving: Callable[[threading.Event], None], name: str) -> None:
        """Run `serving` in a thread until the process ends, again whenever something came between."""

        def keep_serving() -> None:
            while not self._stopping.is_set():
                try:
                    serving(self._stopping)
                except (SluiceError, ValidationError, *BROKER_ERRORS) as error:
                    log.warning("serving_interrupted", thread=name, error=repr(error))
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
            if self._heartbeat:
                self._heartbeat.close()
            if self._parts:
                self._parts.close()
            stop_telemetry()
            self._owner = 0


def run_worker(settings: Settings, stage: Queue, name: str | None = None) -> None:
    """Run a worker of `stage` until it is told to stop."""
    die_with_parent()
    configure_logs(f"sluice-{stage}", settings.telemetry)
    process = WorkerProcess(settings, stage, name or worker_name(stage, os.getpid()))
    app = make_app(settings)
    app.task(name=HANDLE_TASK, acks_late=True, shared=False)(process.handle)
    pool = POOLS[stage]
    concurrency = 1 if pool.kind == "solo" else pool_size(settings, stage)
    limits = {"task_time_limit": CHUNK_LIMIT_SECONDS} if pool.kind == "prefork" else {}
    app.conf.update(limits)
    _connect_signals(process, prefork=pool.kind == "prefork")
    turn = _await_turn(settings) if stage == "index" else None
    # Celery warns of root for the sake of pickle, which is not accepted here.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    app.Worker(
        queues=[stage],
        pool=pool.kind,
        concurrency=concurrency,
        hostname=f"{process.name}@{socket.gethostname()}",
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        loglevel="WARNING",
        quiet=True,
    ).start()
    if turn:
        turn.release()


def _await_turn(settings: Settings) -> FileLock:
    """Stand by until no other process of this data directory indexes; the lock to hold for as long as this one does."""
    settings.data_dir.mkdir(parents=True, exist_ok=True)
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
        worker_process_init.connect(lambda **_: _begin_child(process), weak=False)
        worker_process_shutdown.connect(lambda **_: process.end(), weak=False)
    else:
        worker_init.connect(lambda **_: _warm(process), weak=False)
        worker_shutdown.connect(lambda **_: process.end(), weak=False)


def _begin_child(process: WorkerProcess) -> None:
    die_with_parent()
    process.begin()


def _warm(process: WorkerProcess) -> None:
    process.begin()
    if process.stage in ("embed", "query"):
        # A text that no cache has seen, so that the model itself is loaded.
        process.parts.embedder.embed([f"warm {time.time_ns()}"])
    if process.stage == "query":
        for profile in process.parts.profiles:
            process.parts.prototypes(profile)
        for corpus in process.parts.corpora():
            process.parts.reader(corpus).reload()
        process.serve(lambda stopping: _follow_snapshots(process, stopping), "snapshots")
        for number in range(pool_size(process.settings, "query")):
            process.serve(lambda stopping: _serve_reads(process, stopping), f"reads-{number}")


def _come_forward(process: WorkerProcess) -> None:
    """Serve metrics and give signs of life, in the parent of a prefork pool."""
    settings = process.settings
    if settings.telemetry.metrics_port:
        metrics.serve_metrics(settings.telemetry.metrics_port, settings.telemetry.metrics_host)
    transport = Transport(settings)
    process.serve(lambda stopping: _give_signs_of_life(process, transport, stopping), "presence")
    log.info("worker_ready", stage=process.stage, worker=process.name)


def _give_signs_of_life(process: WorkerProcess, transport: Transport, stopping: threading.Event) -> None:
    while not stopping.is_set():
        transport.say_present(process.stage, process.name)
        stopping.wait(PRESENCE_TTL_SECONDS / 3)


def _follow_snapshots(process: WorkerProcess, stopping: threading.Event) -> None:
    for notice in process.parts.transport.announcements(stopping):
        if notice["kind"] == "SnapshotPublished":
            process.parts.reader(notice["corpus"]).reload()


def _serve_reads(process: WorkerProcess, stopping: threading.Event) -> None:
    while not stopping.is_set():
        request = process.parts.transport.next_read()
        if request is not None:
            process.read(request)
