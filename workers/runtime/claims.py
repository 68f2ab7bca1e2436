"""Claims on events in hand: the process says that it lives, suspects run alone, and a stage that fails is paused.

One thread per process beats, in one transaction for all events in hand, which tells too which claims still stand. The
ledger will fence the `settle` of one that another worker took over, and work that calls `check_cancelled` on its way
stops there. A claim held for longer than an event may take is given up: a handler that hangs loses it, and its run can
go on. A worker with nothing in hand does not beat.

Suspects run alone in a process, everything else together: an event on which a worker died may kill this one too. Events
that ran beside it would die with it, become suspects, and share its fate the next time. So it waits until
the process handles nothing else, and while it runs nothing else begins.

A circuit breaker pauses and probes a stage when most of its work fails. A failure counts if it is a fault of
the stage itself: a bug, a component that is away, a damaged blob. Faults of the outside world or of a request
do not count: a dead site must not stop the crawling of others, hosts and providers have breakers of their own, and a
refusal is an answer.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import structlog

from sluice.contracts import errors
from sluice.contracts.event import Queue
from sluice.ingest.circuit_breaker import FailureWindow
from sluice.ledger.ledger import Claim, Ledger

log = structlog.get_logger(__name__)

BEATS_PER_LEASE = 3
FRESH_INTERVALS = 1.5
"""Intervals between beats after which a worker beats itself before it claims: the thread's next one is in time then."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A claim that is being worked on. `lost` is set once the claim is lost."""

    claim: Claim
    until: float
    lost: threading.Event = field(default_factory=threading.Event)


_hold: ContextVar[Hold | None] = ContextVar("hold", default=None)


def is_cancelled() -> bool:
    """Return whether this thread's run was cancelled, or its claim taken over."""
    return _lost_hold() is not None


def check_cancelled() -> None:
    """Raise `Fenced` if this thread's run was cancelled or its claim taken over: nothing more of it is recorded."""
    if hold := _lost_hold():
        raise errors.Fenced(f"the claim on {hold.claim.event.id} was lost on the way")


def _lost_hold() -> Hold | None:
    hold = _hold.get()
    return hold if hold is not None and hold.lost.is_set() else None


class Heartbeat:
    """Beats for one worker, three times per lease, while it has claims in hand, each for `longest_seconds` at most.

    Calls `on_overdue` with a claim that was held for longer. The thread starts with the first claim.
    """

    def __init__(
        self,
        ledger: Ledger,
        lease_seconds: float,
        longest_seconds: float = float("inf"),
        on_overdue: Callable[[Claim], None] | None = None,
    ) -> None:
        self._ledger, self._lease_seconds, self._longest_seconds = ledger, lease_seconds, longest_seconds
        self._on_overdue = on_overdue
        self._holds: dict[tuple[str, int], Hold] = {}
        self._beaten_at = -math.inf
        self._lock, self._beating = threading.Lock(), threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def ready(self, worker: str) -> None:
        """Beat, unless the last beat is recent enough to claim after it. Raises `Unavailable` as a claim does."""
        with self._beating:
            if time.monotonic() - self._beaten_at > FRESH_INTERVALS * self._lease_seconds / BEATS_PER_LEASE:
                self._beat(worker)

    @contextmanager
    def of(self, claim: Claim) -> Iterator[None]:
        """Keep `claim` alive for the length of the block."""
        self._start()
        hold = Hold(claim, time.monotonic() + self._longest_seconds)
        with self._lock:
            self._holds[claim.event.id, claim.epoch] = hold
        token = _hold.set(hold)
        try:
            yield
        finally:
            _hold.reset(token)
            self._forget(hold)

    def lose_run(self, run_id: str) -> None:
        """Signal to the work on a run's events that the run was cancelled, without waiting for the next beat."""
        with self._lock:
            holds = [hold for hold in self._holds.values() if hold.claim.event.run_id == run_id]
        for hold in holds:
            hold.lost.set()

    @property
    def in_hand(self) -> int:
        """Number of claims being worked on."""
        with self._lock:
            return len(self._holds)

    def close(self) -> None:
        """Stop the thread."""
        self._stopped.set()
        if self._thread:
            self._thread.join(timeout=self._lease_seconds)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep_beating, name="heartbeat", daemon=True)
                self._thread.start()

    def _keep_beating(self) -> None:
        while not self._stopped.wait(self._lease_seconds / BEATS_PER_LEASE):
            with self._lock:
                holds = list(self._holds.values())
            for hold in holds:
                if time.monotonic() >= hold.until:
                    self._give_up(hold)
            if not holds:
                continue
            try:
                with self._beating:
                    standing = self._beat(holds[0].claim.worker)
            except errors.Unavailable as error:
                log.warning("heartbeat_failed", error=repr(error))
            except Exception as error:  # this one thread must outlive any failure
                log.error("heartbeat_failed", error=repr(error), exc_info=error)
            else:
                for hold in holds:
                    if (hold.claim.event.id, hold.claim.epoch) not in standing:
                        self._lose(hold)

    def _beat(self, worker: str) -> frozenset[tuple[str, int]]:
        began = time.monotonic()
        standing = self._ledger.beat(worker, self._lease_seconds)
        self._beaten_at = began
        return standing

    def _lose(self, hold: Hold) -> None:
        if self._forget(hold):  # else it has just been settled
            log.warning("claim_lost", event_id=hold.claim.event.id, epoch=hold.claim.epoch)
            hold.lost.set()

    def _give_up(self, hold: Hold) -> None:
        claim = hold.claim
        log.error("event_overdue", event_id=claim.event.id, kind=claim.event.kind, epoch=claim.epoch)
        hold.lost.set()
        self._forget(hold)
        if self._on_overdue:
            self._on_overdue(claim)

    def _forget(self, hold: Hold) -> bool:
        with self._lock:
            return self._holds.pop((hold.claim.event.id, hold.claim.epoch), None) is not None


class Isolation:
    """A lock that many may share and one may hold alone. Waiters for the lock alone go before new sharers."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._sharing = 0
        self._alone = False
        self._want_alone = 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the lock beside others."""
        with self._changed:
            self._changed.wait_for(lambda: not self._alone and not self._want_alone)
            self._sharing += 1
        try:
            yield
        finally:
            with self._changed:
                self._sharing -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock alone."""
        with self._changed:
            self._want_alone += 1
            self._changed.wait_for(lambda: not self._alone and not self._sharing)
            self._want_alone -= 1
            self._alone = True
        try:
            yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()


WINDOW = 100
"""Most recent outcomes that the breaker judges."""
LEAST_OUTCOMES = 20
"""Outcomes below which the breaker does not judge."""
OUTWARD: frozenset[Queue] = frozenset({"search", "crawl"})
"""Stages whose unavailable components belong to somebody else."""


def counts_as_failure(stage: Queue, error: BaseException | None) -> bool:
    """Return whether an error in handling an event is a fault of the stage."""
    match error:
        case (
            None
            | errors.PolicyRefused()
            | errors.BudgetExhausted()
            | errors.Overloaded()
            | errors.Fenced()
            | errors.InvalidInput()
            | errors.NotFound()
        ):
            return False
        case errors.Unavailable():
            return stage not in OUTWARD
    return True


def stage_window() -> FailureWindow:
    """Return a window of one process's latest outcomes; when most failed, the ledger pauses and probes the stage."""
    return FailureWindow(WINDOW, LEAST_OUTCOMES, of="events")
