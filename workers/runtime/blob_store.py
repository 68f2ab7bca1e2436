"""Stores bodies too large for a message, once each, under the hash of their content (zstd files in two-level folders).
Several machines share those of `workers.runtime.shared_blobs`, which keep the same promises.

Promises: a `BlobRef` that `put` returned is on disk, whole, and survives a power cut; `get` returns exactly those bytes
or raises. Any number of threads and processes may put the same body at once. A body that is put again counts as new:
`remove_unused` never takes one that was put since the moment given, even when both happen at once.

`BlobCollector` removes unreferenced blobs, a bounded piece of work at a time. A cycle has two halves. *Mark*: read the
ledger's references. *Sweep*: walk over the blobs and remove those that are unmarked and were not put since a grace
period before the cycle began. Promises: a blob stays while an event, a parked or past dead letter or a known page
refers to it. An event is recorded within minutes of its blobs, and an event that takes over the reference of an earlier
one is recorded while that one exists: so nothing refers to a blob that is that old and unmarked, and nothing will refer
to it without putting it again. In an object store one machine collects at a time, by a lease in the ledger. The marks
are a Bloom filter (Bloom, 1970): 4 MB, which for two million references keeps one unreferenced blob in 500 until the
next cycle, and never loses a referenced one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import structlog
import zstandard

from sluice.contracts.base import BlobRef
from sluice.contracts.errors import Corrupted, NotFound
from sluice.disk.durable import make_folder, replace_file
from sluice.ledger.ledger import Ledger
from sluice.ledger.trust.blobs import Place

log = structlog.get_logger(__name__)

_LEVEL = 3
"""zstd's default: HTML shrinks to a quarter at hundreds of MB/s; higher levels cost more time than disk is worth."""


_SUFFIX = ".zst"


class KeptBlob(NamedTuple):
    """A blob on disk: its hash, its compressed size, and when it was last put."""

    sha256: str
    file_bytes: int
    put_at: float
    is_set_aside: bool = False
    """Whether it was found unused, and waits for its removal."""


class BlobStore:
    """Content-addressed files under `root`."""

    is_shared = False
    """Whether other machines put and remove here too."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, data: bytes) -> BlobRef:
        """Store `data` and return its reference."""
        ref = BlobRef(sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))
        path = self._path(ref.sha256)
        if not self._touch(path):
            make_folder(path.parent)
            replace_file(path, pack(data), 0o600)
        return ref

    def get(self, ref: BlobRef) -> bytes:
        """Return the bytes of a reference.

        Raises:
            NotFound: no such blob is stored here.
            Corrupted: the file does not have the size or the hash of `ref`.
        """
        return checked(self.packed(ref.sha256), ref)

    def packed(self, sha256: str) -> bytes:
        """Return a blob as it is stored, unchecked. Raises `NotFound` if no such blob is stored here."""
        try:
            return self._path(sha256).read_bytes()
        except FileNotFoundError as error:
            raise NotFound(f"no blob {sha256}") from error

    def packed_among(self, hashes: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Yield the blobs that are stored here among `hashes`, each with its hash, unchecked."""
        for sha256 in hashes:
            with suppress(NotFound):
                yield sha256, self.packed(sha256)

    def named(self, sha256: str) -> bytes:
        """Return the bytes whose hash is `sha256`, for a caller that does not know their size.

        Raises `NotFound` if no such blob is stored here, and `Corrupted` if the file does not have that hash.
        """
        size_bytes = zstandard.frame_content_size(self.packed(sha256))
        return self.get(BlobRef(sha256=sha256, size_bytes=max(0, size_bytes)))

    def has(self, sha256: str) -> bool:
        """Return whether a blob with that hash is stored here."""
        return self._path(sha256).is_file()

    def kept(self) -> Iterator[KeptBlob]:
        """Yield every blob, in the order of the file system."""
        for path in self._root.glob(f"*/*/*{_SUFFIX}"):
            with suppress(FileNotFoundError):
                facts = path.stat()
                yield KeptBlob(path.name.removesuffix(_SUFFIX), facts.st_size, facts.st_mtime)

    def remove_unused(self, sha256: str, since: float | None = None) -> bool:
        """Remove a blob that was not put since that moment (seconds since the epoch, of the store's clock), or however
        recently it was put; return whether it was removed."""
        path = self._path(sha256)
        with self._lock(fcntl.LOCK_EX):
            try:
                if since is not None and path.stat().st_mtime >= since:
                    return False
                path.unlink()
            except FileNotFoundError:
                return False
            return True

    def remove_each(self, blobs: Sequence[KeptBlob], since: float) -> Sequence[bool]:
        """Remove those that were not put since that moment; return for each whether it was removed."""
        return [self.remove_unused(one.sha256, since) for one in blobs]

    def put_back(self, sha256: str) -> None:
        """Keep a blob that was set aside: something refers to it."""

    def now(self) -> float | None:
        """Return the time by the clock that `put_at` is of; None where that is this machine's."""
        return None

    def _touch(self, path: Path) -> bool:
        """Mark an existing blob as put now; return whether it exists."""
        try:
            with self._lock(fcntl.LOCK_SH):
                os.utime(path)
        except FileNotFoundError:
            return False
        return True

    @contextmanager
    def _lock(self, kind: int) -> Iterator[None]:
        """Lock puts against removals. Raises `FileNotFoundError` while nothing was ever put."""
        descriptor = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, kind)
            yield
        finally:
            os.close(descriptor)

    def _path(self, sha256: str) -> Path:
        return self._root / blob_path(sha256)


def blob_path(sha256: str) -> str:
    """Return the path of a blob below the folder of all, in the local form and in backups."""
    return f"{sha256[:2]}/{sha256[2:4]}/{sha256}{_SUFFIX}"


def pack(data: bytes) -> bytes:
    """Return a body as it is stored."""
    return zstandard.ZstdCompressor(level=_LEVEL).compress(data)


def checked(packed: bytes, ref: BlobRef) -> bytes:
    """Return the body of a stored blob. Raises `Corrupted` if it does not have the size or the hash of `ref`."""
    data = _unpack(packed, ref)
    if hashlib.sha256(data).hexdigest() != ref.sha256:
        raise Corrupted(f"blob {ref.sha256} does not match its hash")
    return data


def _unpack(packed: bytes, ref: BlobRef) -> bytes:
    try:
        if zstandard.frame_content_size(packed) != ref.size_bytes:  # checked first: so many bytes get allocated
            raise Corrupted(f"blob {ref.sha256} does not have its {ref.size_bytes} bytes")
        return zstandard.ZstdDecompressor().decompress(packed)
    except zstandard.ZstdError as error:
        raise Corrupted(f"blob {ref.sha256} cannot be unpacked: {error}") from error


_BETWEEN = "."
"""Separates the ids of run and event: neither contains it."""


class TransientPages:
    """Raw pages whose site forbids keeping a copy: under `root`, only for as long as one hop needs them.

    1. The crawl stores the body in a folder of its own, named for the run and the crawl's event: nobody else's page is
       in it, even an equal one, so removing the folder removes nobody else's.
    2. The chunk worker reads it from there, as often as the event is delivered.
    3. Once the ledger has settled that event it cannot be delivered again; only then does the
       reconciler's next look remove the folder.

    A page whose reading ended as a dead letter stays while the letter is parked, as a replay needs the body. Bodies
    that a crash leaves behind belong to no open event, and are removed by the same rule.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def of_crawl(self, run_id: str, crawl_id: str) -> BlobStore:
        """Return the store of the page that the run's event `crawl_id` has fetched."""
        return BlobStore(self._root / self.name_of(run_id, crawl_id))

    @staticmethod
    def name_of(run_id: str, crawl_id: str) -> str:
        """Return the name of the folder of a crawl's page."""
        return f"{run_id}{_BETWEEN}{crawl_id}"

    def remove_read(self, ledger: Ledger) -> int:
        """Remove bodies that nobody will read; count their crawls. Raises `Unavailable` if the ledger is away."""
        by_run: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for name in self._names():
            run_id, _, crawl_id = name.partition(_BETWEEN)
            by_run[run_id][crawl_id] = name
        removed = 0
        for run_id, names in by_run.items():
            for crawl_id in names.keys() - ledger.unread_crawls(run_id):
                self._remove(names[crawl_id])
                removed += 1
        return removed

    def _names(self) -> Sequence[str]:
        return os.listdir(self._root) if self._root.is_dir() else ()

    def _remove(self, name: str) -> None:
        shutil.rmtree(self._root / name, ignore_errors=True)  # another process may be removing it


GRACE_SECONDS = 86_400.0
"""Age up to which an unreferenced blob is kept: `sluice ingest` may read a large folder for hours before its run is
recorded, and all of its batches are blobs by then."""
CYCLE_SECONDS = 6 * 3_600.0
"""Seconds between the beginnings of two cycles."""
ROWS_PER_TICK = 500
"""Rows of the ledger read at a time: some ten milliseconds."""
BLOBS_PER_TICK = 2_000
"""Blobs examined at a time: some ten milliseconds."""
LEASE_SECONDS = 900.0
"""Longest that one step of a collection in an object store may take, with every request tried again."""
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
    """The cycles of one process, one `tick` after the other. Two processes may collect the files of one machine at once
    without harm; an object store is collected by the process that holds the lease."""

    def __init__(self, blobs: BlobStore, ledger: Ledger, clock: Callable[[], float] = time.time) -> None:
        self._blobs, self._ledger, self._clock = blobs, ledger, clock
        self._holder = secrets.token_hex(8)
        self._next_cycle_at = 0.0
        self._cycle: Iterator[Collection] | None = None

    @property
    def is_collecting(self) -> bool:
        """Whether a cycle is under way."""
        return self._cycle is not None

    def tick(self) -> None:
        """Go on with the cycle, or begin one when it is time; rest while a backup is being taken.

        Raises:
            Unavailable: the ledger does not answer; the cycle begins again.
            OSError: a blob cannot be removed.
        """
        if self._cycle is None and self._clock() < self._next_cycle_at:
            return
        if self._ledger.is_backed_up_now():
            return
        if not self._leases(LEASE_SECONDS):
            self._cycle = None
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
            self._leases(CYCLE_SECONDS)

    def measure(self) -> Collection:
        """Return what a cycle would find now. Reads all of the ledger and the blobs, and removes nothing."""
        *_, found = self._steps(remove=False)
        return found

    def _leases(self, seconds: float) -> bool:
        return not self._blobs.is_shared or self._ledger.lease("blobs", self._holder, seconds)

    def _steps(self, *, remove: bool) -> Iterator[Collection]:
        """Run the cycle, one bounded step per iteration; yield the totals so far."""
        found, marks, now = Collection(), Marks(), self._blobs.now()
        before = (self._clock() if now is None else now) - GRACE_SECONDS
        place: Place | None = Place()
        while place is not None:
            hashes, place = self._ledger.blob_references(place, ROWS_PER_TICK)
            for sha256 in hashes:
                marks.add(sha256)
            yield found
        kept = self._blobs.kept()
        while some := list(islice(kept, BLOBS_PER_TICK)):
            self._judge(some, marks, before, found, remove=remove)
            yield found
        if remove and found.collectable:
            log.info("blobs_collected", blobs=found.collectable, file_bytes=found.collectable_bytes)

    def _judge(
        self, blobs: Sequence[KeptBlob], marks: Marks, before: float, found: Collection, *, remove: bool
    ) -> None:
        old = list[KeptBlob]()
        for blob in blobs:
            if blob.sha256 in marks:
                found.referenced += 1
                found.referenced_bytes += blob.file_bytes
                if remove and blob.is_set_aside:
                    self._blobs.put_back(blob.sha256)
            elif blob.put_at < before:
                old.append(blob)
            else:
                found.young += 1
                found.young_bytes += blob.file_bytes
        removed = self._blobs.remove_each(old, before) if remove else [True] * len(old)
        for blob, is_gone in zip(old, removed, strict=True):
            found.collectable += is_gone
            found.collectable_bytes += is_gone * blob.file_bytes
            found.young += not is_gone
            found.young_bytes += (not is_gone) * blob.file_bytes
