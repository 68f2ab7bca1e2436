"""Buffers an agent's output line by line while the agent runs: `claude … --output-format stream-json | …`.

Memory is bounded. Of a longer output the head (with the session's first lines) and the tail (with its result) are kept;
the rest is counted, and an extra line reports the counts to the reader. Half a line at the end is kept as it is, as of
an agent that was killed. Collecting ends at the end of the pipe, at a deadline, or when nothing follows a result line:
an agent's process may hang on after its result.
"""

from __future__ import annotations

import json
import os
import selectors
import time
from collections import deque
from collections.abc import Callable

from sluice.contracts.memory.api import IterationContext
from sluice.memory.extraction.agent_run import decoded, mapping
from sluice.memory.extraction.readers import claude_code

MAX_BYTES = 32 << 20
MAX_EVENTS = 100_000
MAX_LINE_BYTES = 16 << 20
AFTER_RESULT_SECONDS = 5.0
"""Seconds to wait for more lines after a result: background turns may have results of their own."""
_HEAD_SHARE = 4
"""The head gets one part in so many."""
_CHUNK_BYTES = 64 * 1024


class RawIterationOutput:
    """The output so far. `overflow` counts dropped events and bytes, and lines that were too long."""

    def __init__(
        self, *, max_bytes: int = MAX_BYTES, max_events: int = MAX_EVENTS, max_line_bytes: int = MAX_LINE_BYTES
    ) -> None:
        self._head: list[bytes] = []
        self._tail: deque[bytes] = deque()
        self._head_room = [max_bytes // _HEAD_SHARE, max_events // _HEAD_SHARE]
        self._tail_room = [max_bytes - max_bytes // _HEAD_SHARE, max_events - max_events // _HEAD_SHARE]
        self._max_line_bytes = max_line_bytes
        self._pieces: list[bytes] = []
        self._pieces_bytes = 0
        self._skipping = False
        self._timed_out = False
        self.overflow = {"events": 0, "bytes": 0, "long_lines": 0}
        self.has_result = False
        """Whether a result line came."""
        self.closed = False

    def feed(self, chunk: bytes | str) -> None:
        """Add more of the output, in pieces of any size. Raises `ValueError` if the output is closed."""
        if self.closed:
            raise ValueError("the output is closed")
        data = chunk.encode("utf-8", "replace") if isinstance(chunk, str) else chunk
        *whole, rest = data.split(b"\n")
        for part in whole:
            self._piece(part)
            self._end_line()
        if rest:
            self._piece(rest)

    def close(self, *, timed_out: bool = False) -> None:
        """End the output: its pipe ended, or its reader gave up (`timed_out`: at a deadline)."""
        self.closed = True
        self._timed_out = timed_out

    @property
    def timed_out(self) -> bool:
        """Whether a deadline came before a result. After a result the iteration was over, whatever its process did."""
        return self._timed_out and not self.has_result

    def text(self) -> str:
        """Return the output in the form that `extract` takes."""
        lines = [*self._head]
        if any(self.overflow.values()):
            lines.append(json.dumps({"type": claude_code.OVERFLOW, **self.overflow}).encode())
        lines.extend(self._tail)
        ended = b"".join(line + b"\n" for line in lines)
        return (ended + b"".join(self._pieces)).decode("utf-8", "replace")

    def context(self, context: IterationContext) -> IterationContext:
        """Return `context`, with `timed_out` set if the output ended at a deadline."""
        return context.model_copy(update={"timed_out": context.timed_out or self.timed_out})

    def _piece(self, part: bytes) -> None:
        if self._skipping:
            self.overflow["bytes"] += len(part)
            return
        self._pieces.append(part)
        self._pieces_bytes += len(part)
        if self._pieces_bytes > self._max_line_bytes:
            self.overflow["long_lines"] += 1
            self.overflow["bytes"] += self._pieces_bytes
            self._skipping = True
            self._pieces, self._pieces_bytes = [], 0

    def _end_line(self) -> None:
        line = b"".join(self._pieces)
        skipped, self._skipping = self._skipping, False
        self._pieces, self._pieces_bytes = [], 0
        if skipped:
            self.overflow["events"] += 1
        elif line.strip():
            if not self.has_result and b'"result"' in line:
                self.has_result = mapping(decoded(line.decode("utf-8", "replace"))).get("type") == "result"
            self._keep(line)

    def _keep(self, line: bytes) -> None:
        if not self._tail and self._head_room[0] >= len(line) and self._head_room[1] > 0:
            self._head.append(line)
            self._head_room[0] -= len(line)
            self._head_room[1] -= 1
            return
        self._tail.append(line)
        self._tail_room[0] -= len(line)
        self._tail_room[1] -= 1
        while self._tail and (self._tail_room[0] < 0 or self._tail_room[1] < 0):
            dropped = self._tail.popleft()
            self._tail_room[0] += len(dropped)
            self._tail_room[1] += 1
            self.overflow["events"] += 1
            self.overflow["bytes"] += len(dropped)


def collect(
    file_descriptor: int,
    *,
    deadline_seconds: float | None = None,
    after_result_seconds: float = AFTER_RESULT_SECONDS,
    output: RawIterationOutput | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> RawIterationOutput:
    """Read a pipe until it ends, until `deadline_seconds` have passed, or `after_result_seconds` after a result.

    The last counts from the latest input, once a result has come. The returned output is closed.
    """
    output = output or RawIterationOutput()
    begun = latest = clock()
    timed_out = False
    with selectors.PollSelector() as selector:
        selector.register(file_descriptor, selectors.EVENT_READ)
        while True:
            now = clock()
            waits = [] if deadline_seconds is None else [begun + deadline_seconds - now]
            if output.has_result:
                waits.append(latest + after_result_seconds - now)
            if waits and min(waits) <= 0:
                timed_out = not output.has_result
                break
            if not selector.select(min(waits) if waits else None):
                continue
            chunk = os.read(file_descriptor, _CHUNK_BYTES)
            if not chunk:
                break
            output.feed(chunk)
            latest = clock()
    output.close(timed_out=timed_out)
    return output
