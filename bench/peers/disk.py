"""Syncing what an engine writes and leaves to the operating system."""

from __future__ import annotations

import os
from pathlib import Path


class Disk:
    """The files below a folder, and which of them were synced already. Files are taken to be written once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._synced: set[str] = set()

    def sync(self) -> None:
        """Sync every file that is new since the last call, and the directories that name them."""
        for place, _, names in os.walk(self._folder):
            new = [path for name in names if (path := os.path.join(place, name)) not in self._synced]
            for path in [*new, place] if new else []:
                _sync(path)
            self._synced.update(new)


def _sync(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:  # a temporary file, renamed meanwhile
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
