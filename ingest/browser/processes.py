"""The processes of a browser, as the kernel shows them: who belongs to it, what each takes, and their end."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from pathlib import Path

END_SECONDS = 5.0
"""How long a killed process may take to be gone."""


def family(pid: int) -> list[int]:
    """`pid`, every process that descends from it, and those that left it but still work on its profile."""
    everyone = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    children: dict[int, list[int]] = {}
    for process in everyone:
        children.setdefault(_parent(process), []).append(process)
    found = _descendants(pid, children)
    profile = _profile(found)
    # Crash handlers detach themselves from their browser; their crash database gives them away.
    return found + [other for other in everyone if profile and other not in found and profile in command_line(other)]


def descendants(pid: int) -> list[int]:
    """`pid` and every process that descends from it, parents first; found without looking at anybody else."""
    found = [pid]
    for member in found:  # grows while it is walked
        found.extend(_children(member))
    return found


def _descendants(pid: int, children: dict[int, list[int]]) -> list[int]:
    found = [pid]
    for member in found:  # grows while it is walked
        found.extend(children.get(member, []))
    return found


def _children(pid: int) -> list[int]:
    """The children of all its threads (proc(5), `/proc/PID/task/TID/children`)."""
    found: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{task}/children") as file:
                found.extend(map(int, file.read().split()))
    return found


def _parent(pid: int) -> int:
    return int(status(pid).get("PPid", 0))


def _profile(pids: list[int]) -> str:
    for pid in pids:
        _, flag, rest = command_line(pid).partition("--user-data-dir=")
        if flag:
            return rest.split()[0]
    return ""


def status(pid: int) -> dict[str, str]:
    """The fields of `/proc/PID/status` (proc(5)); none where the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def command_line(pid: int) -> str:
    """The words that started it, parted by blanks; empty where the process has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def process_handles(pid: int) -> list[int]:
    """File descriptors that stand for `pid` and all its descendants, whatever their numbers are used for later."""
    handles = []
    for member in family(pid):
        with suppress(ProcessLookupError):
            handles.append(os.pidfd_open(member))
    return handles


def end_processes(handles: list[int]) -> None:
    """Kill what still runs, and return when it is gone. The handles are used up."""
    for handle in handles:
        with suppress(ProcessLookupError, PermissionError):  # the setuid helper is root's; it ends by itself
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    for handle in handles:
        select.select([handle], [], [], END_SECONDS)  # readable once the process has ended: pidfd_open(2)
        os.close(handle)
