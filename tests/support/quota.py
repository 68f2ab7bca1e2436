"""A quota of one process, for searches without a broker."""

from __future__ import annotations

import threading
from datetime import date


class InMemoryQuota:
    """Counts in this process. Keeps one day only."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._day: date | None = None
        self._taken: dict[str, int] = {}

    def take(self, name: str, day: date, limit: int) -> bool:
        """As `BrokerQuota`."""
        with self._guard:
            if day != self._day:
                self._day, self._taken = day, {}
            if self._taken.get(name, 0) >= limit:
                return False
            self._taken[name] = self._taken.get(name, 0) + 1
            return True

    def give_back(self, name: str, day: date) -> None:
        """As `BrokerQuota`."""
        with self._guard:
            if day == self._day and self._taken.get(name, 0) > 0:
                self._taken[name] -= 1
