"""The memory segment: what the journal has beyond a generation, held in memory and searched exactly.

Generations are published now and then. Documents that were appended since are searchable at once, because a reader
follows the journal and adds a memory segment to the generation:

    MemorySegments.apply(offset, record)   add one journal record
    MemorySegments.view()                  the generation and all records so far, as one immutable view

All structures only grow. A view knows how many rows and documents it has, so later records do not change it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sluice.index.generations.view import Part, View
from sluice.index.journal.document_facts import DocumentFacts, document_key, make_facts
from sluice.index.journal.records import Record, Removal, Upsert, Vectors
from sluice.index.local.prepare import prepare_document
from sluice.index.segments.segment import Mask, Rows, Segment, inner_products, search_exactly
from sluice.index.terms.chunk_terms import FIELDS, ChunkTerms, extract_chunk_terms
from sluice.index.terms.memory_bm25 import JoinedTerms, MemoryPostings

_LENGTH_SAMPLE = 64
"""Chunks of the generation whose lengths are counted to estimate the average."""


@dataclass(frozen=True, slots=True)
class FieldLengths:
    """The average number of terms in each field, estimated when the index had so many chunks."""

    chunk_count: int
    averages: Mapping[str, float]

    def still_holds(self, chunk_count: int) -> bool:
        """Whether the estimate is still good: the index has at most doubled."""
        return 0 < self.chunk_count <= chunk_count <= 2 * self.chunk_count


class MemorySegments:
    """The records after a generation. Not safe for threads; its views are."""

    def __init__(self, base: View, first_number: int, lengths: FieldLengths | None = None) -> None:
        """`lengths` is an estimate made for an earlier generation, where there is one."""
        self._base = base
        self._lengths = lengths if lengths and lengths.still_holds(base.chunk_count) else None
        self._rows = _GrowingRows(first_number)
        self._postings = MemoryPostings()
        self._newest: dict[int, int] = {}
        self._dead: set[int] = set()
        self._dead_in: list[set[int]] = [set(part.dead_documents) for part in base.parts]
        self._replaced: set[int] = set()
        self._coverage = base.coverage

    @property
    def chunk_count(self) -> int:
        """Number of rows, dead ones included."""
        return len(self._rows.numbers)

    def apply(self, offset: int, record: Record) -> None:
        """Apply the next journal record."""
        match record:
            case Removal(document_id):
                self._forget(document_key(document_id))
            case Upsert(document, vectors, fingerprint):
                self._forget(document_key(document.document_id))
                if len(vectors) and self._coverage.dimension is None:
                    self._coverage = replace(self._coverage, model_fingerprint=fingerprint, dimension=vectors.shape[1])
                self._add_version(offset, record)
        self._coverage = replace(self._coverage, journal_offset=offset)

    @property
    def known_lengths(self) -> FieldLengths | None:
        """The estimate, if one was needed so far; it may serve the next generation."""
        return self._lengths

    @property
    def lengths(self) -> FieldLengths:
        """The average lengths of fields: by a sample of the generation, or of the memory segment if that is empty."""
        if self._lengths is None or not self._lengths.still_holds(self._base.chunk_count):
            averages = _sample_lengths(self._base, _LENGTH_SAMPLE) or self._postings.average_lengths()
            self._lengths = FieldLengths(self._base.chunk_count, averages)
        return self._lengths

    def view(self) -> View:
        """The corpus as of the last record."""
        segment = MemorySegment(self._rows, f"recent-{self._coverage.journal_offset}")
        dead = frozenset(self._dead)
        alive = segment.alive(sorted(dead))
        parts = [self._base_part(position) for position in range(len(self._base.parts))]
        live = np.ones(len(segment.numbers), dtype=np.bool_) if alive is None else alive
        terms = JoinedTerms(
            self._base.terms,
            frozenset(self._replaced),
            self._postings,
            self._rows.first_number,
            live,
            self.lengths.averages,
        )
        return View(self._coverage, [*parts, Part(segment, dead, alive)], terms)

    def _add_version(self, offset: int, version: Upsert) -> None:
        entry, terms = prepare_document(offset, version, self._rows.first_number + len(self._rows.numbers))
        self._postings.add(terms)
        self._newest[entry.key] = self._rows.add(
            entry.key,
            make_facts(version.document),
            entry.chunk_ids,
            entry.chunk_records,
            entry.languages,
            entry.vectors,
        )
        self._count(1, len(entry.numbers))

    def _forget(self, key: int) -> None:
        own = self._newest.pop(key, None)
        if own is not None:
            self._dead.add(own)
            self._count(-1, -len(self._rows.rows_of(own)))
            return
        for position, part in enumerate(self._base.parts):
            for document in part.segment.find_document(key):
                if document not in self._dead_in[position]:
                    rows = part.segment.rows_of(document)
                    self._dead_in[position].add(document)
                    self._replaced.update(part.segment.numbers[rows.start : rows.stop].tolist())
                    self._count(-1, -len(rows))

    def _count(self, documents: int, chunks: int) -> None:
        coverage = self._coverage
        self._coverage = replace(
            coverage, document_count=coverage.document_count + documents, chunk_count=coverage.chunk_count + chunks
        )

    def _base_part(self, position: int) -> Part:
        part, dead = self._base.parts[position], self._dead_in[position]
        if len(dead) == len(part.dead_documents):
            return part
        return Part(part.segment, frozenset(dead), part.segment.alive(sorted(dead)))


class MemorySegment(Segment):
    """The rows that were in memory when it was made, as a segment."""

    def __init__(self, rows: _GrowingRows, name: str) -> None:
        self.name = name
        self._rows = rows
        self._count = len(rows.numbers)
        self._document_count = len(rows.facts)
        self._vectors = rows.vectors[: self._count]
        self.numbers = np.arange(rows.first_number, rows.first_number + self._count, dtype=np.uint64)
        self.owners = np.array(rows.owners, dtype=np.uint32)

    @property
    def document_count(self) -> int:
        """As `Segment.document_count`."""
        return self._document_count

    @cached_property
    def languages(self) -> NDArray[np.str_]:
        """As `Segment.languages`."""
        return np.array([name.lower() for name in self._rows.languages[: self._count]], dtype=np.str_)

    def search(self, vector: Vectors, limit: int, allowed: Mask | None) -> tuple[Vectors, Rows]:
        """As `Segment.search`, exactly."""
        if self._count == 0:
            return np.empty(0, dtype=np.float32), np.empty(0, dtype=np.int64)
        return search_exactly(self._vectors, vector, limit, allowed)

    def vectors_of(self, rows: Rows) -> Vectors:
        """As `Segment.vectors_of`."""
        vectors: Vectors = self._vectors[rows]
        return vectors

    def products(self, rows: Rows, vector: Vectors) -> Vectors:
        """As `Segment.products`."""
        return inner_products(self._vectors, rows, vector)

    def chunk_id(self, row: int) -> str:
        """As `Segment.chunk_id`."""
        return self._rows.chunk_ids[row]

    def chunk_record(self, row: int) -> bytes:
        """As `Segment.chunk_record`."""
        return self._rows.chunk_records[row]

    def facts(self, document: int) -> DocumentFacts:
        """As `Segment.facts`."""
        return self._rows.facts[document]

    def rows_of(self, document: int) -> range:
        """As `Segment.rows_of`."""
        return self._rows.rows_of(document)

    def find_document(self, key: int) -> list[int]:
        """As `Segment.find_document`."""
        return [document for document in self._rows.documents.get(key, ()) if document < self._document_count]


class _GrowingRows:
    """Rows in the order of their arrival."""

    def __init__(self, first_number: int) -> None:
        self.first_number = first_number
        self.numbers = range(first_number, first_number)
        self.vectors: Vectors = np.empty((0, 0), dtype=np.float32)
        self.owners: list[int] = []
        self.languages: list[str] = []
        self.chunk_ids: list[str] = []
        self.chunk_records: list[bytes] = []
        self.facts: list[DocumentFacts] = []
        self.first_rows: list[int] = [0]
        self.documents: dict[int, list[int]] = {}

    def add(
        self,
        key: int,
        facts: DocumentFacts,
        chunk_ids: Iterable[str],
        chunk_records: Iterable[bytes],
        languages: Iterable[str],
        vectors: Vectors,
    ) -> int:
        """Add a document with the vectors (n, d) of its n chunks; returns its position."""
        document = len(self.facts)
        self._append_vectors(vectors)
        self.owners += [document] * len(vectors)
        self.languages += languages
        self.chunk_ids += chunk_ids
        self.chunk_records += chunk_records
        self.facts.append(facts)
        self.first_rows.append(len(self.owners))
        self.numbers = range(self.first_number, self.first_number + len(self.owners))
        self.documents.setdefault(key, []).append(document)
        return document

    def rows_of(self, document: int) -> range:
        """The rows of a document."""
        return range(self.first_rows[document], self.first_rows[document + 1])

    def _append_vectors(self, vectors: Vectors) -> None:
        """Append the vectors to a buffer that doubles; older views keep their buffer, whose rows never change."""
        start, stop = len(self.owners), len(self.owners) + len(vectors)
        if len(vectors) and stop > len(self.vectors):
            larger = np.empty((max(64, 2 * stop), vectors.shape[1]), dtype=np.float32)
            larger[:start] = self.vectors[:start] if start else 0
            self.vectors = larger
        if len(vectors):
            self.vectors[start:stop] = vectors


def _sample_lengths(view: View, count: int) -> dict[str, float]:
    """The average lengths over `count` chunks spread evenly over the view; empty where it has none."""
    step = max(1, sum(len(part.segment.numbers) for part in view.parts) // count)
    sampled = [
        _extract_row_terms(part.segment, row)
        for part in view.parts
        for row in range(0, len(part.segment.numbers), step)
    ]
    return {field: sum(len(terms[field].split()) for terms in sampled) / len(sampled) for field in FIELDS if sampled}


def _extract_row_terms(segment: Segment, row: int) -> ChunkTerms:
    facts, chunk = segment.facts(int(segment.owners[row])), segment.chunk(row)
    return extract_chunk_terms(facts.title, chunk.language or facts.language, chunk)
