"""The browser's processes: finds them, proves that each renderer is confined, and limits their memory.

`require_sandbox` judges every renderer by the kernel's report; `adequate` reads the page on which Chromium judges
itself. A browser must pass both before it shows a page.

`BrowserWatch` checks the processes while pages are open, the more often the closer they come to the limit. Above it
the largest process that runs pages is killed, which ends its page and leaves the others alone; if the browser process
is the largest, the whole browser is killed. A renderer without its sandbox ends the browser. The watch counts the
memory that cannot be reclaimed: private pages and shared memory (`RssAnon` and `RssShmem` of `/proc/PID/status`, which
every user may read). Pages of the program on disk are left out: all processes share them.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sluice.contracts.errors import PolicyRefused

END_SECONDS = 5.0
"""Longest wait for a killed process to end."""


def family(pid: int) -> list[int]:
    """Return `pid`, all its descendants, and detached processes that still use its profile."""
    found = descendants(pid)
    profile = _profile(found)
    # Crash handlers detach themselves from their browser; their crash database gives them away.
    others = {int(name) for name in os.listdir("/proc") if name.isdigit()}.difference(found) if profile else ()
    return found + [other for other in others if profile in command_line(other)]


def descendants(pid: int) -> list[int]:
    """Return `pid` and all its descendants, parents first, without scanning other processes."""
    found = [pid]
    for member in found:  # grows while it is walked
        found.extend(_children(member))
    return found


def _children(pid: int) -> list[int]:
    """Return the children of all threads of `pid` (proc(5), `/proc/PID/task/TID/children`)."""
    found: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{task}/children") as file:
                found.extend(map(int, file.read().split()))
    return found


def _profile(pids: list[int]) -> str:
    for pid in pids:
        _, flag, rest = command_line(pid).partition("--user-data-dir=")
        if flag:
            return rest.split()[0]
    return ""


def status(pid: int) -> dict[str, str]:
    """Return the fields of `/proc/PID/status` (proc(5)); empty if the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def command_line(pid: int) -> str:
    """Return the process's arguments, separated by blanks; empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def process_handles(pid: int) -> list[int]:
    """Return file descriptors for `pid` and all its descendants, which stay valid if process ids are reused."""
    handles = []
    for member in family(pid):
        with suppress(ProcessLookupError):
            handles.append(os.pidfd_open(member))
    return handles


def end_processes(handles: list[int]) -> None:
    """Kill the processes that still run, and wait until they are gone. Closes the handles."""
    for handle in handles:
        with suppress(ProcessLookupError, PermissionError):  # the setuid helper is root's; it ends by itself
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    for handle in handles:
        select.select([handle], [], [], END_SECONDS)  # readable once the process has ended: pidfd_open(2)
        os.close(handle)


SECCOMP_FILTER = "2"
"""The `Seccomp:` mode of /proc/PID/status that means a filter is installed (proc(5))."""

REPORT_URL = "chrome://sandbox"
ADEQUATE = "You are adequately sandboxed."
"""The sentence of Chromium's report when its sandbox is on."""

START_SECONDS = 10.0
"""Longest time from a renderer's start to its system call filter, which it loads before any page."""
LOOK_SECONDS = 0.05

SANDBOX_REMEDY = (
    "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1; in a container, a seccomp profile "
    "that permits them), or run workers without root and install chromium-sandbox (its setuid helper)"
)


def require_sandbox(pid: int, *, patience_seconds: float = START_SECONDS) -> None:
    """Refuse the browser below `pid` unless every renderer is confined: not root, its own namespace, seccomp.

    Waits for renderers that are still starting. Raises PolicyRefused (`sandbox`), which says which renderer lacks what.
    """
    until = time.monotonic() + patience_seconds
    while weaknesses := _weaknesses_of_all(pid):
        if time.monotonic() >= until:
            raise not_sandboxed("; ".join(weaknesses))
        time.sleep(LOOK_SECONDS)


def not_sandboxed(weakness: str) -> PolicyRefused:
    """Return the refusal of a browser for `weakness`."""
    return PolicyRefused("sandbox", f"Chromium's sandbox is not on: {weakness}", SANDBOX_REMEDY)


def adequate(report: str) -> bool:
    """Return whether the text of `REPORT_URL` says that the sandbox is on."""
    return ADEQUATE in report


def namespace_depth(pid: int) -> int:
    """Return how many process namespaces deep a process lives; 0 if it has ended."""
    return len(status(pid).get("NSpid", "").split())


def is_renderer(command: str) -> bool:
    """Return whether the command line belongs to a process that runs pages."""
    return "--type=renderer" in command


def browser_process(pid: int) -> int:
    """Return the main browser process among those that `pid` started: it has the debugging pipe and no type."""
    for member in family(pid):
        command = command_line(member)
        if "--remote-debugging-pipe" in command and "--type=" not in command and "browser.namespace" not in command:
            return member
    return pid


def _weaknesses_of_all(pid: int) -> list[str]:
    members = family(pid)
    renderers = [member for member in members if is_renderer(command_line(member))]
    if not renderers:
        return ["it has no renderer process of its own"]
    depth = namespace_depth(browser_process(pid))
    return [weakness for renderer in renderers for weakness in _weaknesses(renderer, depth)]


def _weaknesses(renderer: int, browser_depth: int) -> Iterator[str]:
    state = status(renderer)
    if not state or state.get("State", "").startswith("Z"):
        return  # it ended meanwhile
    if "0" in state.get("Uid", "").split():
        yield f"renderer {renderer} runs as root"
    if state.get("Seccomp") != SECCOMP_FILTER:
        yield f"renderer {renderer} has no system call filter"
    if len(state.get("NSpid", "").split()) <= browser_depth:
        yield f"renderer {renderer} shares the browser's process namespace"


MOST_PAUSE_SECONDS, LEAST_PAUSE_SECONDS = 0.1, 0.01
"""Longest and shortest pause between two looks."""
FILLED_BYTES_PER_SECOND = 4_000_000_000
"""Speed at which several threads fill memory on two cores; one thread reaches a quarter of it. The next look comes
before the remaining memory could be full."""
SCAN_SECONDS = 1.0
"""Pause between two full scans; in between only the zygote's children are listed."""
RECENT_SECONDS = 5.0
"""Time after a kill in which a page's death is attributed to it."""


@dataclass(frozen=True, slots=True)
class Excess:
    """One excess of the browser over its memory limit."""

    at: float
    """By `time.monotonic`."""
    took_bytes: int


class BrowserWatch:
    """Watches the browser below `pid` in a thread of its own, from `start` to `stop`, while pages are open."""

    def __init__(self, pid: int, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.excess: Excess | None = None
        """The latest excess."""
        self.weakness: str | None = None
        """The confinement that a renderer lacked, for which the browser was ended."""
        self.most_bytes = 0
        """The highest total seen, in bytes."""
        self._pid = pid
        self._browser = browser_process(pid)
        self._commands: dict[int, str] = {}
        self._weak_since: dict[int, float] = {}
        self._proven: set[int] = set()
        self._scanned_at = -SCAN_SECONDS
        self._open = 0
        self._guard = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="browser-watch", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread. May be called again."""
        with self._guard:
            self._stopped = True
            self._guard.notify()
        if self._thread.is_alive():
            self._thread.join()

    @contextmanager
    def page(self) -> Iterator[None]:
        """Count a page as open while the block runs."""
        with self._guard:
            self._open += 1
            self._guard.notify()
        try:
            yield
        finally:
            with self._guard:
                self._open -= 1

    def recent_excess(self) -> Excess | None:
        """Return the excess that may have killed a page just now."""
        excess = self.excess
        return excess if excess is not None and time.monotonic() - excess.at < RECENT_SECONDS else None

    def _run(self) -> None:
        while True:
            with self._guard:
                self._guard.wait_for(lambda: self._stopped or self._open)
                if self._stopped:
                    return
            time.sleep(pause_seconds(self.limit_bytes - self._look()))

    def _look(self) -> int:
        """Return the bytes that all processes take together; above the limit, end the largest."""
        self._find_members()
        took = {pid: memory for pid in list(self._commands) if (memory := self._judge(pid)) is not None}
        self._commands = {pid: command for pid, command in self._commands.items() if pid in took}
        self._proven &= took.keys()
        total = sum(took.values())
        self.most_bytes = max(self.most_bytes, total)
        if total > self.limit_bytes:
            self._end_the_largest(took, total)
        return total

    def _find_members(self) -> None:
        if time.monotonic() - self._scanned_at >= SCAN_SECONDS:
            self._scanned_at = time.monotonic()
            found = descendants(self._pid)
        else:
            zygotes = [pid for pid, command in self._commands.items() if "--type=zygote" in command]
            found = [pid for parent in zygotes for pid in descendants(parent)]
        for pid in found:
            # The zygote's children bear its name until they know their role.
            if "--type=zygote" in self._commands.get(pid, "--type=zygote"):
                self._commands[pid] = command_line(pid)

    def _judge(self, pid: int) -> int | None:
        """Return the bytes that the process takes; None if it has ended."""
        state = status(pid)
        if not state or state.get("State", "").startswith("Z"):
            return None
        if pid not in self._proven and is_renderer(self._commands[pid]):
            self._judge_renderer(pid)
        return 1_024 * sum(int(state.get(field, "0").split()[0]) for field in ("RssAnon", "RssShmem"))

    def _judge_renderer(self, pid: int) -> None:
        weakness = next(_weaknesses(pid, namespace_depth(self._browser)), None)
        if weakness is None:
            self._proven.add(pid)
            return
        if time.monotonic() - self._weak_since.setdefault(pid, time.monotonic()) > START_SECONDS:
            self.weakness = weakness
            self._kill(self._browser)

    def _end_the_largest(self, took: dict[int, int], total: int) -> None:
        largest = max(took, key=lambda pid: took[pid])
        is_page = is_renderer(self._commands[largest])
        self.excess = Excess(time.monotonic(), total)
        self._kill(largest if is_page else self._browser)

    def _kill(self, pid: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def pause_seconds(left_bytes: int) -> float:
    """Return the pause before the next look when `left_bytes` of the limit remain."""
    return min(MOST_PAUSE_SECONDS, max(LEAST_PAUSE_SECONDS, left_bytes / FILLED_BYTES_PER_SECOND))
