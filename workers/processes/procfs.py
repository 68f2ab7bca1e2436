"""Facts about processes from the kernel (Linux; proc(5)), and glibc's memory limits (mallopt(3), malloc_trim(3)).

On other systems these functions find nothing and do nothing.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ZOMBIE, RUNNABLE = "Z", "R"
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """One process at one moment. `started` (clock ticks since boot) tells it from a later one with the same id; `used`
    is the processor's time that it has had, in clock ticks."""

    pid: int
    parent: int
    group: int
    state: str
    started: int
    used: int = 0

    @property
    def lives(self) -> bool:
        """Whether it still runs; a zombie does not."""
        return self.state != ZOMBIE


def all_processes() -> list[ProcessFacts]:
    """Return every process of the machine."""
    if not _PROC.is_dir():
        return []
    found = (facts_of(int(entry)) for entry in os.listdir(_PROC) if entry.isdigit())
    return [facts for facts in found if facts is not None]


def facts_of(pid: int) -> ProcessFacts | None:
    """Return one process, or None when it is gone."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    parent, group, user, system, started = (int(fields[place]) for place in (1, 2, 11, 12, 19))
    return ProcessFacts(pid, parent, group, state=fields[0], started=started, used=user + system)


def kill(pid: int) -> None:
    """Kill a process that may be gone. A helper of root's, which we may not kill, ends by itself."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def descendants(pid: int, processes: Iterable[ProcessFacts]) -> Iterator[ProcessFacts]:
    """Yield every process below `pid`, parents before their children."""
    children: dict[int, list[ProcessFacts]] = defaultdict(list)
    for process in processes:
        children[process.parent].append(process)
    found = children[pid]
    for process in found:  # grows while it is walked
        found.extend(children[process.pid])
        yield process


def anonymous_bytes(pid: int) -> int:
    """Return a process's own memory: neither a file's pages, such as a mapped index, nor shared. 0 when gone."""
    try:
        _, resident, shared, *_ = (_PROC / str(pid) / "statm").read_text().split()
    except (OSError, ValueError):
        return 0
    return max(0, int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def environment(pid: int) -> Mapping[str, str]:
    """Return the environment that the process was started with; empty where we may not read it."""
    try:
        raw = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    entries = (entry.decode(errors="replace").partition("=") for entry in raw.split(b"\0"))
    return {name: value for name, is_one, value in entries if is_one}


_M_ARENA_MAX = -8
MOST_HEAPS = 2
"""glibc gives every thread a heap of its own, and freed memory stays in it: a process of forty threads holds
a few times what it needs."""


def limit_heaps() -> None:
    """Let the threads of this process, and of those that it forks, share two heaps. Call it before they start."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, MOST_HEAPS)


def return_free_memory() -> None:
    """Return freed memory to the system. Loading a model frees some 30 MB, which would be held otherwise."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
