"""Does what may have to wait for the ledger or the broker, so that the supervisor itself never waits for them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import structlog

log = structlog.get_logger(__name__)


class TaskQueue:
    """Tasks one after another, in a thread that does not keep the process from ending."""

    def __init__(self) -> None:
        self._tasks: queue.Queue[Callable[[], object]] = queue.Queue()
        self._open = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def do(self, task: Callable[[], object]) -> None:
        """Have it done, once what was handed in before is done."""
        with self._changed:
            self._open += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="clerk", daemon=True)
                self._thread.start()
        self._tasks.put(task)

    @property
    def is_idle(self) -> bool:
        """Whether everything is done."""
        return self._open == 0

    def finish(self, timeout_seconds: float) -> bool:
        """Wait until everything is done; False when it took too long."""
        with self._changed:
            return self._changed.wait_for(lambda: self.is_idle, timeout=timeout_seconds)

    def _work(self) -> None:
        while True:
            task = self._tasks.get()
            try:
                task()
            except Exception as error:  # the next one may be possible
                log.warning("task_failed", error=repr(error), exc_info=error)
            with self._changed:
                self._open -= 1
                self._changed.notify_all()
