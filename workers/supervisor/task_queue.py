"""Does what may have to wait for the ledger or the broker, so that the supervisor itself never waits for them.

Each task runs in a child that is forked for it: the supervisor keeps its one thread, and opens no connection.
"""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import NamedTuple

import structlog

from sluice.workers.supervisor.forking import Forked, fork

log = structlog.get_logger(__name__)

LONGEST_SECONDS = 120.0
"""How long one task may take: what needs the ledger gives up earlier by itself."""
_LOOK_SECONDS = 0.01


class _Task(NamedTuple):
    run: Callable[[], object]
    done: Callable[[int], object]


class TaskQueue:
    """Tasks one after another. `look` is to be called every now and then; it never waits."""

    def __init__(self, name: str = "tasks", close: Callable[[], Collection[int]] = tuple) -> None:
        """`close` gives the descriptors that a child must close."""
        self._name = name
        self._close = close
        self._waiting: deque[_Task] = deque()
        self._running: tuple[_Task, Forked] | None = None
        self._kill_at = 0.0

    def do(self, run: Callable[[], object], done: Callable[[int], object] = lambda _code: None) -> None:
        """Have it done in a child, once what was handed in before is done; `done` is then told its exit code."""
        self._waiting.append(_Task(run, done))
        self.look()

    @property
    def is_idle(self) -> bool:
        """Whether everything is done."""
        return not self._waiting and self._running is None

    @property
    def children(self) -> set[int]:
        """The process that is at work, if there is one."""
        return {self._running[1].pid} if self._running else set()

    def look(self) -> None:
        """See whether the task at hand is done, and begin the next."""
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
        """Drop what waits, and end what is under way."""
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
