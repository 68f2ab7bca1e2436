"""A folder of files that can be fetched again: bounded by bytes and by age, shared by the processes of a machine.

Nothing is flushed: what a power cut tears, its reader notices by a hash and removes. What nobody used for an hour goes,
so that what was removed elsewhere does not stay here.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

MOST_BYTES = 1_000_000_000
"""Some thousand pages with their batches: what is under way between two stages of one machine."""
MOST_IDLE_SECONDS = 3_600.0
SWEEP_SECONDS = 300.0
_FULL_SHARE = 0.9
"""A full cache is emptied to this share, so that not every write sweeps."""


class FileCache:
    """Files below `folder`, by relative path. Safe for threads and processes. The time of a file's last change
    tells when it was noted as put, that of its last access when it was used."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self.folder, self._most_bytes = folder, most_bytes
        self._unswept_bytes, self._swept_at = 0, time.monotonic()

    def get(self, name: str) -> bytes | None:
        """Return a file's content, which counts as used; None without it."""
        path = self.folder / name
        with suppress(OSError):
            content = path.read_bytes()
            os.utime(path, (time.time(), path.stat().st_mtime))
            return content
        return None

    def put(self, name: str, content: bytes, *, put_at: float = 0.0) -> None:
        """Keep a file, whole or not at all. A disk that refuses is no error: it is fetched again."""
        path = self.folder / name
        temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident():x}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            temporary.write_bytes(content)
            os.utime(temporary, (time.time(), put_at))
            temporary.replace(path)
        except OSError:
            with suppress(OSError):
                temporary.unlink()
        self._unswept_bytes += len(content)
        self.sweep_if_due()

    def path(self, name: str, fetch: Callable[[Path], object]) -> Path:
        """Return the path of a file, which counts as used. One that is missing is written by `fetch` to a new file,
        whole or not at all; what `fetch` raises passes."""
        path = self.folder / name
        with suppress(FileNotFoundError):
            os.utime(path, (time.time(), path.stat().st_mtime))
            return path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident():x}.tmp")
        try:
            fetch(temporary)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        return path

    def put_at(self, name: str) -> float:
        """Return the time that was noted when the file was put; 0 without one."""
        with suppress(OSError):
            return (self.folder / name).stat().st_mtime
        return 0.0

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self.folder / name).unlink(missing_ok=True)

    def sweep_if_due(self) -> None:
        """Sweep once this process has written a tenth of the bound, or five minutes after it did so last."""
        if self._unswept_bytes > self._most_bytes / 10 or time.monotonic() - self._swept_at > SWEEP_SECONDS:
            self.sweep()

    def sweep(self) -> None:
        """Remove what was not used for an hour; of the rest, while it is too much, what was not used for longest."""
        self._unswept_bytes, self._swept_at = 0, time.monotonic()
        found, oldest = list[tuple[float, int, str]](), time.time() - MOST_IDLE_SECONDS
        for parent, _, names in os.walk(self.folder):
            for name in names:
                with suppress(OSError):  # another process removes too
                    facts = os.stat(path := os.path.join(parent, name))
                    found.append((facts.st_atime, facts.st_size, path))
        total = sum(size for _, size, _ in found)
        most = total if total <= self._most_bytes else self._most_bytes * _FULL_SHARE
        for used_at, size, path in sorted(found):
            if used_at >= oldest and total <= most:
                return
            with suppress(OSError):
                os.unlink(path)
            total -= size
