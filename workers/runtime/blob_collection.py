"""Removes unreferenced blobs, a bounded piece of work at a time.

A cycle has two halves. *Mark*: read the ledger's references. *Sweep*: walk over the blobs and remove those that are
unmarked and were not put since a grace period before the cycle began. Promises: a blob stays while an event, a parked
or past dead letter or a known page refers to it. An event is recorded within minutes of its blobs, and an event that
takes over the reference of an earlier one is recorded while that one exists: so nothing refers to a blob that is that
old and unmarked, and nothing will refer to it without putting it again.

The marks are a Bloom filter (Bloom, 1970): 4 MB, which for two million references keeps one unreferenced blob in 500
until the next cycle, and never loses a referenced one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import structlog

from sluice.ledger.blob_references import Place
from sluice.ledger.ledger import Ledger
from sluice.workers.runtime.blob_store import BlobStore, KeptBlob

log = structlog.get_logger(__name__)

GRACE_SECONDS = 86_400.0
"""Age up to which an unreferenced blob is kept: `sluice ingest` may read a large folder for hours before its run is
recorded, and all of its batches are blobs by then."""
CYCLE_SECONDS = 6 * 3_600.0
"""Seconds between the beginnings of two cycles."""
ROWS_PER_TICK = 500
"""Rows of the ledger read at a time: some ten milliseconds."""
BLOBS_PER_TICK = 2_000
"""Blobs examined at a time: some ten milliseconds."""
_FILTER_BITS = 1 << 25


@dataclass(slots=True)
class Collection:
    """Totals of a cycle, in blobs and in bytes on disk."""

    referenced: int = 0
    referenced_bytes: int = 0
    young: int = 0
    """Unreferenced blobs within the grace period."""
    young_bytes: int = 0
    collectable: int = 0
    """Blobs that can be removed, or were."""
    collectable_bytes: int = 0


class Marks:
    """A set of SHA-256 hashes that may contain one that was not added, but never misses one that was."""

    def __init__(self) -> None:
        self._bits = bytearray(_FILTER_BITS // 8)

    def add(self, sha256: str) -> None:
        """Add a hash, given in hexadecimal."""
        for place in self._places(sha256):
            self._bits[place >> 3] |= 1 << (place & 7)

    def __contains__(self, sha256: str) -> bool:
        return all(self._bits[place >> 3] & (1 << (place & 7)) for place in self._places(sha256))

    @staticmethod
    def _places(sha256: str) -> tuple[int, ...]:
        """Return four numbers from the hash itself, which is as good as random."""
        return tuple(int(sha256[start : start + 8], 16) % _FILTER_BITS for start in (0, 8, 16, 24))


class BlobCollector:
    """The cycles of one process, one `tick` after the other. Two processes may collect at once without harm."""

    def __init__(self, blobs: BlobStore, ledger: Ledger, clock: Callable[[], float] = time.time) -> None:
        self._blobs = blobs
        self._ledger = ledger
        self._clock = clock
        self._next_cycle_at = 0.0
        self._cycle: Iterator[Collection] | None = None

    @property
    def is_collecting(self) -> bool:
        """Whether a cycle is under way."""
        return self._cycle is not None

    def tick(self) -> None:
        """Go on with the cycle, or begin one when it is time.

        Raises:
            Unavailable: the ledger does not answer; the cycle begins again.
            OSError: a blob cannot be removed.
        """
        if self._cycle is None and self._clock() < self._next_cycle_at:
            return
        if self._cycle is None:
            self._next_cycle_at = self._clock() + CYCLE_SECONDS
            self._cycle = self._steps(remove=True)
        try:
            found = next(self._cycle, None)
        except BaseException:
            self._cycle = None
            raise
        if found is None:
            self._cycle = None

    def measure(self) -> Collection:
        """Return what a cycle would find now. Reads all of the ledger and the blobs, and removes nothing."""
        *_, found = self._steps(remove=False)
        return found

    def _steps(self, *, remove: bool) -> Iterator[Collection]:
        """Run the cycle, one bounded step per iteration; yield the totals so far."""
        found, marks, before = Collection(), Marks(), self._clock() - GRACE_SECONDS
        place: Place | None = Place()
        while place is not None:
            hashes, place = self._ledger.blob_references(place, ROWS_PER_TICK)
            for sha256 in hashes:
                marks.add(sha256)
            yield found
        kept = self._blobs.kept()
        while some := list(islice(kept, BLOBS_PER_TICK)):
            for blob in some:
                self._judge(blob, marks, before, found, remove=remove)
            yield found
        if remove and found.collectable:
            log.info("blobs_collected", blobs=found.collectable, file_bytes=found.collectable_bytes)

    def _judge(self, blob: KeptBlob, marks: Marks, before: float, found: Collection, *, remove: bool) -> None:
        if blob.sha256 in marks:
            found.referenced += 1
            found.referenced_bytes += blob.file_bytes
        elif blob.put_at >= before or (remove and not self._blobs.remove_unused(blob.sha256, before)):
            found.young += 1
            found.young_bytes += blob.file_bytes
        else:
            found.collectable += 1
            found.collectable_bytes += blob.file_bytes
