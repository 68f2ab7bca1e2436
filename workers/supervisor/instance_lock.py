"""One supervisor per data directory: a lock on a file (flock(2)), which ends with the process that holds it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from sluice.contracts.errors import Conflict


class InstanceLock:
    """The lock, whose descriptor a forked child must close: else it would hold the lock when the supervisor is gone."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take it.

        Raises:
            Conflict: another supervisor has it.
        """
        descriptor = os.open(self._data_dir / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise Conflict(f"another `sluice up` runs on {self._data_dir}") from error
        self._descriptor = descriptor

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What a forked child must close."""
        return () if self._descriptor is None else (self._descriptor,)

    def release(self) -> None:
        """Give it up."""
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = None
