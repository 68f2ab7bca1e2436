"""One worker process: its context, its heartbeat, its threads, and its end."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import structlog
from celery.exceptions import Reject
from celery.worker import state
from pydantic import ValidationError

from sluice.contracts.errors import SluiceError
from sluice.contracts.event import Queue
from sluice.otel.context import span
from sluice.otel.start import flush
from sluice.otel.start import shutdown as stop_telemetry
from sluice.otel.start import start as start_telemetry
from sluice.workers.broker.celery_app import POOLS, group_name, pool_size
from sluice.workers.broker.transport import BROKER_ERRORS, SHORT_BLOCK_SECONDS, ReadRequest
from sluice.workers.context import Context
from sluice.workers.handlers import append_again
from sluice.workers.processes.kernel import belongs_to, child_name
from sluice.workers.processes.shutdown import Shutdown, hand_back
from sluice.workers.runtime.claims import Heartbeat, Isolation
from sluice.workers.settings import Settings
from sluice.workers.steps.retrieve import DirectReads
from sluice.workers.task import StageWorker, use_wake_up

log = structlog.get_logger(__name__)

RECONNECT_SECONDS = 1.0
REFUSED_SECONDS = 0.2
"""Pause before a wake-up goes back that is the index owner's: its broker would hand it out again at once."""


@dataclass
class WorkerProcess:
    """The state of one process for one or several stages: its context and its heartbeat, made anew after a fork."""

    settings: Settings
    stages: tuple[Queue, ...]
    name: str
    claimant: str = ""
    """The name under which this process claims: its own, or that of a child of a pool."""
    handled: Counter[Queue] = field(default_factory=Counter)
    """Wake-ups of each stage used so far, roughly: enough to see progress."""
    in_use: dict[int, tuple[Queue, float]] = field(default_factory=dict)
    """For each thread that handles events, the stage of its wake-up and the start of its current event, by
    the monotonic clock."""
    consumed: set[Queue] = field(default_factory=set)
    """Stages whose wake-ups are taken: all, except index while another process of the data directory indexes."""
    is_ready: bool = False
    """Whether it has come as far as to take wake-ups, or to stand by."""
    _owner: int = 0
    _workers: dict[Queue, StageWorker] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.claimant = self.claimant or self.name
        self.ending = self._own_shutdown()

    def become_child(self) -> None:
        """Go on as a child of the pool. Renews everything that the parent's threads may have held at the fork."""
        self.claimant = child_name(self.name, os.getpid())
        self._lock, self._stopping, self._threads = threading.Lock(), threading.Event(), []
        if not self.ending.has_begun:  # else it was forked too late to take anything
            self.ending = self._own_shutdown()

    def begin(self) -> None:
        """Start telemetry and context of this process, unless that was done."""
        with self._lock:
            if self._owner == os.getpid():
                return
            start_telemetry(
                f"sluice-{group_name(self.stages)}",
                self.settings.telemetry,
                data_dir=self.settings.data_dir,
                instance=self.settings.instance,
            )
            threads = [pool_size(self.settings, stage) for stage in self.stages if POOLS[stage] == "threads"]
            context, delivery = Context(self.settings, threads=sum(threads)), self.settings.delivery
            context.append_again = append_again
            heartbeat = Heartbeat(
                context.ledger,
                delivery.lease_seconds,
                delivery.event_timeout_seconds,
                on_overdue=lambda claim: self.ending.hang(claim.event.id),
            )
            isolation, self._workers = Isolation(), {}
            for stage in self.stages:
                size = pool_size(self.settings, stage)
                self._workers[stage] = StageWorker(
                    stage,
                    self.claimant,
                    context,
                    heartbeat,
                    isolation,
                    pool=self._workers,
                    may_go_on=self._may_go_on,
                    most_of_a_tenant=max(1, size - 1) if POOLS[stage] == "prefork" else None,
                )
            self._owner = os.getpid()

    @property
    def workers(self) -> dict[Queue, StageWorker]:
        """The handlers of this process, by stage."""
        self.begin()
        return self._workers

    @property
    def context(self) -> Context:
        """The context of this process."""
        return self.workers[self.stages[0]].context

    @property
    def heartbeat(self) -> Heartbeat:
        """The heartbeat that keeps this process's claims alive."""
        return self.workers[self.stages[0]].heartbeat

    @cached_property
    def direct_reads(self) -> DirectReads:
        """Answers the direct queries of a query worker; made once the context exists."""
        return DirectReads(self.context)

    def handle(self, announced: str, routing_key: str) -> None:
        """Use one wake-up, published for the event `announced`; its routing key begins with its stage.

        Raises:
            Reject: this process is about to end, or may take no more of the tenants that wait; the wake-up comes again.
        """
        if self.ending.has_begun:
            raise Reject("the worker is ending", requeue=True)
        stage = next(one for one in self.stages if routing_key.startswith(f"{one}."))
        if stage == "index" and not self.context.index_owner.is_ready and self.context.index_owner.waits_for_turn:
            time.sleep(REFUSED_SECONDS)
            raise Reject("another machine owns the index", requeue=True)
        thread = threading.get_ident()
        self.in_use[thread] = stage, time.monotonic()
        try:
            if not use_wake_up(announced, self.workers[stage]):
                raise Reject("its tenant has its share of the pool", requeue=True)
        finally:
            del self.in_use[thread]
            self.handled[stage] += 1

    def _may_go_on(self) -> bool:
        """Return whether a thread that has handled an event may handle another without a wake-up."""
        thread = threading.get_ident()
        self.in_use[thread] = self.in_use[thread][0], time.monotonic()
        return not self.ending.has_begun

    @property
    def takes_work(self) -> bool:
        """Whether this process takes wake-ups, or stands by to take them, and is not about to end."""
        return self.is_ready and not self.ending.has_begun

    @property
    def is_parent(self) -> bool:
        """Whether this is the parent of a pool, whose children, known to Celery, handle the events."""
        return self._owner != os.getpid()

    @property
    def in_hand(self) -> int:
        """Number of events being worked on, in the children of a pool too."""
        if self.is_parent:
            return len(state.active_requests)
        return self.heartbeat.in_hand

    def hand_back(self, died: bool) -> None:
        """Release the claims of this process and of its children, and flush their spans."""
        hand_back(self.settings, lambda name: belongs_to(name, self.claimant), died=died)
        flush()

    def _own_shutdown(self) -> Shutdown:
        return Shutdown(self.settings.pools.stop_seconds, _take_no_more, lambda: self.in_hand, self.hand_back)

    def read(self, request: ReadRequest) -> None:
        """Answer one direct query."""
        with span("Read", traceparent=request.traceparent, attributes={"sluice.stage": "query"}):
            self.direct_reads.take(request)

    def repeat(self, every_seconds: float, look: Callable[[], object], name: str) -> None:
        """Call `look` in a thread, at once and every so many seconds, until the process ends."""

        def looking(_process: WorkerProcess, stopping: threading.Event) -> None:
            while not stopping.is_set():
                look()
                stopping.wait(every_seconds)

        self.serve(looking, name)

    def serve(self, serving: Callable[[WorkerProcess, threading.Event], None], name: str) -> None:
        """Run `serving` in a thread until the process ends; after an error, run it again."""

        def keep_serving() -> None:
            while not self._stopping.is_set():
                try:
                    serving(self, self._stopping)
                except (SluiceError, ValidationError, *BROKER_ERRORS) as error:
                    log.warning("serving_interrupted", thread=name, error=repr(error))
                    self._stopping.wait(RECONNECT_SECONDS)
                except Exception as error:  # nobody would notice a dead thread until it is needed
                    log.error("serving_interrupted", thread=name, error=repr(error), exc_info=error)
                    self._stopping.wait(RECONNECT_SECONDS)

        thread = threading.Thread(target=keep_serving, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def end(self) -> None:
        """End the threads, close what `begin` opened, flush telemetry."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(timeout=2 * SHORT_BLOCK_SECONDS)
        with self._lock:
            if self._owner != os.getpid():
                return
            worker = next(iter(self._workers.values()))  # they share what has to be closed
            worker.heartbeat.close()
            worker.context.close()
            stop_telemetry()
            self._owner = 0


def _take_no_more() -> None:
    """Let Celery's main loop end once running tasks are done."""
    state.should_stop = 0
