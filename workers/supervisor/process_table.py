"""The table of a running instance's processes, for commands and for the supervisor that follows a killed one."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sluice.workers.processes.kernel import facts_of

TABLE = "processes.json"
"""File of process ids by name."""
_STARTED = "processes.started.json"
"""File of their start times, in clock ticks since boot: tells a process from a later one with the same id."""
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
        own = facts_of(os.getpid())
        supervisor = [own.pid, own.started] if own else None
        _replace_table(self._started, {"boot": _boot_id(), "started": started, "supervisor": supervisor})
        _replace_table(self._table, processes)

    def living(self) -> dict[str, int]:
        """Return the processes of the table that still run: the same ones, not later ones with their ids."""
        processes, started = _read_table(self._table), _read_table(self._started)
        if started.get("boot") != _boot_id():
            return {}
        then = started.get("started", {})
        found = {name: facts_of(pid) for name, pid in processes.items()}
        living = {name: facts for name, facts in found.items() if facts and facts.lives}
        return {name: facts.pid for name, facts in living.items() if facts.started == then.get(str(facts.pid))}

    def supervisor(self) -> int | None:
        """Return the process id of the `sluice up` that wrote the table, while it runs."""
        told = _read_table(self._started)
        pid, started = told.get("supervisor") or (0, 0)
        facts = facts_of(pid) if told.get("boot") == _boot_id() else None
        return pid if facts and facts.lives and facts.started == started else None

    def remove(self) -> None:
        """Delete the table, when no process runs any more."""
        self._table.unlink(missing_ok=True)
        self._started.unlink(missing_ok=True)


def _replace_table(path: Path, content: object) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content, indent=1))
    partial.rename(path)


def _read_table(path: Path) -> dict[str, Any]:
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
