"""Bounds the processor time of reading one document, and stops the reading once its run is cancelled.

A timer looks several times a second, and interrupts Python code. C code that does not return to Python is out of its
reach: the kernel ends the process there (RLIMIT_CPU), and its claims are released like those of any process that dies.
"""

from __future__ import annotations

import resource
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from sluice.workers.runtime.heartbeat import is_cancelled

CPU_SECONDS, CPU_SECONDS_PER_MEGABYTE, MOST_CPU_SECONDS = 8, 4, 40
"""Processor time of any document, for each megabyte of it, and at most: three times what the slowest pages take."""
GRACE_SECONDS = 10
"""Time that code which cannot be interrupted has in addition: the tokenizer takes four seconds for ten megabytes."""
LOOK_SECONDS = 0.25


class ReadingStopped(BaseException):
    """The document took too long, or its run was cancelled. No `Exception`: parsers swallow those."""


def cpu_seconds_for(size_bytes: int) -> int:
    """Return how much processor time the reading of a document of that size may take."""
    return min(MOST_CPU_SECONDS, CPU_SECONDS + CPU_SECONDS_PER_MEGABYTE * size_bytes // 1_000_000)


@contextmanager
def bounded_reading(cpu_seconds: float) -> Iterator[None]:
    """Raise `ReadingStopped` in the block once it has used that much processor time, or its run was cancelled.

    Bounds nothing outside of the main thread, which alone can be interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    until = time.process_time() + cpu_seconds
    is_reading = True

    def look(_number: int, _frame: FrameType | None) -> None:
        if is_reading and (time.process_time() > until or is_cancelled()):
            raise ReadingStopped

    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    limits = (int(until) + 1 + GRACE_SECONDS, soft, hard)
    signal.signal(signal.SIGALRM, look)  # and never back to its default: a last alarm may be on its way to a thread
    resource.setrlimit(resource.RLIMIT_CPU, (min(one for one in limits if one != resource.RLIM_INFINITY), hard))
    signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)
    try:
        yield
    finally:
        is_reading = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
