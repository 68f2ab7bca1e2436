"""A run's events over server-sent events (WHATWG HTML, section 9.2), resumed after the connection broke.

Nothing here reads from a connection: a client feeds in its input, and asks whether to open another. The server ends
each line with a line feed, and writes an event's JSON in one line.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from sluice_client.errors import TimedOut, Unavailable

LAST_EVENT = "RunFinished"


class Stream:
    """The state of reading one run's events.

    Each connection names the last id received in `Last-Event-ID`. When a connection ends early, another is opened if it
    brought an event; otherwise the stream gives up. A stream that is resumed after the last event of a finished run is
    empty. With `follow` it goes on after the run's end, until a connection ends.
    """

    def __init__(
        self, path: str, after: str | None = None, *, follow: bool = False, timeout_seconds: float | None = None
    ) -> None:
        self.path = path
        self._query = {"follow": "true"} if follow else {}
        self._ends_at = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        self._is_over = self._has_finished = False
        self._last_id = after
        self._may_be_over = after is not None
        self._has_brought = False
        self._rest = ""

    def is_over(self) -> bool:
        """Return whether nothing more will come."""
        return self._is_over

    def request(self, silence_seconds: float) -> dict[str, Any]:
        """Return the options of the next connection, which may be silent for `silence_seconds`, or for the stream's
        remaining time if that is less. Raises `TimedOut` if none remains."""
        self._rest, self._has_brought = "", False
        resumed = {} if self._last_id is None else {"Last-Event-ID": self._last_id}
        left = silence_seconds if self._ends_at is None else min(silence_seconds, self._left())
        return {"headers": {"Accept": "text/event-stream", **resumed}, "params": self._query, "timeout": left}

    def _left(self) -> float:
        left = float("inf") if self._ends_at is None else self._ends_at - time.monotonic()
        if left <= 0:
            raise TimedOut(f"{self.path}: the run goes on")
        return left

    def feed(self, chunk: str) -> Iterator[str]:
        """Yield the events that this text completes, as JSON. Raises `TimedOut` if time is up."""
        self._left()
        *messages, self._rest = (self._rest + chunk).split("\n\n")  # JSON texts may hold Unicode's other line breaks
        for message in messages:
            lines = [line for line in message.split("\n") if ": " in line and not line.startswith(":")]
            fields = dict(line.split(": ", 1) for line in lines)
            if "data" in fields:
                self._last_id, self._has_brought = fields.get("id", self._last_id), True
                self._has_finished = self._has_finished or fields.get("event") == LAST_EVENT
                yield fields["data"]

    def ended(self, error: Exception | None = None) -> None:
        """Record the end of a connection. Raises `Unavailable` if it brought no event and the run is not finished,
        `TimedOut` if it broke and the stream's time is up."""
        if error is not None:
            self._left()
        if self._has_finished:
            self._is_over = True
        elif self._has_brought:
            self._may_be_over = False
        elif error is not None:
            raise Unavailable(f"{self.path}: {error}") from error
        elif self._may_be_over:
            self._is_over = True
        else:
            raise Unavailable(f"{self.path}: the stream ended before the run was finished")
