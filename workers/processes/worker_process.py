"""What one process of a stage holds: its context, its heartbeat, its threads, and how it ends."""

from __future__ import annotations

import os
import threading
import time
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
from sluice.workers.broker.transport import BROKER_ERRORS, SHORT_BLOCK_SECONDS, ReadRequest
from sluice.workers.context import Context
from sluice.workers.processes.process_group import (
    belongs_to,
    child_name,
)
from sluice.workers.processes.release_claims import hand_back
from sluice.workers.processes.shutdown import Shutdown, drain_seconds
from sluice.workers.runtime.heartbeat import Heartbeat
from sluice.workers.settings import Settings
from sluice.workers.steps.direct_reads import DirectReads
from sluice.workers.task import StageWorker, use_wake_up

log = structlog.get_logger(__name__)

RECONNECT_SECONDS = 1.0


@dataclass
class WorkerProcess:
    """What one process of a stage holds: its context and its heartbeat, made anew after a fork."""

    settings: Settings
    stage: Queue
    name: str
    claimant: str = ""
    """Under what name this process claims: its own, or that of a child of a pool."""
    handled: int = 0
    """Wake-ups used so far, more or less: enough to see that there is progress."""
    in_use: dict[int, float] = field(default_factory=dict)
    """Since when each thread that handles an event does, by the monotonic clock."""
    _owner: int = 0
    _worker: StageWorker | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.claimant = self.claimant or self.name
        self.ending = self._own_shutdown()

    def become_child(self) -> None:
        """Go on as a child of the pool. What its parent's threads may have held when it was forked is made anew."""
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
        """The context of this process."""
        return self.worker.context

    @cached_property
    def direct_reads(self) -> DirectReads:
        """Answers the direct queries of a query worker; made once its context is."""
        return DirectReads(self.context)

    def handle(self, announced: str) -> None:
        """Use one wake-up, published for the event `announced`.

        Raises:
            Reject: this process is about to end; the wake-up is for another.
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
                except Exception as error:  # a thread that is gone would not be missed until it is needed
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
            if self._worker:
                self._worker.heartbeat.close()
                self._worker.context.close()
            stop_telemetry()
            self._owner = 0


def _take_no_more() -> None:
    """Let Celery's main loop end once what is in hand is done."""
    state.should_stop = 0
