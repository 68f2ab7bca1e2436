"""Processes whose parent died before them: those that come to this one, and those that a killed supervisor has left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Mapping
from contextlib import suppress

import structlog

from sluice.workers.processes.procfs import ZOMBIE, all_processes, descendants, facts_of

log = structlog.get_logger(__name__)

GONE_SECONDS = 2.0
"""How long what was killed may take to be gone."""
_LOOK_SECONDS = 0.02


def own_children() -> set[int]:
    """Every child of this process, adopted ones and zombies too."""
    return {process.pid for process in all_processes() if process.parent == os.getpid()}


def end_orphans(known: Collection[int]) -> None:
    """Kill what this process has adopted, and let go of what has ended: all of its children that are not `known`."""
    for process_id in own_children().difference(known):
        if _lives(process_id):
            log.info("orphan_killed", pid=process_id)
            _kill(process_id)
        with suppress(ChildProcessError):
            os.waitpid(process_id, os.WNOHANG)


def end_all_orphans(known: Collection[int]) -> None:
    """The same until none is left: what they leave behind comes to us generation by generation."""
    deadline = time.monotonic() + GONE_SECONDS
    while own_children().difference(known) and time.monotonic() < deadline:
        end_orphans(known)
        time.sleep(_LOOK_SECONDS)


def end_left_behind(left: Mapping[str, int]) -> None:
    """Kill the processes that a supervisor which is gone has left, with all that is below them."""
    processes = all_processes()
    everybody: list[int] = []
    for name, process_id in left.items():
        log.warning("left_behind_killed", name=name, pid=process_id)
        everybody += [process_id, *(process.pid for process in descendants(process_id, processes))]
    for process_id in everybody:
        _kill(process_id)
    _await_gone(everybody)


def _kill(process_id: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # a helper of root's ends by itself
        os.kill(process_id, signal.SIGKILL)


def _await_gone(process_ids: Collection[int]) -> None:
    deadline = time.monotonic() + GONE_SECONDS
    while any(map(_lives, process_ids)) and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)


def _lives(process_id: int) -> bool:
    facts = facts_of(process_id)
    return facts is not None and facts.state != ZOMBIE
