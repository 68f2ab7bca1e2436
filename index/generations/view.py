"""A view of a corpus as of one journal offset: segments with their dead documents masked, and terms.

An opened generation is one kind; the reader's view of later records is another (`index.local.memory_segment`).
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from sluice.contracts.document import Chunk, DocumentFacts
from sluice.contracts.errors import Corrupted, Unavailable
from sluice.disk.durable import is_shortage
from sluice.index.folder import Pin
from sluice.index.generations.manifest import MANIFEST, Coverage, IdSet, Manifest, SegmentEntry
from sluice.index.journal.records import Vectors, document_key
from sluice.index.segments.segment import Mask, Rows, Segment
from sluice.index.segments.segment_file import StoredSegment
from sluice.index.terms.tantivy_index import TermIndex
from sluice.index.terms.terms import Terms, count_chunks_with

Masks = list[Mask | None]
"""For each segment, the mask of the rows that a search may find, bool (rows,); None where it may find all."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A segment as one view sees it."""

    segment: Segment
    dead_documents: frozenset[int]
    alive: Mask | None

    @property
    def live_rows(self) -> Rows:
        """The live rows, ascending: int64."""
        return np.arange(len(self.segment.numbers)) if self.alive is None else np.nonzero(self.alive)[0]


class Place(NamedTuple):
    """A document's place in a view: the position of the part, the document in its segment, and the chunks' rows."""

    part: int
    document: int
    rows: range


class View:
    """One complete, consistent view of a corpus. Immutable and safe for threads."""

    def __init__(self, coverage: Coverage, parts: Sequence[Part], terms: Terms) -> None:
        self.coverage = coverage
        self.parts = list(parts)
        self.terms = terms
        self._first_numbers = [int(part.segment.numbers[0]) for part in self._with_rows]

    @property
    def name(self) -> str:
        """Name of the generation that the view is based on."""
        return self.coverage.name

    @property
    def journal_offset(self) -> int:
        """The journal offset that is covered."""
        return self.coverage.journal_offset

    @property
    def chunk_count(self) -> int:
        """Number of live chunks."""
        return self.coverage.chunk_count

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of the chunks' analyses."""
        return self.terms.languages

    def count_chunks_with(self, terms: Sequence[str]) -> dict[str, int]:
        """Return the number of chunks that have each term; terms are analysed as text is."""
        return {term: min(count_chunks_with(self.terms, term), self.chunk_count) for term in terms}

    def live_masks(self) -> Masks:
        """Return the mask of live rows of each segment."""
        return [part.alive for part in self.parts]

    def nearest(self, vector: Vectors, limit: int, masks: Masks) -> Ranked:
        """Return the `limit` chunks nearest to `vector` (d,), best first. Raises `Conflict` for another dimension."""
        if not self.chunk_count:
            return NOTHING_FOUND
        self.coverage.check_dimension(vector)
        numbers: Numbers = []
        scores: Floats = []
        for part, mask in zip(self.parts, masks, strict=True):
            best, rows = part.segment.search(vector, limit, mask)
            numbers += part.segment.numbers[rows].tolist()
            scores += best.tolist()
        order = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)[:limit]
        return Ranked([numbers[place] for place in order], [scores[place] for place in order])

    def similarities(self, vector: Vectors, numbers: Numbers) -> Floats:
        """Return the cosines of `vector` (d,) to these chunks. Raises `Corrupted` for a chunk that is in no segment."""
        cosines = [0.0] * len(numbers)
        for segment, places, rows in self._by_segment(numbers):
            for place, cosine in zip(places, segment.products(rows, vector).tolist(), strict=True):
                cosines[place] = cosine
        return cosines

    def locate(self, number: int) -> tuple[Segment, int]:
        """Return the segment and row of a chunk number. Raises `Corrupted` when it is in none."""
        position = bisect.bisect_right(self._first_numbers, number) - 1
        if position >= 0:
            numbers = self._with_rows[position].segment.numbers
            row = number - self._first_numbers[position]  # where no number is missing before it
            if row >= len(numbers) or int(numbers[row]) != number:
                row = int(numbers.searchsorted(np.uint64(number)))
            if row < len(numbers) and int(numbers[row]) == number:
                return self._with_rows[position].segment, row
        raise Corrupted(f"chunk number {number} is in the term index but in no segment of {self.name}")

    def read(self, number: int) -> tuple[DocumentFacts, Chunk]:
        """Return a chunk and its document's facts."""
        segment, row = self.locate(number)
        return segment.facts(int(segment.owners[row])), segment.chunk(row)

    def vectors_of(self, numbers: Sequence[int]) -> Vectors:
        """Return the vectors of at least one chunk number, in that order: float32 (n, d). Reads each segment once."""
        found = list(self._by_segment(numbers))
        order = np.argsort([place for _, places, _ in found for place in places])
        vectors: Vectors = np.concatenate([segment.vectors_of(rows) for segment, _, rows in found])[order]
        return vectors

    def _by_segment(self, numbers: Sequence[int]) -> Iterator[tuple[Segment, list[int], Rows]]:
        """Yield each segment that holds one of these chunks, with their places in `numbers` and their rows."""
        held: dict[Segment, list[tuple[int, int]]] = {}
        for place, number in enumerate(numbers):
            segment, row = self.locate(number)
            held.setdefault(segment, []).append((place, row))
        for segment, pairs in held.items():
            yield segment, [place for place, _ in pairs], np.array([row for _, row in pairs], dtype=np.int64)

    def around(self, number: int, width: int) -> Sequence[Chunk]:
        """Return the chunk with up to `width` chunks of its document before and behind it, in reading order."""
        segment, row = self.locate(number)
        own = segment.rows_of(int(segment.owners[row]))
        return [segment.chunk(near) for near in range(max(own.start, row - width), min(own.stop, row + width + 1))]

    def chunk_id(self, number: int) -> str:
        """Return the chunk id of a chunk number."""
        segment, row = self.locate(number)
        return segment.chunk_id(row)

    def find_document(self, document_id: str) -> Place | None:
        """Return the place of the document, or None when it is not in this generation."""
        key = document_key(document_id)
        for position in reversed(range(len(self.parts))):
            part = self.parts[position]
            for document in part.segment.find_document(key):
                if document not in part.dead_documents:
                    return Place(position, document, part.segment.rows_of(document))
        return None

    def facts(self, document_id: str) -> DocumentFacts | None:
        """Return the document's facts, or None when it is not in this generation."""
        place = self.find_document(document_id)
        return self.parts[place.part].segment.facts(place.document) if place else None

    def documents(self, document_ids: Sequence[str]) -> dict[str, DocumentFacts]:
        """Return the facts of those documents that are in this generation."""
        found = ((document_id, self.facts(document_id)) for document_id in document_ids)
        return {document_id: facts for document_id, facts in found if facts is not None}

    def all_facts(self) -> Iterator[DocumentFacts]:
        """Return the facts of every live document."""
        return (segment.read_facts(document) for segment, document in self._live_documents())

    def listed(self, by: Listed, after: str | None = None, *, backwards: bool = False) -> Iterator[DocumentFacts]:
        """Yield the facts of every document behind the position `after`, in order."""
        ways = [_listed_in(part, number, by, after, backwards) for number, part in enumerate(self.parts)]
        for _, number, document in heapq.merge(*ways, reverse=backwards):
            yield self.parts[number].segment.read_facts(document)

    def id_set_hash(self) -> str:
        """Return the `IdSet` hash of all live ids, read anew from every document and chunk."""
        ids = IdSet()
        for segment, document in self._live_documents():
            key = document_key(segment.facts(document).document_id)
            ids.add(key, map(segment.chunk_id, segment.rows_of(document)))
        return ids.hexadecimal

    def _live_documents(self) -> Iterator[tuple[Segment, int]]:
        for part in self.parts:
            documents = range(part.segment.document_count)
            yield from ((part.segment, document) for document in documents if document not in part.dead_documents)

    def chunks(self, document_id: str) -> tuple[Chunk, ...]:
        """Return the document's chunks in its order; an empty tuple where the document is not in this generation."""
        place = self.find_document(document_id)
        return tuple(map(self.parts[place.part].segment.chunk, place.rows)) if place else ()

    def vectors(self, document_id: str) -> Vectors | None:
        """Return the vectors (n, d) of the document's chunks in its order; None for a document that is not here."""
        place = self.find_document(document_id)
        if place is None:
            return None
        return self.parts[place.part].segment.vectors_of(np.array(place.rows, dtype=np.int64))

    @cached_property
    def _with_rows(self) -> list[Part]:
        return [part for part in self.parts if len(part.segment.numbers)]


Listed = Literal["by_id", "by_fetch"]
"""Orders of documents: by id, or by the time of their fetch."""


def _listed_in(
    part: Part, number: int, by: Listed, after: str | None, backwards: bool
) -> Iterator[tuple[str, int, int]]:
    order: list[tuple[str, int]] = getattr(part.segment, by)
    if backwards:
        last = len(order) if after is None else bisect.bisect_left(order, (after, -1))
        places = range(last - 1, -1, -1)
    else:
        places = range(0 if after is None else bisect.bisect_left(order, (after + "\0", -1)), len(order))
    found = (order[place] for place in places)
    return ((position, number, document) for position, document in found if document not in part.dead_documents)


Floats = list[float]
Numbers = list[int]


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """The result of one retriever, best first: `numbers` of chunks and their `scores`, of equal length."""

    numbers: Numbers
    scores: Floats

    @classmethod
    def of(cls, hits: Sequence[tuple[int, float]]) -> Ranked:
        """Make a result of pairs of a number and a score."""
        return cls([number for number, _ in hits], [score for _, score in hits])


NOTHING_FOUND = Ranked.of(())


class OpenGeneration(View):
    """A generation as a view of the corpus.

    Until it is closed, its folder is pinned against collection. `known` are segments that are already open. Raises
    `Corrupted` when it does not open, and `Unavailable` where the machine lacks memory, file handles or disk.
    """

    def __init__(self, folder: Path, manifest: Manifest, known: dict[str, StoredSegment] | None = None) -> None:
        self._pin = Pin(folder / MANIFEST)
        self.manifest = manifest
        try:
            parts = [_open_part(folder, entry, known or {}) for entry in manifest.segments]
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            if is_shortage(error):
                raise Unavailable(f"generation {folder.name} cannot be opened now: {error}") from error
            raise Corrupted(f"generation {folder.name} does not open: {error}") from error
        super().__init__(Coverage.of(folder.name, manifest), parts, TermIndex(folder / "terms"))

    @cached_property
    def segments(self) -> dict[str, StoredSegment]:
        """The opened segments by name, for the next generation to share."""
        return {part.segment.name: part.segment for part in self.parts if isinstance(part.segment, StoredSegment)}

    def close(self) -> None:
        """Unpin the folder, so that it can be collected. No search may be using the generation."""
        self._pin.release()


def read_dead(folder: Path, entry: SegmentEntry) -> frozenset[int]:
    """Read the positions of the dead documents of a segment."""
    if entry.dead_file is None:
        return frozenset()
    return frozenset(np.load(folder / "segments" / entry.dead_file, allow_pickle=False).tolist())


def _open_part(folder: Path, entry: SegmentEntry, known: dict[str, StoredSegment]) -> Part:
    segment = known.get(entry.name) or StoredSegment(folder / "segments", entry.name)
    if len(segment.numbers) != entry.chunk_count or segment.document_count != entry.document_count:
        raise ValueError(f"segment {entry.name} has other counts than the manifest")
    dead = read_dead(folder, entry)
    return Part(segment, dead, segment.alive(sorted(dead)))
