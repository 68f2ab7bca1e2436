"""The moment by which something must be done, whatever it waits for on the way."""

from __future__ import annotations

import math
import threading
import time

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
