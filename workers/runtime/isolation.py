"""Rules of which events may run beside others, and when a stage rests.

Suspects work alone in a process, everything else together: an event on which a worker died may kill this one too. If it
ran beside others they would die with it, be suspects themselves, and share its fate the next time. So it waits until
the process has nothing else in hand, and while it runs nothing else begins.

A stage rests and probes when most of its work fails: its circuit breaker. What counts is failure that says something
about the stage itself: a bug, a part that is away, a blob that is damaged. What the outside world or a request did
wrong does not: a dead site must not stop the crawling of others, hosts and providers have breakers of their own, and a
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
    """A lock that many may share and one may have alone. Whoever wants to be alone goes before new sharers."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._sharing = 0
        self._alone = False
        self._want_alone = 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Work beside others."""
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
        """Work while nobody else does."""
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
"""Outcomes that are looked back at."""
LEAST_OUTCOMES = 20
"""Outcomes before which nothing is concluded."""
OUTWARD: frozenset[Queue] = frozenset({"search", "crawl"})
"""Stages in which a part that does not answer is somebody else's."""


def counts_as_failure(stage: Queue, error: BaseException | None) -> bool:
    """Whether what ended the handling of an event says that something is wrong with the stage."""
    match error:
        case None | PolicyRefused() | BudgetExhausted() | Overloaded() | Fenced() | InvalidInput() | NotFound():
            return False
        case Unavailable():
            return stage not in OUTWARD
    return True


def stage_window() -> FailureWindow:
    """The last outcomes of one process's stage; where most of them failed the ledger pauses the stage and probes it."""
    return FailureWindow(WINDOW, LEAST_OUTCOMES, of="events")
