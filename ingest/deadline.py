"""Deadlines that work checks on its way, with cancellation.

A run may be cancelled, or its event claimed by another worker, while a site is slow. Long work is therefore handed a
`CancelCheck` and calls it before each step and, while it waits, every `LOOK_SECONDS`.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from sluice.contracts.errors import TimedOut


class Deadline:
    """A point in time `seconds` from now; by default there is none."""

    def __init__(self, seconds: float = math.inf) -> None:
        self.seconds = seconds
        self._ends_at = time.monotonic() + seconds

    @property
    def has_passed(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._ends_at

    def left_seconds(self, most: float = threading.TIMEOUT_MAX) -> float:
        """Return how many seconds are left, at most `most`. Raises TimedOut once the deadline has passed."""
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise TimedOut(f"not done within {self.seconds:g} s, with everything that was waited for")
        return min(left, most)


CancelCheck = Callable[[], None]
"""Returns while the calling thread may go on with its work; raises once it may not."""

LOOK_SECONDS = 0.25


def never_cancelled() -> None:
    """Do nothing: the check of work that cannot be cancelled."""
