"""Keeps the supervisor's one thread from waiting: a forked child does work that may have to wait for the ledger or the
broker, and signals are read between two looks.
"""

from __future__ import annotations

import select
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import NamedTuple

import structlog

from sluice.workers.processes.kernel import ENDING_SIGNALS, send_signals_to
from sluice.workers.supervisor.child import Forked, fork

log = structlog.get_logger(__name__)

LONGEST_SECONDS = 120.0
"""Longest time of one task: work on the ledger gives up earlier by itself."""
_LOOK_SECONDS = 0.01


class _Task(NamedTuple):
    run: Callable[[], object]
    done: Callable[[int], object]


class TaskQueue:
    """Tasks that run one after another. Call `look` now and then; it never waits."""

    def __init__(self, name: str = "tasks", close: Callable[[], Collection[int]] = tuple) -> None:
        """`close` returns the descriptors that a child must close."""
        self._name, self._close = name, close
        self._waiting: deque[_Task] = deque()
        self._running: tuple[_Task, Forked] | None = None
        self._kill_at = 0.0

    def do(self, run: Callable[[], object], done: Callable[[int], object] = lambda _code: None) -> None:
        """Run `run` in a child after the earlier tasks, then call `done` with its exit code."""
        self._waiting.append(_Task(run, done))
        self.look()

    @property
    def is_idle(self) -> bool:
        """Whether everything is done."""
        return not self._waiting and self._running is None

    @property
    def children(self) -> set[int]:
        """The process of the running task, if any."""
        return {self._running[1].pid} if self._running else set()

    def look(self) -> None:
        """Check whether the running task is done, and begin the next."""
        if self._running:
            task, process = self._running
            if time.monotonic() > self._kill_at:
                log.warning("task_takes_too_long", seconds=LONGEST_SECONDS)
                process.kill()
            code = process.poll()
            if code is None:
                return
            self._running = None
            task.done(code)
        if self._waiting:
            self._begin(self._waiting.popleft())

    def finish(self, timeout_seconds: float) -> bool:
        """Wait until everything is done; False when it took too long."""
        deadline = time.monotonic() + timeout_seconds
        while not self.is_idle:
            if time.monotonic() > deadline:
                return False
            self.look()
            time.sleep(_LOOK_SECONDS)
        return True

    def kill(self) -> None:
        """Drop the waiting tasks, and kill the running one."""
        self._waiting.clear()
        if self._running:
            self._running[1].kill()
            self._running[1].wait()
            self._running = None

    def _begin(self, task: _Task) -> None:
        try:
            process = fork(task.run, self._name, close=self._close(), die_with=signal.SIGKILL)
        except OSError as error:  # no more processes: that passes
            log.warning("task_not_started", error=repr(error))
            self._waiting.appendleft(task)
            return
        self._running, self._kill_at = (task, process), time.monotonic() + LONGEST_SECONDS


class SignalInbox:
    """Collects signals after `open`. Use it in the main thread."""

    def __init__(self) -> None:
        self._ends: tuple[socket.socket, socket.socket] | None = None

    def open(self) -> None:
        """Handle the signals from now on. A SIGHUP that nohup(1) has switched off stays so."""
        self._ends = socket.socketpair()
        self._ends[0].setblocking(False)
        send_signals_to(self._ends[1])

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Descriptors that a forked child must close."""
        return tuple(end.fileno() for end in self._ends) if self._ends else ()

    def wait(self, timeout_seconds: float) -> tuple[int, ...]:
        """Wait for signals and return their numbers; none when the time is over."""
        if self._ends is None:
            time.sleep(timeout_seconds)
            return ()
        reading = self._ends[0]
        ready, _, _ = select.select([reading], [], [], timeout_seconds)
        return tuple(number for number in reading.recv(64) if number in ENDING_SIGNALS) if ready else ()
