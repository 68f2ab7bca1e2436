"""What an agent writes while it runs, read as it comes and passed on where that is wanted."""

from __future__ import annotations

import os
import sys

from sluice.memory.extraction.raw_output import RawIterationOutput


class PassedOnOutput(RawIterationOutput):
    """An agent's output that goes on to standard output as it comes. Its reader may go away: collecting goes on."""

    def __init__(self) -> None:
        super().__init__()
        self._is_read = True

    def feed(self, chunk: bytes | str) -> None:
        """More of the output."""
        if self._is_read:
            self._pass_on(chunk.encode("utf-8", "replace") if isinstance(chunk, str) else chunk)
        super().feed(chunk)

    def _pass_on(self, piece: bytes) -> None:
        try:
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            self._is_read = False
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes it when it ends
