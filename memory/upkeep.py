"""Work that no question may wait for, in one background thread: after an import there may be thousands of iterations.

A usual loop never needs it: an iteration brings a few entries, which are looked through and indexed when something is
asked. While questions are asked the thread rests most of the time, as it would take their processor time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from sluice.contracts.errors import SluiceError

Step = Callable[[], bool]
"""A second's work at most; whether there is more to do."""

ASKED_LATELY_SECONDS = 2.0
"""Since a question: another one may be expected."""
RESTS_PER_STEP = 3.0
"""Then the thread rests three times as long as it worked: of four questions in a row one meets it at work."""

_log = logging.getLogger(__name__)


class Upkeep:
    """Steps by what they are for, each repeated until it is done. The thread starts with the first one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: dict[str, Step] = {}
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._asked_at = -ASKED_LATELY_SECONDS

    def do(self, what: str, step: Step) -> None:
        """Repeat `step` until it is done, in place of the one before for the same. A question is what asks for it."""
        with self._lock:
            if self._closing.is_set():
                return
            self._asked_at = time.monotonic()
            self._steps[what] = step
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="memory-upkeep", daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Wait until all is done."""
        while (thread := self._thread) is not None:
            thread.join()

    def close(self) -> None:
        """End after the present step; what is left is done another time."""
        with self._lock:
            self._closing.set()
            self._steps.clear()
        self.wait()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._steps:
                    self._thread = None
                    return
                what, step = next(iter(self._steps.items()))
            began = time.monotonic()
            try:
                has_more = step()
            except SluiceError as error:  # the next question begins it again
                _log.warning("%s is left for another time: %s", what, error)
                has_more = False
            with self._lock:
                if not has_more and self._steps.get(what) is step:
                    del self._steps[what]
                is_done = not self._steps
            if not is_done:
                self._rest(time.monotonic() - began)

    def _rest(self, worked_seconds: float) -> None:
        if time.monotonic() - self._asked_at < ASKED_LATELY_SECONDS + worked_seconds:
            self._closing.wait(RESTS_PER_STEP * worked_seconds)
