"""The processes of a running instance, on disk: for commands, and for the supervisor that follows a killed one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sluice.workers.processes.procfs import ZOMBIE, facts_of

TABLE = "processes.json"
"""Process ids by name."""
_STARTED = "processes.started.json"
"""When each was started, in clock ticks since the machine was: it tells a process from a later one with its id."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class ProcessTable:
    """The table of one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self._table = data_dir / TABLE
        self._started = data_dir / _STARTED

    def write(self, processes: Mapping[str, int]) -> None:
        """Replace the table."""
        found = {pid: facts_of(pid) for pid in processes.values()}
        started = {str(pid): facts.started for pid, facts in found.items() if facts}
        _replace(self._started, {"boot": _boot_id(), "started": started})
        _replace(self._table, processes)

    def living(self) -> dict[str, int]:
        """Those processes of the table that still run: the same ones, not later ones with their ids."""
        processes, started = _read(self._table), _read(self._started)
        if started.get("boot") != _boot_id():
            return {}
        then = started.get("started", {})
        found = {name: facts_of(pid) for name, pid in processes.items()}
        living = {name: facts for name, facts in found.items() if facts and facts.state != ZOMBIE}
        return {name: facts.pid for name, facts in living.items() if facts.started == then.get(str(facts.pid))}

    def remove(self) -> None:
        """Forget all: none runs any more."""
        self._table.unlink(missing_ok=True)
        self._started.unlink(missing_ok=True)


def _replace(path: Path, content: object) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content, indent=1))
    partial.rename(path)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
