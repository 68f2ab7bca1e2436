"""A lock on a file (flock(2)), among the processes of one machine; the kernel releases it when its holder dies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

POLL_SECONDS = 0.05
"""Seconds between attempts on a lock that another process holds."""


@contextmanager
def lock_file(
    path: Path, refusal: Exception, *, timeout_seconds: float = 0.0, poll_seconds: float = POLL_SECONDS
) -> Iterator[None]:
    """Hold the lock of the file `path` for the block. The file stays behind; its folder must exist.

    The file is opened anew for each block, so a forked process holds no lock of its parent's. The lock does not hold
    over NFS.

    Raises:
        refusal: another process held it for all of `timeout_seconds`.
        OSError: the file cannot be opened, or its file system knows no `flock`.
    """
    lock = FileLock(
        path, timeout=timeout_seconds, thread_local=False, poll_interval=poll_seconds, fallback_to_soft=False
    )
    try:
        lock.acquire()
    except Timeout as error:
        raise refusal from error
    try:
        yield
    finally:
        lock.release()
