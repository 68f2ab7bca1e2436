"""The pool sizes that operators ask for, on their way from the ledger to the supervisor of this machine.

A supervisor forks its processes, so it holds no connection. The reconciler, which reads the ledger each second anyway,
writes the sizes to a file of the data directory when they change; the supervisor looks whether the file has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from sluice.contracts.event import QUEUES, Queue
from sluice.disk.durable import replace_file

LOOK_SECONDS = 1.0
"""Seconds between two looks into the ledger, at a table of eight rows at most."""
_FILE = "pools.json"


class PoolsFile:
    """The file, as the supervisor reads it. `asked` holds the sizes that operators asked for, by stage."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / _FILE
        self._seen: tuple[int, int] | None = None
        self.asked: Mapping[Queue, int] = {}

    def begin(self, asked: Mapping[Queue, int]) -> None:
        """Go out from these sizes, those of the ledger; the file of an earlier supervisor goes."""
        self._path.unlink(missing_ok=True)
        self.asked = asked

    def is_changed(self) -> bool:
        """Return whether other sizes are asked for than at the last look; `asked` then holds them."""
        try:
            found = self._path.stat()
            if (seen := (found.st_mtime_ns, found.st_ino)) == self._seen:
                return False
            told = json.loads(self._path.read_bytes())
            asked: dict[Queue, int] = {stage: int(told[stage]) for stage in QUEUES if stage in told}
        except (OSError, ValueError, TypeError):  # nothing was asked for since the start
            return False
        self._seen, before, self.asked = seen, self.asked, asked
        return asked != before


class PoolsWatch:
    """Writes the file when the ledger's sizes have changed."""

    def __init__(self, data_dir: Path, asked: Callable[[], Mapping[Queue, int]]) -> None:
        self._path, self._asked = data_dir / _FILE, asked
        self._written: Mapping[Queue, int] | None = None

    def look(self) -> None:
        """Read the ledger, and write what has changed."""
        asked = self._asked()
        if asked != self._written:
            replace_file(self._path, json.dumps(asked).encode())
            self._written = asked
