"""Rules on which events may run beside others, and when a stage is paused.

Suspects run alone in a process, everything else together: an event on which a worker died may kill this one too. Events
that ran beside it would die with it, become suspects, and share its fate the next time. So it waits until
the process handles nothing else, and while it runs nothing else begins.

A circuit breaker pauses and probes a stage when most of its work fails. A failure counts if it is a fault of
the stage itself: a bug, a component that is away, a damaged blob. Faults of the outside world or of a request
do not count: a dead site must not stop the crawling of others, hosts and providers have breakers of their own, and a
refusal is an answer.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sluice.contracts.errors import (
    BudgetExhausted,
    Fenced,
    InvalidInput,
    NotFound,
    Overloaded,
    PolicyRefused,
    Unavailable,
)
from sluice.contracts.event import Queue
from sluice.ingest.circuit_breaker import FailureWindow


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
        case None | PolicyRefused() | BudgetExhausted() | Overloaded() | Fenced() | InvalidInput() | NotFound():
            return False
        case Unavailable():
            return stage not in OUTWARD
    return True


def stage_window() -> FailureWindow:
    """Return a window of one process's latest outcomes; when most failed, the ledger pauses and probes the stage."""
    return FailureWindow(WINDOW, LEAST_OUTCOMES, of="events")
