"""A cache of vectors by (model fingerprint, SHA-256 of the text), in one SQLite file that processes share.

Embedding is nearly all that ingestion costs, and most texts of a refetched page were seen before.
The cache is disposable: an unreadable file is replaced by a new one, a file that is busy or on a full
disk counts as empty, and a vector whose checksum is wrong counts as absent. It never fails an
embedding and never returns a vector that was not stored.

It holds a bounded number of vectors and drops the ones written longest ago. Reading writes nothing,
so that a query never waits for an ingestion.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from filelock import FileLock

from sluice.contracts.document import sha256_text
from sluice.ingest.embed.port import Embedded, Embedder, InFront, Vectors

Result = TypeVar("Result")
Row = tuple[bytes, int, bytes]
"""Key, checksum (CRC-32), and the vector as little-endian float32."""

BUSY_TIMEOUT_SECONDS = 2.0
"""Longest wait for another writer; embedding anew is cheaper than waiting longer."""
KEYS_PER_SELECT = 500
"""Below the 999 parameters that every SQLite allows."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS vectors (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    key BLOB NOT NULL UNIQUE,
    checksum INTEGER NOT NULL,
    vector BLOB NOT NULL
)
"""

_log = logging.getLogger(__name__)


class EmbeddingCache:
    """The cache file. Opened at first use, which must come after a fork; threads and processes may share it."""

    def __init__(self, path: Path, max_entries: int) -> None:
        self.hits = 0
        self.misses = 0
        self._path = path
        self._max_entries = max_entries
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def get_many(self, fingerprint: str, text_hashes: Iterable[str]) -> dict[str, Vectors]:
        """Return the cached vectors by text hash; each of shape (dimension,)."""
        by_key = {_key(fingerprint, text_hash): text_hash for text_hash in text_hashes}
        nothing: list[Row] = []
        rows = self._guarded(lambda connection: _select(connection, list(by_key)), nothing)
        found = {
            by_key[key]: np.frombuffer(vector, dtype="<f4").astype(np.float32)
            for key, checksum, vector in rows
            if zlib.crc32(vector) == checksum
        }
        self.hits += len(found)
        self.misses += len(by_key) - len(found)
        return found

    def put_many(self, fingerprint: str, vectors: Mapping[str, Vectors]) -> None:
        """Store each text hash's vector, and drop the oldest beyond the bound."""
        rows = [_row(_key(fingerprint, text_hash), vector) for text_hash, vector in vectors.items()]
        self._guarded(lambda connection: _insert(connection, rows, self._max_entries), None)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _guarded(self, work: Callable[[sqlite3.Connection], Result], otherwise: Result) -> Result:
        """Run `work` on the file; retry once on a new file if it is corrupt; return `otherwise` on failure."""
        with self._lock:
            try:
                return work(self._open())
            except sqlite3.OperationalError as error:  # busy, disk full, not writable: the file itself is sound
                _log.warning("embedding cache skipped: %s", error)
                return otherwise
            except sqlite3.DatabaseError as error:
                _log.warning("embedding cache begun anew: %s", error)
            try:
                self._begin_anew()
                return work(self._open())
            except (sqlite3.DatabaseError, OSError) as error:
                _log.warning("embedding cache skipped: %s", error)
                return otherwise

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = _connect(self._path)
        return self._connection

    def _begin_anew(self) -> None:
        """Remove the broken file, unless another process has already replaced it with a sound one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        with FileLock(f"{self._path}.lock"):
            if not _is_sound(self._path):
                for suffix in ("", "-wal", "-shm"):
                    Path(f"{self._path}{suffix}").unlink(missing_ok=True)


class CachedEmbedder(InFront):
    """An embedder that computes each text once: repeated texts of a batch, and cached texts, are free."""

    def __init__(self, embedder: Embedder, cache: EmbeddingCache) -> None:
        super().__init__(embedder)
        self.cache = cache

    def embed(self, texts: Sequence[str], required_fingerprint: str | None = None) -> Embedded:
        """Embed as `Embedder.embed`; `cache_hits` counts the texts that were not computed now."""
        fingerprint = required_fingerprint or self.fingerprint
        hashes = [sha256_text(text) for text in texts]
        known = self.cache.get_many(fingerprint, dict.fromkeys(hashes))
        missing = {text_hash: text for text_hash, text in zip(hashes, texts, strict=True) if text_hash not in known}
        hits = len(texts) - len(missing)
        if hashes and not missing:
            return Embedded(_stack(known, hashes), fingerprint, cache_hits=hits)
        computed = self._embedder.embed(list(missing.values()), required_fingerprint)
        if not hashes:
            return computed
        fresh = dict(zip(missing, computed.vectors, strict=True))
        self.cache.put_many(computed.fingerprint, fresh)
        return Embedded(
            _stack(known | fresh, hashes),
            computed.fingerprint,
            tokens=computed.tokens,
            cost_usd=computed.cost_usd,
            cache_hits=hits + computed.cache_hits,
        )


def _stack(vectors: Mapping[str, Vectors], hashes: Sequence[str]) -> Vectors:
    return np.stack([vectors[text_hash] for text_hash in hashes])


def _connect(path: Path) -> sqlite3.Connection:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise sqlite3.OperationalError(f"unable to make the folder {path.parent}") from error
    connection = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=16
    )
    try:
        # Vectors of 1.5 KB waste half of a page of 4 KB; ten fill one of 16 KB.
        connection.execute("PRAGMA page_size=16384")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(_SCHEMA)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _is_sound(path: Path) -> bool:
    try:
        connection = _connect(path)
    except sqlite3.DatabaseError:
        return False
    try:
        return bool(connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")
    except sqlite3.DatabaseError:
        return False
    finally:
        connection.close()


def _key(fingerprint: str, text_hash: str) -> bytes:
    return hashlib.sha256(f"{fingerprint}\n{text_hash}".encode()).digest()


def _row(key: bytes, vector: Vectors) -> Row:
    content = np.ascontiguousarray(vector, dtype="<f4").tobytes()
    return key, zlib.crc32(content), content


def _select(connection: sqlite3.Connection, keys: list[bytes]) -> list[Row]:
    rows: list[Row] = []
    for start in range(0, len(keys), KEYS_PER_SELECT):
        some = keys[start : start + KEYS_PER_SELECT]
        marks = ",".join("?" * len(some))
        rows += connection.execute(f"SELECT key, checksum, vector FROM vectors WHERE key IN ({marks})", some)  # noqa: S608
    return rows


def _insert(connection: sqlite3.Connection, rows: list[Row], max_entries: int) -> None:
    """Insert rows and drop old ones. Positions only grow, so the newest `max_entries` hold at most as many rows."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.executemany("INSERT OR REPLACE INTO vectors (key, checksum, vector) VALUES (?, ?, ?)", rows)
        connection.execute(
            "DELETE FROM vectors WHERE position <= (SELECT max(position) FROM vectors) - ?", (max_entries,)
        )
        connection.execute("COMMIT")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
