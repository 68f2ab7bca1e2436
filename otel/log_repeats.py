"""Keeps one lasting failure from flooding the log: the same trouble is written ten times a minute, then counted."""

from __future__ import annotations

import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

MOST_ALIKE = 10
"""Lines alike that are written within `WINDOW_SECONDS`; enough to see that it is not a single case."""
WINDOW_SECONDS = 60.0
_REMEMBERED = 256
"""Kinds of lines that are counted at once: the oldest is forgotten, and written again."""
_NUMBERS = re.compile(r"[0-9a-f]{8,}|[0-9]+")
"""Ids, counts and durations, which tell lines apart that say the same."""


class Repeats(logging.Filter):
    """Drops warnings and errors beyond `MOST_ALIKE` a minute that differ in numbers and ids at most.

    The first line of the next minute says in `left_out` how many were dropped.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: OrderedDict[tuple[str, ...], tuple[float, int]] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is to be written."""
        if record.levelno < logging.WARNING:
            return True
        key, now = _alike(record), self._clock()
        since, count = self._seen.pop(key, (now, 0))
        if now - since >= WINDOW_SECONDS:
            if count > MOST_ALIKE and isinstance(record.msg, dict):
                record.msg = {**record.msg, "left_out": count - MOST_ALIKE}
            since, count = now, 0
        self._seen[key] = (since, count + 1)
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return count < MOST_ALIKE


def _alike(record: logging.LogRecord) -> tuple[str, ...]:
    told: Any = record.msg
    if isinstance(told, dict):  # structlog's line
        return record.name, str(told.get("event")), _without_numbers(told.get("error", ""))
    return record.name, _without_numbers(told)


def _without_numbers(text: object) -> str:
    return _NUMBERS.sub("0", str(text)[:500])
