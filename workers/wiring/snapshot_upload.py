"""Uploads published snapshots to the object store in the background.

A push that fails is logged and counted; the snapshot is published all the same, and the next push uploads what the
store lacks. Requests that arrive during a push of a corpus become a single one after it.
"""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

import structlog

from sluice.contracts.errors import SluiceError
from sluice.index.remote.object_store import ObjectStore, open_store
from sluice.index.remote.snapshots import prune, push
from sluice.index.settings import ObjectStoreSettings
from sluice.otel import metrics

log = structlog.get_logger(__name__)


class Shipper:
    """Pushes snapshots of one index root. Safe for threads; does nothing without a `url`."""

    def __init__(self, root: Path, url: str | None, settings: ObjectStoreSettings, keep_generations: int) -> None:
        self._root, self._url, self._settings = root, url, settings
        self._keep = keep_generations
        self._lock = threading.Lock()
        self._wanted: dict[str, str] = {}
        self._shipped: dict[str, str] = {}
        self._since_prune: Counter[str] = Counter()
        self._to_be_alone: set[str] = set()
        self._pool: ThreadPoolExecutor | None = None

    def ship(self, corpus: str, generation: str, *, alone: bool = False) -> None:
        """Queue the corpus's current generation for upload. Returns at once.

        `alone`: once it is there all others leave the store, with the files that only they have.
        """
        if self._url is None:
            return
        with self._lock:
            if alone:
                self._to_be_alone.add(corpus)
            if generation in (self._wanted.get(corpus), self._shipped.get(corpus)):
                return
            is_waiting = corpus in self._wanted
            self._wanted[corpus] = generation
            self._pool = self._pool or ThreadPoolExecutor(max_workers=1, thread_name_prefix="ship-snapshots")
            if not is_waiting:
                self._pool.submit(self._push, corpus)

    def wait(self) -> None:
        """Wait until every push that was requested so far was tried."""
        if self._pool is not None:
            self._pool.submit(lambda: None).result()

    def close(self) -> None:
        """Wait for the pushes that were begun, and end."""
        if self._pool is not None:
            self._pool.shutdown()

    @cached_property
    def _store(self) -> ObjectStore:
        return open_store(self._url or "", self._settings)

    def _push(self, corpus: str) -> None:
        with self._lock:
            generation = self._wanted.pop(corpus)
        try:
            moved = push(self._root, corpus, self._store)
            self._prune(corpus)
        except (SluiceError, OSError) as error:
            metrics.SNAPSHOT_PUSHES.labels("failed").inc()
            log.error("snapshot_push_failed", corpus=corpus, generation=generation, error=str(error))
            return
        self._shipped[corpus] = generation
        metrics.SNAPSHOT_PUSHES.labels("ok").inc()
        metrics.SNAPSHOT_PUSHED_BYTES.inc(moved.bytes_moved)
        log.info("snapshot_pushed", corpus=corpus, generation=moved.generation, bytes=moved.bytes_moved)

    def _prune(self, corpus: str) -> None:
        """Remove old generations now and then, so that the store holds at most twice as many as are kept."""
        if corpus in self._to_be_alone:
            prune(corpus, self._store, 1)
            self._to_be_alone.discard(corpus)
            return
        self._since_prune[corpus] += 1
        if self._since_prune[corpus] >= self._keep:
            self._since_prune[corpus] = 0
            prune(corpus, self._store, self._keep)
