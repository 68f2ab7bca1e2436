"""A discrete-event simulation: a clock with a heap of what comes next, processors, queues with servers, and a ledger.

Times are seconds. Nothing here knows Sluice: `pipeline.py` connects the parts.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Action = Callable[..., None]


class Clock:
    """What happens when. Actions of one moment happen in the order in which they were planned."""

    def __init__(self) -> None:
        self.now = 0.0
        self.handled = 0
        self._heap: list[tuple[float, int, Action, tuple[Any, ...]]] = []
        self._planned = 0

    def after(self, seconds: float, action: Action, *arguments: Any) -> None:
        """Plan `action(*arguments)`."""
        self._planned += 1
        heappush(self._heap, (self.now + seconds, self._planned, action, arguments))

    def run(self, until: float = math.inf) -> None:
        """Let time pass until nothing is planned any more, or until that moment."""
        while self._heap and self._heap[0][0] <= until:
            self.now, _, action, arguments = heappop(self._heap)
            self.handled += 1
            action(*arguments)
        if until < math.inf:
            self.now = until


class Processors:
    """Cores that all jobs share alike (processor sharing): each job gets at most one core.

    `gain` is what all cores together do, in cores that work alone: less than their number where they share memory.
    `taken` are cores that other programs use. With `cores` infinite every job has a core of its own.
    """

    def __init__(self, clock: Clock, cores: float = math.inf, gain: float | None = None, taken: float = 0.0) -> None:
        self._clock, self._cores, self._taken = clock, cores, taken
        self._gain = cores if gain is None else gain
        self._jobs: list[tuple[float, int, Action, tuple[Any, ...]]] = []
        self._done_each = 0.0
        self._at = 0.0
        self._version = 0
        self._count = 0
        self.used = 0.0

    def work(self, seconds: float, then: Action, *arguments: Any) -> None:
        """Call `then(*arguments)` once a job of so many processor seconds is done."""
        self.used += seconds
        if self._cores == math.inf or seconds <= 0:
            self._clock.after(seconds, then, *arguments)
            return
        self._advance()
        self._count += 1
        heappush(self._jobs, (self._done_each + seconds, self._count, then, arguments))
        self._plan()

    def take(self, cores: float) -> None:
        """Other programs use so many cores from now on."""
        self._advance()
        self._taken = min(cores, 0.95 * self._cores)
        self._plan()

    def _rate(self) -> float:
        """What each job gets of a core."""
        jobs = len(self._jobs)
        busy = min(jobs, self._cores)
        total = busy if busy <= 1 else 1 + (busy - 1) * (self._gain - 1) / (self._cores - 1)
        return min(1.0, min(total, self._gain * (1 - self._taken / self._cores)) / jobs)

    def _advance(self) -> None:
        if self._jobs:
            self._done_each += (self._clock.now - self._at) * self._rate()
        self._at = self._clock.now

    def _plan(self) -> None:
        self._version += 1
        if self._jobs:
            left = max(0.0, self._jobs[0][0] - self._done_each)
            self._clock.after(left / self._rate(), self._finish, self._version)

    def _finish(self, version: int) -> None:
        if version != self._version:
            return  # another job came or went since this was planned
        self._advance()
        _, _, then, arguments = heappop(self._jobs)
        self._plan()
        then(*arguments)


class Station:
    """A queue, first come first served, before some servers; it adds up what Little's law needs.

    `enter(start)` calls `start(leave)` when a server is free; `leave()` frees it.
    """

    def __init__(self, clock: Clock, servers: int) -> None:
        self._clock, self.servers = clock, servers
        self._free = servers
        self._queue: deque[tuple[float, Callable[[Action], None]]] = deque()
        self._inside = 0
        self._at = 0.0
        self.entered = self.left = 0
        self.waited_seconds = self.inside_seconds = self.sojourn_seconds = self.busy_seconds = 0.0

    def enter(self, start: Callable[[Action], None]) -> None:
        """Queue up."""
        self._count(1)
        self.entered += 1
        self._queue.append((self._clock.now, start))
        self._serve()

    @property
    def waiting(self) -> int:
        """How many wait for a server."""
        return len(self._queue)

    def mean_inside(self) -> float:
        """Mean number that wait or are served, over the time until now."""
        self._count(0)
        return self.inside_seconds / self._clock.now

    def utilisation(self) -> float:
        """Share of the servers' time until now in which they served; of those who left."""
        return self.busy_seconds / (self.servers * self._clock.now)

    def _count(self, change: int) -> None:
        self.inside_seconds += self._inside * (self._clock.now - self._at)
        self._at = self._clock.now
        self._inside += change

    def _serve(self) -> None:
        while self._free and self._queue:
            self._free -= 1
            came, start = self._queue.popleft()
            self.waited_seconds += self._clock.now - came
            start(_Leave(self, came, self._clock.now))

    def _leave(self, came: float, began: float) -> None:
        self._count(-1)
        self.left += 1
        self.sojourn_seconds += self._clock.now - came
        self.busy_seconds += self._clock.now - began
        self._free += 1
        self._serve()


class _Leave:
    """Frees the server, once."""

    __slots__ = ("began", "came", "station")

    def __init__(self, station: Station, came: float, began: float) -> None:
        self.station, self.came, self.began = station, came, began

    def __call__(self) -> None:
        self.station._leave(self.came, self.began)  # noqa: SLF001


class Ledger:
    """A database that settles events one after the other, and slows down by what it has not cleaned up yet.

    Each settling leaves `dead_each` dead rows; cleaning (vacuum) removes `cleaned_per_second` at most. With D dead rows
    it settles `per_second / (1 + D / slowed_by)`; `other_per_second` of that goes to claims' signs of life.
    """

    def __init__(
        self,
        clock: Clock,
        per_second: float,
        *,
        dead_each: float = 0.0,
        cleaned_per_second: float = math.inf,
        slowed_by: float = math.inf,
        other_per_second: float = 0.0,
    ) -> None:
        self._clock, self._queue = clock, Station(clock, 1)
        self._per_second, self._dead_each, self._cleaned = per_second, dead_each, cleaned_per_second
        self._slowed_by, self._other = slowed_by, other_per_second
        self._dead, self._at = 0.0, 0.0
        self.settled = 0.0

    @property
    def station(self) -> Station:
        """Its queue."""
        return self._queue

    def rate(self) -> float:
        """Events that it settles a second at this moment."""
        since, self._at = self._clock.now - self._at, self._clock.now
        self._dead = max(0.0, self._dead - (self._cleaned * since if since else 0.0))
        return max(1.0, self._per_second / (1 + self._dead / self._slowed_by) - self._other)

    def settle(self, events: float, then: Action, *arguments: Any) -> None:
        """Call `then(*arguments)` once so many events are settled."""

        def start(leave: Action) -> None:
            self._clock.after(events / self.rate(), finish, leave)

        def finish(leave: Action) -> None:
            self.settled += events
            self._dead += events * self._dead_each
            leave()
            then(*arguments)

        self._queue.enter(start)
