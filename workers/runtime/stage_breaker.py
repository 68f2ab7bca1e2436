"""The circuit breaker of a stage: when most of its work fails, the stage rests and probes.

What counts is failure that says something about the stage itself: a bug, a part that is away, a blob that is damaged.
What the outside world or a request did wrong does not: a dead site must not stop the crawling of others, hosts and
providers have breakers of their own, and a refusal is an answer.
"""

from __future__ import annotations

import threading
from collections import deque

from contracts.errors import (
    BudgetExhausted,
    Fenced,
    InvalidInput,
    NotFound,
    Overloaded,
    PolicyRefused,
    SluiceError,
    Unavailable,
)
from contracts.event import Queue

WINDOW = 100
"""Outcomes that are looked back at."""
MOST_FAILING = 0.5
LEAST_OUTCOMES = 20
"""Outcomes before which nothing is concluded."""
OUTWARD: frozenset[Queue] = frozenset({"search", "crawl"})
"""Stages in which a part that does not answer is somebody else's."""


def speaks_against(stage: Queue, error: BaseException | None) -> bool:
    """Whether what ended the handling of an event says that something is wrong with the stage."""
    match error:
        case None | PolicyRefused() | BudgetExhausted() | Overloaded() | Fenced() | InvalidInput() | NotFound():
            return False
        case Unavailable():
            return stage not in OUTWARD
        case SluiceError():
            return True
    return True


class StageBreaker:
    """The last outcomes of one process's stage. Safe across threads."""

    def __init__(self) -> None:
        self._failed: deque[bool] = deque(maxlen=WINDOW)
        self._lock = threading.Lock()

    def record(self, *, failed: bool) -> str | None:
        """Note an outcome; why the stage should rest, when that is so. The count then begins anew."""
        with self._lock:
            self._failed.append(failed)
            failures, outcomes = sum(self._failed), len(self._failed)
            if outcomes < LEAST_OUTCOMES or failures <= MOST_FAILING * outcomes:
                return None
            self._failed.clear()
        return f"{failures} of the last {outcomes} events failed"
