"""Blobs that several machines share: objects `blobs/<ab>/<sha256>.zst` of the store, and a cache of each machine.

A body is put in one request, which fails where it is there; then it is written again, so that it counts as new, unless
this machine wrote it within a quarter of the grace period. It is cached on the way, so that the next step on the same
machine reads it there.

What the collector finds unused it copies to `blobs/set-aside/` before it removes it, as no store removes an object only
if nobody wrote it since: a body that was put between the look and the removal is still read from there. It stays for
another grace period; by then what was recorded of it is in the ledger, and it is put back. All ages are the store's.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from sluice.contracts.base import BlobRef
from sluice.contracts.errors import Corrupted, NotFound
from sluice.disk.cache import FileCache
from sluice.text.batches import in_batches
from sluice.workers.runtime.blob_store import GRACE_SECONDS, BlobStore, KeptBlob, TransientPages, checked, pack

if TYPE_CHECKING:
    from sluice.disk.object_store import ObjectStore

log = structlog.get_logger(__name__)

BLOBS, UNARCHIVED = "blobs", "unarchived"
_ASIDE = "set-aside"
_RENEWED_SECONDS = GRACE_SECONDS / 4


class SharedBlobs(BlobStore):
    """Content-addressed objects below a prefix of the store. Without a `cache` no copy is kept here."""

    is_shared = True

    def __init__(self, store: ObjectStore, prefix: str = BLOBS, cache: FileCache | None = None) -> None:
        self._store, self._prefix, self._cache = store, prefix, cache

    def put(self, data: bytes) -> BlobRef:
        """Store `data` and return its reference. Raises `StoreDown` if the store does not answer."""
        ref = BlobRef(sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))
        packed, name, now = pack(data), _name(ref.sha256), time.time()
        if not self._store.create(self.path_of(ref.sha256), packed):
            put_at = self._cache.put_at(name) if self._cache else 0.0
            if 0 <= now - put_at < _RENEWED_SECONDS:
                return ref
            self._store.write(self.path_of(ref.sha256), packed)
        if self._cache:
            self._cache.put(name, packed, put_at=now)
        return ref

    def get(self, ref: BlobRef) -> bytes:
        """Return the bytes of a reference: from the cache, or from the store, and then to the cache. Raises as
        `BlobStore.get`; a damaged file of the cache is replaced."""
        name = _name(ref.sha256)
        if self._cache and (cached := self._cache.get(name)) is not None:
            try:
                return checked(cached, ref)
            except Corrupted as error:
                log.warning("cached_blob_damaged", error=str(error))
                self._cache.remove(name)
        packed = self.packed(ref.sha256)
        data = checked(packed, ref)
        if self._cache:
            self._cache.put(name, packed)
        return data

    def packed(self, sha256: str) -> bytes:
        """Return a blob as it is stored, unchecked. Raises `NotFound` if no such blob is stored here."""
        for path in (self.path_of(sha256), self._aside(sha256)):
            with suppress(NotFound):
                return self._store.read(path)
        raise NotFound(f"no blob {sha256}")

    def packed_among(self, hashes: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Implement `BlobStore.packed_among`, several requests at a time; a blob that went meanwhile is left out."""
        kept = {one.sha256 for one in self.kept()}
        for some in in_batches((one for one in hashes if one in kept), lambda _: 1, most_items=64, most_size=64):
            for one, packed in zip(some, self._store.each(self._or_none, some), strict=True):
                if packed is not None:
                    yield one, packed

    def _or_none(self, sha256: str) -> bytes | None:
        with suppress(NotFound):
            return self.packed(sha256)
        return None

    def has(self, sha256: str) -> bool:
        """Return whether the store has a blob with that hash, be it set aside."""
        for path in (self.path_of(sha256), self._aside(sha256)):
            with suppress(NotFound):
                self._store.look(path)
                return True
        return False

    def kept(self) -> Iterator[KeptBlob]:
        """Yield every blob of the store; one that was set aside and put again twice."""
        for one in self._store.listed(self._prefix):
            _, folder, name = one.path.rsplit("/", 2)
            yield KeptBlob(name.partition(".")[0], one.size_bytes, one.written_at, folder == _ASIDE)

    def remove_unused(self, sha256: str, since: float | None = None) -> bool:
        """Implement `BlobStore.remove_unused`; with `since` it is set aside first. Caches of other machines drop it
        within the hour."""
        path, aside = self.path_of(sha256), self._aside(sha256)
        if self._cache:
            self._cache.remove(_name(sha256))
        if since is None:
            was_there = self.has(sha256)
            self._store.delete([path, aside])
            return was_there
        with suppress(NotFound):
            if self._store.look(path).written_at < since:
                self._store.write(aside, self._store.read(path))
                self._store.delete([path])
                return True
        return False

    def remove_each(self, blobs: Sequence[KeptBlob], since: float) -> Sequence[bool]:
        """Set aside, or remove for good, those that were not written since; return for each whether it was."""
        return self._store.each(lambda one: self._remove(one, since), blobs)

    def put_back(self, sha256: str) -> None:
        """Put a blob that was set aside in its place, and remove the copy."""
        with suppress(NotFound):
            self._store.create(self.path_of(sha256), self._store.read(self._aside(sha256)))
        self._store.delete([self._aside(sha256)])

    def now(self) -> float:
        """Return the store's time."""
        return self._store.now()

    def _remove(self, blob: KeptBlob, since: float) -> bool:
        if not blob.is_set_aside:
            return self.remove_unused(blob.sha256, since)
        with suppress(NotFound):
            if self._store.look(self._aside(blob.sha256)).written_at < since:  # not set aside again meanwhile
                self._store.delete([self._aside(blob.sha256)])
                return True
        return False

    def path_of(self, sha256: str) -> str:
        """Return the path of a blob's object."""
        return f"{self._prefix}/{_name(sha256)}"

    def _aside(self, sha256: str) -> str:
        return f"{self._prefix}/{_ASIDE}/{sha256}.zst"


class SharedPages(TransientPages):
    """The pages of which no copy may be kept, below `unarchived/` of the store, and never in a cache: the worker that
    reads one may be on another machine than the one that crawled it."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def of_crawl(self, run_id: str, crawl_id: str) -> BlobStore:
        """Return the store of the page that the run's event `crawl_id` has fetched."""
        return SharedBlobs(self._store, f"{UNARCHIVED}/{self.name_of(run_id, crawl_id)}")

    def _names(self) -> Sequence[str]:
        return self._store.folders(UNARCHIVED)

    def _remove(self, name: str) -> None:
        self._store.delete([one.path for one in self._store.listed(f"{UNARCHIVED}/{name}")])


def open_blobs(data_dir: Path, store: ObjectStore | None, cache: FileCache | None = None) -> BlobStore:
    """Return the blobs of an instance: in the store that its machines share, or in its data directory."""
    return BlobStore(data_dir / "blobs") if store is None else SharedBlobs(store, BLOBS, cache)


def _name(sha256: str) -> str:
    return f"{sha256[:2]}/{sha256}.zst"
