"""The signals that end a supervisor, read by its main thread between two looks: a process that forks has no other."""

from __future__ import annotations

import select
import signal
import socket
import time
from types import FrameType

from sluice.workers.processes.process_group import ENDING_SIGNALS


class SignalInbox:
    """Collects signals from `open` on. To be used in the main thread."""

    def __init__(self) -> None:
        self._ends: tuple[socket.socket, socket.socket] | None = None

    def open(self) -> None:
        """Take the signals over. One that nohup(1) has switched off stays so."""
        reading, writing = socket.socketpair()
        reading.setblocking(False)
        writing.setblocking(False)
        self._ends = reading, writing
        signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
        for number in ENDING_SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, _note)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What a forked child must close."""
        return tuple(end.fileno() for end in self._ends) if self._ends else ()

    def wait(self, timeout_seconds: float) -> tuple[int, ...]:
        """The numbers of the signals that came, as soon as there is one; none when the time is over."""
        if self._ends is None:
            time.sleep(timeout_seconds)
            return ()
        reading = self._ends[0]
        ready, _, _ = select.select([reading], [], [], timeout_seconds)
        return tuple(number for number in reading.recv(64) if number in ENDING_SIGNALS) if ready else ()


def _note(_number: int, _frame: FrameType | None) -> None:
    """Python tells a signal's number to the wake-up descriptor only where it has a handler for it."""
