"""A generation opened for reading: its segments with their dead masked, and its term index."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contracts.document import Chunk
from contracts.errors import Conflict, Corrupted
from index.facts import DocumentFacts, document_key
from index.lock import Pin
from index.manifest import MANIFEST, Manifest, SegmentEntry
from index.records import Vectors
from index.terms import TermIndex
from index.vectors import Mask, Segment

Masks = list[Mask | None]
"""For each segment the rows that may be found; None means all of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A segment as one generation sees it."""

    segment: Segment
    dead_documents: tuple[int, ...]
    alive: Mask | None

    @property
    def living_rows(self) -> NDArray[np.int64]:
        """The rows that are not dead."""
        return np.arange(len(self.segment.numbers)) if self.alive is None else np.nonzero(self.alive)[0]


class OpenGeneration:
    """One complete, consistent view of a corpus. Immutable and safe for threads.

    While it lives its folder is pinned against collection. `known` are segments that are open already.
    """

    def __init__(self, folder: Path, manifest: Manifest, known: dict[str, Segment] | None = None) -> None:
        self._pin = Pin(folder / MANIFEST)
        self.name = folder.name
        self.manifest = manifest
        try:
            self.parts = [_open_part(folder, entry, known or {}) for entry in manifest.segments]
        except (OSError, ValueError, RuntimeError) as error:
            raise Corrupted(f"generation {folder.name} does not open: {error}") from error
        self.terms = TermIndex(folder / "terms")
        self._first_numbers = [int(part.segment.numbers[0]) for part in self._with_rows]

    @property
    def journal_offset(self) -> int:
        """The journal offset that this generation covers."""
        return self.manifest.journal_offset

    @property
    def chunk_count(self) -> int:
        """Chunks alive."""
        return self.manifest.chunk_count

    @cached_property
    def segments(self) -> dict[str, Segment]:
        """The opened segments by name, for the next generation to share."""
        return {part.segment.name: part.segment for part in self.parts}

    def alive(self) -> Masks:
        """The rows that are not dead."""
        return [part.alive for part in self.parts]

    def nearest(self, vector: Vectors, limit: int, masks: Masks) -> list[tuple[int, float]]:
        """The `limit` chunk numbers nearest to `vector` (d,) by cosine, best first, exactly.

        Raises `Conflict` when the vector's dimension is not the corpus's.
        """
        if not self.chunk_count:
            return []
        self._check_dimension(vector)
        found = [part.segment.search(vector, limit, mask) for part, mask in zip(self.parts, masks, strict=True)]
        scores = np.concatenate([scores for scores, _ in found])
        numbers = np.concatenate(
            [part.segment.numbers[rows] for part, (_, rows) in zip(self.parts, found, strict=True)]
        )
        order = np.lexsort((numbers, -scores))[:limit]
        return list(zip(numbers[order].tolist(), scores[order].tolist(), strict=True))

    def similarity(self, vector: Vectors, numbers: list[int]) -> list[float]:
        """The cosine of `vector` (d,) to each of these chunks."""
        located = [self.locate(number) for number in numbers]
        vectors = [segment.vectors_of(np.array([row])) for segment, row in located]
        return (np.concatenate(vectors) @ vector).tolist() if vectors else []

    def locate(self, number: int) -> tuple[Segment, int]:
        """The segment and row of a chunk number. Raises `Corrupted` when it is in none."""
        position = bisect.bisect_right(self._first_numbers, number) - 1
        if position >= 0:
            segment = self._with_rows[position].segment
            row = int(segment.numbers.searchsorted(np.uint64(number)))
            if row < len(segment.numbers) and int(segment.numbers[row]) == number:
                return segment, row
        raise Corrupted(f"chunk number {number} is in the term index but in no segment of {self.name}")

    def read(self, number: int) -> tuple[DocumentFacts, Chunk]:
        """A chunk and its document's facts."""
        segment, row = self.locate(number)
        return segment.facts(int(segment.rows["document"][row])), segment.chunk(row)

    def chunk_id(self, number: int) -> str:
        """The chunk id of a chunk number."""
        segment, row = self.locate(number)
        return segment.chunk_id(row)

    def facts(self, document_id: str) -> DocumentFacts | None:
        """The document's facts, or None when it is not in this generation."""
        key = document_key(document_id)
        for part in reversed(self.parts):
            for document in part.segment.find_document(key):
                if document not in part.dead_documents:
                    return part.segment.facts(document)
        return None

    def document_ids(self) -> Iterator[str]:
        """The id of every document alive."""
        for part in self.parts:
            dead = set(part.dead_documents)
            for document in range(len(part.segment.documents)):
                if document not in dead:
                    yield part.segment.facts(document).document_id

    def chunk_ids(self) -> Iterator[str]:
        """The id of every chunk alive."""
        for part in self.parts:
            yield from (part.segment.chunk_id(row) for row in part.living_rows.tolist())

    def close(self) -> None:
        """Let the collector have it. Only for whom nobody else can be searching."""
        self._pin.release()

    @cached_property
    def _with_rows(self) -> list[Part]:
        return [part for part in self.parts if len(part.segment.numbers)]

    def _check_dimension(self, vector: Vectors) -> None:
        if vector.shape != (self.manifest.dimension,):
            raise Conflict(
                f"corpus {self.manifest.corpus} holds vectors of {self.manifest.model_fingerprint} with "
                f"{self.manifest.dimension} dimensions; the query has {vector.shape}: embed it with that model"
            )


def read_dead(folder: Path, entry: SegmentEntry) -> tuple[int, ...]:
    """The dead documents of a segment."""
    if entry.dead_file is None:
        return ()
    return tuple(np.load(folder / "segments" / entry.dead_file, allow_pickle=False).tolist())


def _open_part(folder: Path, entry: SegmentEntry, known: dict[str, Segment]) -> Part:
    segment = known.get(entry.name) or Segment(folder / "segments", entry.name)
    if len(segment.numbers) != entry.chunk_count or len(segment.documents) != entry.document_count:
        raise ValueError(f"segment {entry.name} has other counts than the manifest")
    dead = read_dead(folder, entry)
    return Part(segment, dead, segment.alive(dead))
