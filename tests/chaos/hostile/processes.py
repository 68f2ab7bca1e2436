"""What the processes under test weigh, and which of them are left."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from sluice.workers.processes.kernel import ZOMBIE, ProcessFacts, all_processes, descendants

SAMPLE_SECONDS = 0.3


def below() -> list[ProcessFacts]:
    """Everything that descends from this process and has not ended."""
    return [one for one in descendants(os.getpid(), all_processes()) if one.state != ZOMBIE]


def command(pid: int) -> str:
    """How it was started; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def proportional_bytes(pid: int) -> int:
    """Resident memory, shared pages counted in parts (proc(5), smaps_rollup). 0 when it is gone."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    found = (line.split() for line in text.splitlines())
    return next((int(words[1]) * 1_024 for words in found if words and words[0] == "Pss:"), 0)


class Scales:
    """Weighs this process and everything below it, time and again, from `__enter__` to `__exit__`."""

    def __init__(self) -> None:
        self._most = 0
        self._guard = threading.Lock()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._weigh, name="scales", daemon=True)

    def __enter__(self) -> Scales:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def take_most(self) -> int:
        """The most bytes since the last call."""
        with self._guard:
            most, self._most = self._most, 0
        return most

    def _weigh(self) -> None:
        while not self._ends.wait(SAMPLE_SECONDS):
            pids = [os.getpid(), *(one.pid for one in below())]
            weight = sum(map(proportional_bytes, pids))
            with self._guard:
                self._most = max(self._most, weight)


def await_gone(known: set[int], seconds: float) -> list[ProcessFacts]:
    """What is still there beside `known` after at most so long."""
    until = time.monotonic() + seconds
    while (left := [one for one in below() if one.pid not in known]) and time.monotonic() < until:
        time.sleep(0.1)
    return left
