"""Tells when a worker has stalled: wake-ups lie in its queue, it has nothing in hand, and it takes none.

A paused stage is no stall: its wake-ups are taken and found to be of no use. Nor does a broker that is away, as
nothing is known of the queue then. Time that the process itself did not see pass does not count: a machine that was
suspended wakes up with its workers in order.
"""

from __future__ import annotations

import time
from collections.abc import Callable

LOOK_SECONDS = 1.0
"""Between two looks."""
_MOST_PER_LOOK = 2.0
"""What one look can add at most."""


class StallDetector:
    """How long a worker has taken nothing of what is in its queue."""

    def __init__(self, after_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._after_seconds = after_seconds
        self._clock = clock
        self._looked_at = clock()
        self._handled = 0
        self._seconds = 0.0

    def look(self, handled: int, in_hand: int, waits: Callable[[], int]) -> bool:
        """Whether it has stalled: wake-ups `handled` so far, events `in_hand`, and how many wait in the queue."""
        now = self._clock()
        passed, self._looked_at = min(now - self._looked_at, _MOST_PER_LOOK * LOOK_SECONDS), now
        hears = handled != self._handled or bool(in_hand) or not waits()
        self._handled = handled
        self._seconds = 0.0 if hears else self._seconds + passed
        return self._seconds >= self._after_seconds
