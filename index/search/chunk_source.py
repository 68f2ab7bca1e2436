"""Chunks by number, with their vectors and neighbours, as selection reads them.

An engine that numbers its candidates offers a `ChunkSource`.

After retrieval, reading chunks is the largest cost of a search. Records were validated when they were written, and
their file was verified when it was opened, so they are not validated again: reading a chunk takes 5 µs instead of 15.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from pydantic_core import from_json

from sluice.contracts.base import construct_unvalidated
from sluice.contracts.document import Chunk, DocumentFacts, PageLink
from sluice.contracts.errors import Corrupted
from sluice.contracts.trust import Inspection
from sluice.index.generations.view import View
from sluice.index.journal.records import Vectors
from sluice.index.segments.segment import Segment


class ChunkSource(Protocol):
    """Chunks by number. Immutable during a search."""

    def read(self, number: int) -> tuple[DocumentFacts, Chunk]:
        """Return a chunk and its document's facts. Raises `Corrupted` for an unknown number."""

    def vectors(self, numbers: Sequence[int]) -> Vectors:
        """Return the vectors of at least one number, of length 1, in that order: float32 (n, d)."""

    def around(self, number: int, width: int) -> Sequence[Chunk]:
        """Return the chunk with up to `width` chunks of its document before and behind it, in reading order."""


class SegmentChunkSource:
    """The chunks of one view of a corpus in segments."""

    def __init__(self, view: View) -> None:
        self._view = view

    def read(self, number: int) -> tuple[DocumentFacts, Chunk]:
        """Return a chunk and its document's facts, as `ChunkSource.read` does."""
        segment, row = self._view.locate(number)
        return segment.facts(int(segment.owners[row])), read_chunk(segment, row)

    def vectors(self, numbers: Sequence[int]) -> Vectors:
        """Return the vectors, as `ChunkSource.vectors` does, with one read of each segment."""
        rows: dict[Segment, list[tuple[int, int]]] = {}
        for position, number in enumerate(numbers):
            segment, row = self._view.locate(number)
            rows.setdefault(segment, []).append((row, position))
        found = [segment.vectors_of(np.array([row for row, _ in those])) for segment, those in rows.items()]
        positions = [position for those in rows.values() for _, position in those]
        vectors: Vectors = np.concatenate(found)[np.argsort(positions)]
        return vectors

    def around(self, number: int, width: int) -> Sequence[Chunk]:
        """Return the chunk and its neighbours, as `ChunkSource.around` does: a document's rows are consecutive."""
        segment, row = self._view.locate(number)
        own = segment.rows_of(int(segment.owners[row]))
        return [
            read_chunk(segment, near) for near in range(max(own.start, row - width), min(own.stop, row + width + 1))
        ]


def read_chunk(segment: Segment, row: int) -> Chunk:
    """Read the chunk of a row. Raises `Corrupted` where the record is no JSON."""
    fields = _read_fields(segment, row)
    if len(fields) < len(_CHUNK_FIELDS):  # written before all of these fields existed
        fields = _CHUNK_DEFAULTS | fields
    fields["section_path"] = tuple(fields["section_path"])
    if fields["inspection"] is not None:
        fields["inspection"] = Inspection.model_validate(fields["inspection"])
    if fields["links"]:
        fields["links"] = tuple(PageLink(*link) for link in fields["links"])
    return construct_unvalidated(Chunk, fields, _CHUNK_FIELDS)


def read_start_line(segment: Segment, row: int) -> int:
    """Return the first line of the chunk of a row. Raises as `read_chunk` does."""
    line: int = _read_fields(segment, row)["start_line"]
    return line


def _read_fields(segment: Segment, row: int) -> dict[str, Any]:
    try:
        fields: dict[str, Any] = from_json(segment.chunk_record(row), cache_strings="none")
    except ValueError as error:
        raise Corrupted(f"row {row} of segment {segment.name} holds no chunk: {error}") from error
    return fields


_CHUNK_FIELDS = set(Chunk.model_fields)
_CHUNK_DEFAULTS = {name: field.default for name, field in Chunk.model_fields.items() if not field.is_required()}
