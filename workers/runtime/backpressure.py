"""Decides whether there is room for one more request; a request that would only wait in a full queue is refused.

A request is refused before anything of it is recorded or stored, and the refusal says when to come back.
Every stage that its work passes through is checked: otherwise a fast stage would accept more than the slow one
behind it can take. A request larger than a limit by itself is accepted when nothing waits; else it never would be.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sluice.contracts.errors import DiskFull, Overloaded
from sluice.contracts.event import Queue
from sluice.ledger.events.outbox import tenant_queue_of
from sluice.ledger.ledger import Ledger
from sluice.ledger.reader import Backlog
from sluice.ledger.runs import NewRun
from sluice.workers.settings import DeliverySettings

PATHS: Mapping[Queue, Sequence[Queue]] = {
    "query": ("query", "gate"),
    "crawl": ("crawl", "chunk", "embed", "index"),
    "chunk": ("chunk", "embed", "index"),
    "index": ("index",),
    "graph": ("graph",),
}
"""The stages that work passes through, by the stage that it enters."""
LOOK_SECONDS = 0.5
"""Seconds for which a count of waiting events is reused: at tens of thousands a count takes some milliseconds."""
SOONEST_SECONDS, LATEST_SECONDS = 1.0, 60.0
"""Bounds of the time after which a refused sender may come back."""


class Admission:
    """Admission control of one process. Counts waiting events now and then, adds those admitted since. Thread-safe."""

    def __init__(self, ledger: Ledger, limits: DeliverySettings, clock: Callable[[], float] = time.time) -> None:
        self._ledger, self._limits, self._clock = ledger, limits, clock
        self._guard = threading.RLock()
        self._looked_at = float("-inf")
        self._backlogs: Mapping[Queue, Backlog] = {}
        self._lanes: dict[tuple[Queue, int, str], int] = {}
        self._admitted: Counter[Queue | tuple[Queue, int, str]] = Counter()

    def admit(self, run: NewRun, entering: Mapping[Queue, int]) -> None:
        """Admit the run's first events; `entering` counts them by the stage that they enter.

        Raises:
            Overloaded: a stage is full, for everybody or for the run's lane; says when to come back.
        """
        with self._guard:
            self.require_room(run, entering)
            for entry, events in entering.items():
                self._admitted[entry] += events
                self._admitted[entry, run.priority, tenant_queue_of(run)] += events

    def require_room(self, run: NewRun, entering: Mapping[Queue, int]) -> None:
        """Check for room before the caller prepares the work; admit nothing. Raises `Overloaded` as `admit` does."""
        with self._guard:
            if self._clock() - self._looked_at > LOOK_SECONDS:
                self._backlogs, self._looked_at = self._ledger.backlogs(), self._clock()
                self._lanes.clear()
                self._admitted.clear()
            for entry, events in entering.items():
                for stage in PATHS[entry]:
                    self._require_room_in(stage, run, events)

    def _require_room_in(self, stage: Queue, run: NewRun, events: int) -> None:
        backlog = self._backlogs.get(stage, _NOTHING)
        ready = backlog.ready + self._admitted[stage]
        self._refuse_beyond("max_ready_events", stage, ready, events, backlog)
        lane = (stage, run.priority, tenant_queue_of(run))
        if lane not in self._lanes:
            self._lanes[lane] = min(backlog.ready, self._ledger.tenant_backlog(*lane))
        self._refuse_beyond(
            "max_ready_events_per_lane", stage, self._lanes[lane] + self._admitted[lane], events, backlog
        )

    def _refuse_beyond(self, setting: str, stage: Queue, waiting: int, events: int, backlog: Backlog) -> None:
        most: int = getattr(self._limits, setting)
        if not waiting or waiting + events <= most:
            return
        seconds = _seconds_until_room(waiting + events - most, backlog, self._clock())
        raise Overloaded(
            f"{waiting} events wait in stage {stage} and delivery.{setting} is {most}: come back in {seconds:.0f} s",
            seconds,
        )


_NOTHING = Backlog(ready=0, oldest=0.0)


def _seconds_until_room(excess: int, backlog: Backlog, now: float) -> float:
    """Estimate the seconds that the stage needs for `excess` events.

    By Little's law (1961) its rate is the number of waiting events divided by their wait, taken as that of the oldest.
    """
    if not backlog.ready:
        return SOONEST_SECONDS
    seconds_each = max(0.0, now - backlog.oldest) / backlog.ready
    return min(LATEST_SECONDS, max(SOONEST_SECONDS, excess * seconds_each))


LEAST_FREE_BYTES = 64_000_000
"""Bytes kept free for accepted work: the ledger's log (16 MB), a published generation, the journal. It
is less than an instance needs to begin (`sluice doctor` fails below 200 MB)."""


class DiskRoom:
    """The free space on the disk that holds `folder`. Each check is one system call (statvfs(3))."""

    def __init__(self, folder: Path, least_bytes: int = LEAST_FREE_BYTES) -> None:
        self._folder, self._least_bytes = folder, least_bytes

    @property
    def free_bytes(self) -> int:
        """Bytes that this user may still write. Raises `OSError` where the folder cannot be read."""
        return shutil.disk_usage(self._folder).free

    @property
    def is_short(self) -> bool:
        """Whether less is free than is kept for accepted work."""
        return self.free_bytes < self._least_bytes

    def require(self) -> None:
        """Raise `DiskFull` if the disk has less room than is kept for accepted work."""
        free = self.free_bytes
        if free < self._least_bytes:
            raise DiskFull(self.told(free))

    def told(self, free: int) -> str:
        """Describe the shortage without a path, as any caller may read it."""
        megabytes, least = free // 10**6, self._least_bytes // 10**6
        return f"the disk of the data directory has {megabytes} MB left and {least} MB are kept free"
