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
    """So many seconds from now; by default there is no end to them."""

    def __init__(self, seconds: float = math.inf) -> None:
        self.seconds = seconds
        self._ends_at = time.monotonic() + seconds

    @property
    def has_passed(self) -> bool:
        """Whether nothing is left."""
        return time.monotonic() >= self._ends_at

    def left_seconds(self, most: float = threading.TIMEOUT_MAX) -> float:
        """How long may still be waited, at most `most` seconds.

        Raises:
            TimedOut: it has passed.
        """
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise TimedOut(f"not done within {self.seconds:g} s, with everything that was waited for")
        return min(left, most)


CancelCheck = Callable[[], None]
"""Returns while the calling thread's work may go on; raises once it may not."""

LOOK_SECONDS = 0.25


def never_cancelled() -> None:
    """The check of work that cannot be cancelled."""
