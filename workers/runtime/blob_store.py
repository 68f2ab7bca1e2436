"""Bodies too large for a message, kept once under the hash of their content (zstd files in two-level folders).

Promises: a `BlobRef` that `put` returned is on disk, whole, and survives a power cut; `get` gives exactly those bytes
or raises. Any number of threads and processes may put the same body at once. A body that is put again counts as new:
`remove_unused` never takes one that was put since the moment given, however the two meet.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import zstandard

from sluice.contracts.base import BlobRef
from sluice.contracts.errors import Corrupted, NotFound
from sluice.disk.durable import make_folder, replace_file
from sluice.ledger.ledger import Ledger

_LEVEL = 3
"""zstd's default: HTML shrinks to a quarter at hundreds of MB/s; higher levels cost more time than disk is worth."""


_SUFFIX = ".zst"


class KeptBlob(NamedTuple):
    """A blob on disk: its name, what it takes there, compressed, and when it was last put."""

    sha256: str
    file_bytes: int
    put_at: float


class BlobStore:
    """Content-addressed files under `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, data: bytes) -> BlobRef:
        """Keep `data`; its claim check."""
        ref = BlobRef(sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))
        path = self._path(ref)
        if not self._touch(path):
            make_folder(path.parent)
            replace_file(path, zstandard.ZstdCompressor(level=_LEVEL).compress(data), 0o600)
        return ref

    def get(self, ref: BlobRef) -> bytes:
        """The bytes behind a claim check.

        Raises:
            NotFound: no such blob is kept here.
            Corrupted: what is on disk does not have the size or the hash of `ref`.
        """
        try:
            packed = self._path(ref).read_bytes()
        except FileNotFoundError as error:
            raise NotFound(f"no blob {ref.sha256}") from error
        data = _unpack(packed, ref)
        if hashlib.sha256(data).hexdigest() != ref.sha256:
            raise Corrupted(f"blob {ref.sha256} does not match its hash")
        return data

    def named(self, sha256: str) -> bytes:
        """The bytes whose hash is `sha256`, for a caller that knows no more of them.

        Raises:
            NotFound: no such blob is kept here.
            Corrupted: what is on disk does not have that hash.
        """
        path = self._path(BlobRef(sha256=sha256, size_bytes=0))
        if not path.is_file():
            raise NotFound(f"no blob {sha256}")
        size_bytes = zstandard.frame_content_size(path.read_bytes())
        return self.get(BlobRef(sha256=sha256, size_bytes=max(0, size_bytes)))

    def has(self, sha256: str) -> bool:
        """Whether a blob with that hash is kept here."""
        return self._path(BlobRef(sha256=sha256, size_bytes=0)).is_file()

    def kept(self) -> Iterator[KeptBlob]:
        """Every blob, as it is met on disk."""
        for path in self._root.glob(f"*/*/*{_SUFFIX}"):
            with suppress(FileNotFoundError):
                facts = path.stat()
                yield KeptBlob(path.name.removesuffix(_SUFFIX), facts.st_size, facts.st_mtime)

    def remove_unused(self, sha256: str, since: float) -> bool:
        """Remove a blob that was not put since that moment (seconds since the epoch); whether it was removed."""
        path = self._path(BlobRef(sha256=sha256, size_bytes=0))
        with self._lock(fcntl.LOCK_EX):
            try:
                if path.stat().st_mtime >= since:
                    return False
                path.unlink()
            except FileNotFoundError:
                return False
            return True

    def _touch(self, path: Path) -> bool:
        """Whether the blob is there already; then it counts as put now."""
        try:
            with self._lock(fcntl.LOCK_SH):
                os.utime(path)
        except FileNotFoundError:
            return False
        return True

    @contextmanager
    def _lock(self, kind: int) -> Iterator[None]:
        """Keeps putting and removing apart. Raises `FileNotFoundError` while nothing was ever put."""
        descriptor = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, kind)
            yield
        finally:
            os.close(descriptor)

    def _path(self, ref: BlobRef) -> Path:
        return self._root / ref.sha256[:2] / ref.sha256[2:4] / f"{ref.sha256}{_SUFFIX}"


def _unpack(packed: bytes, ref: BlobRef) -> bytes:
    try:
        if zstandard.frame_content_size(packed) != ref.size_bytes:  # checked first: it is what gets allocated
            raise Corrupted(f"blob {ref.sha256} does not have its {ref.size_bytes} bytes")
        return zstandard.ZstdDecompressor().decompress(packed)
    except zstandard.ZstdError as error:
        raise Corrupted(f"blob {ref.sha256} cannot be unpacked: {error}") from error


_BETWEEN = "."
"""Between the ids of run and event: neither has one."""


class TransientPages:
    """Raw pages whose site asks that no copy be kept: under `root` for as long as one hop needs them, and no longer.

    1. The crawl keeps the body in a folder of its own, named for the run and the crawl's event: nobody else's page is
       in it, however equal, so nobody else's is lost with it.
    2. The chunk worker reads it from there, as often as the event is delivered.
    3. Once that event is settled, in the ledger, no delivery of it can come any more; then, and not before, the
       reconciler's next look removes the folder.

    A page whose reading ended as a dead letter stays while the letter is parked, as replaying it takes the body. What a
    crash leaves behind belongs to no open event, and goes by the same rule.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def of_crawl(self, run_id: str, crawl_id: str) -> BlobStore:
        """Where the body of the page lies that the event `crawl_id` of the run has brought."""
        return BlobStore(self._root / f"{run_id}{_BETWEEN}{crawl_id}")

    def remove_read(self, ledger: Ledger) -> int:
        """Remove the bodies that nobody is going to read any more; how many crawls they were of.

        Raises:
            Unavailable: the ledger does not answer.
        """
        by_run: defaultdict[str, dict[str, Path]] = defaultdict(dict)
        for folder in self._root.iterdir() if self._root.is_dir() else ():
            run_id, _, crawl_id = folder.name.partition(_BETWEEN)
            by_run[run_id][crawl_id] = folder
        removed = 0
        for run_id, folders in by_run.items():
            for crawl_id in folders.keys() - ledger.unread_crawls(run_id):
                shutil.rmtree(folders[crawl_id], ignore_errors=True)  # another process may be at it
                removed += 1
        return removed
