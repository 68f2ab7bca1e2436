"""Lets writers of one SQLite file take turns, and syncs their commits to the disk.

Used by `ledger.database`, whose docstring explains why SQLite's own waiting and syncing are not used.
"""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path
from types import TracebackType

from sluice.contracts.errors import Unavailable

BUSY_TIMEOUT_SECONDS = 30.0
"""Time that SQLite waits for a lock: longer than any checkpoint, shorter than a patient caller waits."""
_LOOKS = 200
"""Times that a writer polls for its turn before it sleeps: a transaction is shorter than a wake-up."""


class Turn:
    """A queue of writers across threads and processes, by a record lock on a file beside the database.

    It only decides who goes next; SQLite's own lock still decides who may write. The kernel releases the lock
    when its holder dies, and a child does not inherit it by fork. A thread waits no longer for the other threads of
    its process than SQLite would: behind a database that stays locked, a queue must not grow.
    """

    def __init__(self, path: Path) -> None:
        self._thread_turn = threading.Lock()
        self._descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)

    def __enter__(self) -> None:
        if not self._thread_turn.acquire(timeout=BUSY_TIMEOUT_SECONDS):
            raise Unavailable("the ledger's database does not answer: too many wait to write to it")
        try:
            if not any(self._is_free() for _ in range(_LOOKS)):
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
        except BaseException:
            self._thread_turn.release()
            raise

    def _is_free(self) -> bool:
        """Take the turn if it is free; else yield the processor to another thread."""
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.sched_yield()
            return False
        return True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN)
        self._thread_turn.release()

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class WalSync:
    """Syncs the write-ahead log of one connection that has written to it.

    While the connection is open the log stays the same file: SQLite removes it with the last connection. A checkpoint
    in between syncs the log first, and then the pages that it moves.
    """

    def __init__(self, database: Path) -> None:
        self._descriptor = os.open(f"{database.resolve()}-wal", os.O_RDONLY | os.O_CLOEXEC)

    def sync(self) -> None:
        """Wait until everything written so far is on disk."""
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)
