"""Lets Python's collector of cyclic garbage rest while many entries are decoded.

Entries make no cycles, and the collector would look through all of them again and again: of 1.6 s that 10,000 records
take it has 1.0.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Rest:
    """Threads that read at once share one rest: the first begins it and the last ends it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._was_enabled = False

    def begin(self) -> None:
        with self._lock:
            if self._count == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._count += 1

    def end(self) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0 and self._was_enabled:
                gc.enable()


_REST = _Rest()


@contextmanager
def resting_collector() -> Iterator[None]:
    """No collection begins by itself within the block."""
    _REST.begin()
    try:
        yield
    finally:
        _REST.end()
