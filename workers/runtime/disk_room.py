"""Measures the free room of the data directory's disk, below a bound of which nothing new is accepted."""

from __future__ import annotations

import shutil
from pathlib import Path

from sluice.contracts.errors import DiskFull

LEAST_FREE_BYTES = 64_000_000
"""What stays free for work that was accepted before: the ledger's log (16 MB), a published generation, the journal. It
is less than an instance needs to begin (`sluice doctor` fails below 200 MB)."""


class DiskRoom:
    """The room on the disk that holds `folder`. Each look is one system call (statvfs(3))."""

    def __init__(self, folder: Path, least_bytes: int = LEAST_FREE_BYTES) -> None:
        self._folder = folder
        self._least_bytes = least_bytes

    @property
    def free_bytes(self) -> int:
        """What this user may still write. Raises `OSError` where the folder cannot be asked."""
        return shutil.disk_usage(self._folder).free

    @property
    def is_short(self) -> bool:
        """Whether there is less than what is kept for work that was accepted before."""
        return self.free_bytes < self._least_bytes

    def require(self) -> None:
        """Refuse to accept more work on a disk that is short of room.

        Raises:
            DiskFull: it is.
        """
        free = self.free_bytes
        if free < self._least_bytes:
            raise DiskFull(self.told(free))

    def told(self, free: int) -> str:
        """What is wrong, in words; no path, as any caller may read it."""
        megabytes, least = free // 10**6, self._least_bytes // 10**6
        return f"the disk of the data directory has {megabytes} MB left and {least} MB are kept free"
