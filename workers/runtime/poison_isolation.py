"""Who may work beside whom in one process: suspects alone, everything else together.

An event on which a worker died may kill this one too. If it ran beside others they would die with it, be suspects
themselves, and share its fate the next time. So it waits until the process has nothing else in hand, and while it
runs nothing else begins.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Isolation:
    """A lock that many may share and one may have alone. Whoever wants to be alone goes before new sharers."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._sharing = 0
        self._alone = False
        self._want_alone = 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Work beside others."""
        with self._changed:
            self._changed.wait_for(lambda: not self._alone and not self._want_alone)
            self._sharing += 1
        try:
            yield
        finally:
            with self._changed:
                self._sharing -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Work while nobody else does."""
        with self._changed:
            self._want_alone += 1
            self._changed.wait_for(lambda: not self._alone and not self._sharing)
            self._want_alone -= 1
            self._alone = True
        try:
            yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()
