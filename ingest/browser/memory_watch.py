"""A watch over the browser's processes while pages are open: what they take, and whether each renderer is confined.

Above the limit the largest process that runs pages is killed, which ends its page and leaves the others alone; where
the browser itself is the largest it goes as a whole. A renderer that comes without its sandbox ends the browser.

The closer they come to the limit the more often they are looked at.

Counted is the memory that cannot be given back by itself: private pages and shared memory (`RssAnon` and `RssShmem` of
`/proc/PID/status`, which every user may read). Pages of the program on disk are left out: they are there once for all.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from sluice.ingest.browser.processes import command_line, descendants, status
from sluice.ingest.browser.sandbox import START_SECONDS, browser_process, is_renderer, weakness_of

LOOK_SECONDS, LEAST_LOOK_SECONDS = 0.1, 0.01
"""Between two looks, at most and at least."""
FILLED_BYTES_PER_SECOND = 4_000_000_000
"""How fast several threads fill memory on two cores; one fills a quarter of it. The next look comes before what is left
could be full."""
SCAN_SECONDS = 1.0
"""Between two searches for everybody; meanwhile only the zygote is asked whom it bore."""
RECENT_SECONDS = 5.0
"""How long after the kill a page that dies may lay it to that."""


@dataclass(frozen=True, slots=True)
class Excess:
    """The browser took too much."""

    at: float
    """By `time.monotonic`."""
    took_bytes: int
    whole_browser: bool


class BrowserWatch:
    """Watches the browser below `pid` in a thread of its own, from `start` to `stop`, while pages are open."""

    def __init__(self, pid: int, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.excess: Excess | None = None
        """The last time it took too much."""
        self.weakness: str | None = None
        """What a renderer lacked; the browser was ended for it."""
        self.most_bytes = 0
        """The most that was seen."""
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
        """Begin to watch."""
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
        """A page is open while the block runs."""
        with self._guard:
            self._open += 1
            self._guard.notify()
        try:
            yield
        finally:
            with self._guard:
                self._open -= 1

    def recent_excess(self) -> Excess | None:
        """What a page that died just now may have died of."""
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
        """Bytes that all take together; the largest is ended where that is too much."""
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
            found = [pid for parent in self._zygotes() for pid in descendants(parent)]
        for pid in found:
            # The zygote's children bear its name until they know what they are to be.
            if "--type=zygote" in self._commands.get(pid, "--type=zygote"):
                self._commands[pid] = command_line(pid)

    def _zygotes(self) -> list[int]:
        return [pid for pid, command in self._commands.items() if "--type=zygote" in command]

    def _judge(self, pid: int) -> int | None:
        """Bytes that the process takes; None where it has ended."""
        state = status(pid)
        if not state or state.get("State", "").startswith("Z"):
            return None
        if pid not in self._proven and is_renderer(self._commands[pid]):
            self._judge_renderer(pid)
        return 1_024 * sum(int(state.get(field, "0").split()[0]) for field in ("RssAnon", "RssShmem"))

    def _judge_renderer(self, pid: int) -> None:
        weakness = weakness_of(pid, self._browser)
        if weakness is None:
            self._proven.add(pid)
            return
        if time.monotonic() - self._weak_since.setdefault(pid, time.monotonic()) > START_SECONDS:
            self.weakness = weakness
            self._kill(self._browser)

    def _end_the_largest(self, took: dict[int, int], total: int) -> None:
        largest = max(took, key=lambda pid: took[pid])
        is_page = is_renderer(self._commands[largest])
        self.excess = Excess(time.monotonic(), total, whole_browser=not is_page)
        self._kill(largest if is_page else self._browser)

    def _kill(self, pid: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def pause_seconds(left_bytes: int) -> float:
    """How long to wait for the next look when so much is left of the limit."""
    return min(LOOK_SECONDS, max(LEAST_LOOK_SECONDS, left_bytes / FILLED_BYTES_PER_SECOND))
