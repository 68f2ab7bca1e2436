"""The overlay of a generation: what the journal has beyond it, read as far as there is room in memory."""

from __future__ import annotations

from contextlib import suppress

from sluice.contracts.errors import Corrupted
from sluice.index.generations.generation import OpenGeneration
from sluice.index.journal.records import decode_record
from sluice.index.journal.tail import JournalTail
from sluice.index.local.memory_segment import FieldLengths, MemorySegments

_FEW_RECORDS = 1_000
"""Records that are read to move an open journal on to where the next overlay begins."""


class Overlay:
    """The records of the journal beyond one generation, as memory segments."""

    def __init__(
        self, tail: JournalTail, generation: OpenGeneration, max_chunks: int, lengths: FieldLengths | None
    ) -> None:
        """`tail` is the journal, read up to what the generation covers."""
        self._tail = tail
        self._max_chunks = max_chunks
        self.segments = MemorySegments(generation, generation.manifest.next_chunk_number, lengths)

    @property
    def offset(self) -> int:
        """The journal offset that is covered."""
        return self._tail.offset

    @property
    def wants_more(self) -> bool:
        """Whether there is room for further records."""
        return self.segments.chunk_count < self._max_chunks

    def read(self, until_offset: int) -> None:
        """Add the records up to an offset, or as many as there is room for."""
        for frame in self._tail.read(until_offset):
            self.segments.apply(frame.offset, decode_record(frame.kind, frame.payload))
            if not self.wants_more:
                return

    def hand_on(self, offset: int) -> JournalTail | None:
        """Give the open journal, read on to `offset`, to the next overlay: finding the place again takes milliseconds.

        Returns None and closes the journal where `offset` is behind or far ahead, or the journal was replaced.
        """
        if 0 <= offset - self._tail.offset <= _FEW_RECORDS and self._tail.is_in_place():
            with suppress(Corrupted, OSError):
                for _ in self._tail.read(offset):
                    pass  # the next generation has it in its files
                return self._tail
        self._tail.close()
        return None

    def close(self) -> None:
        """Close the journal."""
        self._tail.close()
