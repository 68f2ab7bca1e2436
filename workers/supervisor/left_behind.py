"""Processes that outlived their parents: a table of the running instance's processes, on disk for commands and for the
supervisor that follows a killed one; and the killing of orphans.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from sluice.workers.processes.procfs import all_processes, descendants, facts_of, kill

log = structlog.get_logger(__name__)

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
        _replace_table(self._started, {"boot": _boot_id(), "started": started})
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


GONE_SECONDS = 2.0
"""Seconds that a killed process may take to be gone."""
_LOOK_SECONDS = 0.02


def own_children() -> set[int]:
    """Return every child of this process, adopted ones and zombies too."""
    return {process.pid for process in all_processes() if process.parent == os.getpid()}


def end_orphans(known: Collection[int]) -> None:
    """Kill and reap all children of this process, adopted ones included, that are not in `known`."""
    for process_id in own_children().difference(known):
        if _lives(process_id):
            log.info("orphan_killed", pid=process_id)
            kill(process_id)
        with suppress(ChildProcessError):
            os.waitpid(process_id, os.WNOHANG)


def end_all_orphans(known: Collection[int]) -> None:
    """Repeat until no orphan is left: the children of a killed one become ours, generation by generation."""
    deadline = time.monotonic() + GONE_SECONDS
    while own_children().difference(known) and time.monotonic() < deadline:
        end_orphans(known)
        time.sleep(_LOOK_SECONDS)


def end_left_behind(left: Mapping[str, int]) -> None:
    """Kill the processes left by a dead supervisor, with all their descendants."""
    processes = all_processes()
    everybody: list[int] = []
    for name, process_id in left.items():
        log.warning("left_behind_killed", name=name, pid=process_id)
        everybody += [process_id, *(process.pid for process in descendants(process_id, processes))]
    for process_id in everybody:
        kill(process_id)
    deadline = time.monotonic() + GONE_SECONDS
    while any(map(_lives, everybody)) and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)


def _lives(process_id: int) -> bool:
    facts = facts_of(process_id)
    return facts is not None and facts.lives
