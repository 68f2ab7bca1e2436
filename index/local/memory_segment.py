"""The memory segment: the journal records after a generation, held in memory and searched exactly.

Generations are published now and then. Documents appended since then are searchable at once, because a reader follows
the journal and adds a memory segment to the generation:

    MemorySegments.apply(offset, record)   add one journal record
    MemorySegments.view()                  the generation and all records so far, as one immutable view

All structures only grow. A view knows how many rows and documents it has, so later records do not change it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.document import DocumentFacts
from sluice.index.generations.view import Part, View
from sluice.index.journal.records import Record, Removal, Upsert, Vectors, document_key, make_facts
from sluice.index.segments.segment import Mask, Segment
from sluice.index.segments.segment_file import SegmentDocument
from sluice.index.terms.terms import (
    FIELDS,
    Boosts,
    ChunkTerms,
    Hit,
    Terms,
    WeightedTerm,
    extract_chunk_terms,
    prepare_document,
    weigh_function_words,
    weigh_question_terms,
)
from sluice.text.words import inverse_document_frequency, saturation

_LENGTH_SAMPLE = 64
"""Chunks of the generation whose lengths are counted to estimate the average."""


class MemorySegments:
    """The records after a generation. Not safe for threads; its views are."""

    def __init__(self, base: View, first_number: int) -> None:
        self._base = base
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

    @cached_property
    def _base_lengths(self) -> Mapping[str, float]:
        """Average terms of each field in a sample of the generation; empty where it has no chunk."""
        return _sample_lengths(self._base, _LENGTH_SAMPLE)

    def view(self) -> View:
        """Return the corpus as of the last record."""
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
            self._base_lengths or self._postings.average_lengths(),
        )
        return View(self._coverage, [*parts, Part(segment, dead, alive)], terms)

    def _add_version(self, offset: int, version: Upsert) -> None:
        entry, terms = prepare_document(offset, version, self._rows.first_number + len(self._rows.numbers))
        self._postings.add(terms)
        self._newest[entry.key] = self._rows.add(entry, make_facts(version.document))
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
    """The rows in memory at the time of its creation, as a segment."""

    def __init__(self, rows: _GrowingRows, name: str) -> None:
        self.name = name
        self._rows = rows
        count = len(rows.numbers)
        self.document_count = len(rows.facts)
        self._vectors = rows.vectors[:count]
        self.numbers = np.arange(rows.first_number, rows.first_number + count, dtype=np.uint64)
        self.owners = np.array(rows.owners, dtype=np.uint32)

    @cached_property
    def languages(self) -> NDArray[np.str_]:
        """Languages as in `Segment.languages`."""
        return np.array([name.lower() for name in self._rows.languages[: len(self.numbers)]], dtype=np.str_)

    def chunk_id(self, row: int) -> str:
        """Return the chunk id, as `Segment.chunk_id` does."""
        return self._rows.chunk_ids[row]

    def chunk_record(self, row: int) -> bytes:
        """Return the chunk's JSON, as `Segment.chunk_record` does."""
        return self._rows.chunk_records[row]

    def facts(self, document: int) -> DocumentFacts:
        """Return the document's facts, as `Segment.facts` does."""
        return self._rows.facts[document]

    def rows_of(self, document: int) -> range:
        """Return the document's rows, as `Segment.rows_of` does."""
        return self._rows.rows_of(document)

    def find_document(self, key: int) -> list[int]:
        """Return the documents under `key`, as `Segment.find_document` does."""
        return [document for document in self._rows.documents.get(key, ()) if document < self.document_count]


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

    def add(self, entry: SegmentDocument, facts: DocumentFacts) -> int:
        """Add a document with its chunks and vectors, and return its position."""
        document = len(self.facts)
        self._append_vectors(entry.vectors)
        self.owners += [document] * len(entry.vectors)
        self.languages += entry.languages
        self.chunk_ids += entry.chunk_ids
        self.chunk_records += entry.chunk_records
        self.facts.append(facts)
        self.first_rows.append(len(self.owners))
        self.numbers = range(self.first_number, self.first_number + len(self.owners))
        self.documents.setdefault(entry.key, []).append(document)
        return document

    def rows_of(self, document: int) -> range:
        """Return the rows of a document."""
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
    """Return the average lengths over `count` chunks spread evenly over the view; empty where it has none."""
    step = max(1, sum(len(part.segment.numbers) for part in view.parts) // count)
    sampled = [
        _extract_row_terms(part.segment, row)
        for part in view.parts
        for row in range(0, len(part.segment.numbers), step)
    ]
    return {
        field: sum(len(terms.get(field, "").split()) for terms in sampled) / len(sampled) for field in FIELDS if sampled
    }


def _extract_row_terms(segment: Segment, row: int) -> ChunkTerms:
    facts, chunk = segment.facts(int(segment.owners[row])), segment.chunk(row)
    return extract_chunk_terms(facts.title, chunk.language or facts.language, chunk)


Posting = tuple[int, int, int]
"""A term in one chunk: the row, the number of occurrences, and the number of terms of the field."""


class MemoryPostings:
    """Postings of rows in the order of their arrival. Only grows: an older view ignores later rows.

    A term lists a row once for each occurrence; occurrences are counted when the term is searched, since few of a
    chunk's terms are ever searched.
    """

    def __init__(self) -> None:
        self._rows: dict[str, defaultdict[str, list[int]]] = {field: defaultdict(list) for field in FIELDS}
        self._lengths: dict[str, list[int]] = {field: [] for field in FIELDS}
        self._frequencies: dict[tuple[str, str], tuple[int, int]] = {}
        self._row_count = 0

    def add(self, chunks: Iterable[ChunkTerms]) -> None:
        """Add the terms of the next chunks."""
        for row, fields in enumerate(chunks, start=self._row_count):
            for field, joined in fields.items():
                terms, rows_of = joined.split(), self._rows[field]
                self._lengths[field].append(len(terms))
                for term in terms:
                    rows_of[term].append(row)
            self._row_count += 1

    def of(self, field: str, term: str, live: Mask) -> list[Posting]:
        """Return the postings of a term in the live rows, in row order."""
        counts, lengths = self._counted(field, term, live), self._lengths[field]
        return [(row, count, lengths[row]) for row, count in counts.items()]

    def frequency(self, field: str, term: str, live: Mask) -> int:
        """Return the number of live rows that have the term."""
        return len(self._counted(field, term, live)) if term in self._rows[field] else 0

    def within(self, field: str, term: str, rows: Iterable[int]) -> Iterator[Posting]:
        """Yield the postings of a term in these rows: one look-up per row, however many other rows have the term."""
        found = self._rows[field].get(term, [])
        for row in rows if found else ():
            first = bisect_left(found, row)
            if first < len(found) and found[first] == row:
                yield row, bisect_right(found, row, first) - first, self._lengths[field][row]

    def frequency_so_far(self, field: str, term: str) -> int:
        """Count the rows that have the term, replaced rows included. Rows counted once are not counted again."""
        found = self._rows[field].get(term)
        if not found:
            return 0
        counted, rows = self._frequencies.get((field, term), (0, 0))
        fresh = found[counted:]
        if fresh:
            rows += len(set(fresh)) - (counted > 0 and fresh[0] == found[counted - 1])
            self._frequencies[field, term] = counted + len(fresh), rows
        return rows

    def average_lengths(self) -> Mapping[str, float]:
        """Return the number of terms per chunk in each field."""
        return {field: sum(lengths) / max(self._row_count, 1) for field, lengths in self._lengths.items()}

    def _counted(self, field: str, term: str, live: Mask) -> Counter[int]:
        rows, count = self._rows[field].get(term, ()), len(live)
        return Counter([row for row in rows if row < count and live[row]])


class JoinedTerms(Terms):
    """The term index and the memory segment's postings, searched as one.

        score = boost · idf · tf · (k1 + 1) / (tf + k1 · (1 - b + b · length / average length))
        idf   = ln(1 + (N - n + 0.5) / (n + 0.5))

    as in Tantivy (Robertson and Zaragoza, 2009; k1 1.2, b 0.75). N and n count the chunks of both, so a chunk ranks as
    it will once it is in the term index. Differences: lengths are exact here and rounded there, and the average length
    is estimated from a sample.

    `replaced` are the chunk numbers of the index that are dead; `live`, bool (rows,), marks the live rows of the memory
    segment. Its row `i` is the chunk `first_number + i`.
    """

    def __init__(
        self,
        index: Terms,
        replaced: Collection[int],
        postings: MemoryPostings,
        first_number: int,
        live: Mask,
        average_lengths: Mapping[str, float],
    ) -> None:
        self._index = index
        self._replaced = replaced
        self._postings = postings
        self._first_number = first_number
        self._live = live
        self._average_lengths = average_lengths
        self._chunk_count = index.chunk_count - len(replaced) + int(np.count_nonzero(live))

    @property
    def chunk_count(self) -> int:
        """Number of live chunks."""
        return self._chunk_count

    def frequency(self, field: str, term: str) -> int:
        """Return the frequency, as `Terms.frequency` does."""
        return self._index.frequency(field, term) + self._postings.frequency(field, term, self._live)

    def search(self, text: str, boosts: Boosts, limit: int, only: Sequence[int] | None = None) -> list[Hit]:
        """Search as `Terms.search` does."""
        in_memory = self._memory_hits(weigh_question_terms(text, boosts, self), only)
        hits = [*self._indexed_hits(text, boosts, limit, only), *in_memory.items()]
        return sorted(hits, key=lambda hit: -hit[1])[:limit]

    def score(self, text: str, boosts: Boosts, numbers: Sequence[int]) -> list[float]:
        """Score as `Terms.score` does."""
        indexed = [number for number in numbers if number < self._first_number]
        score_of = dict(zip(indexed, self._index.score(text, boosts, indexed), strict=True))
        rows = [number - self._first_number for number in numbers if number >= self._first_number]
        if rows:
            for term in (*weigh_question_terms(text, boosts, self), *weigh_function_words(text, boosts, self)):
                weight = self._weight(term, self._postings.frequency_so_far(term.field, term.term))
                for row, count, length in self._postings.within(term.field, term.term, rows):
                    score = weight * self._saturation(term.field, count, length)
                    score_of[row + self._first_number] = score_of.get(row + self._first_number, 0.0) + score
        return [score_of.get(number, 0.0) for number in numbers]

    def _indexed_hits(self, text: str, boosts: Boosts, limit: int, only: Sequence[int] | None) -> list[Hit]:
        """Return the hits on chunks that are not replaced, searching deeper while too few remain."""
        depth = limit
        while True:
            hits = self._index.search(text, boosts, depth, only)
            live = [hit for hit in hits if hit[0] not in self._replaced]
            if len(live) >= limit or len(hits) < depth:
                return live[:limit]
            depth = min(4 * depth, limit + len(self._replaced))

    def _memory_hits(self, wanted: Iterable[WeightedTerm], only: Sequence[int] | None) -> dict[int, float]:
        chosen = None if only is None else set(only)
        scores: defaultdict[int, float] = defaultdict(float)
        for term in wanted:
            postings = self._postings.of(term.field, term.term, self._live)
            weight = self._weight(term, len(postings))
            for row, count, length in postings:
                number = self._first_number + row
                if chosen is None or number in chosen:
                    scores[number] += weight * self._saturation(term.field, count, length)
        return scores

    def _weight(self, wanted: WeightedTerm, memory_count: int) -> float:
        """Return the boost times the inverse document frequency of a term."""
        frequency = self._index.frequency(wanted.field, wanted.term) + memory_count
        return wanted.boost * inverse_document_frequency(self._chunk_count, frequency)

    def _saturation(self, field: str, count: int, length: int) -> float:
        return saturation(count, length / max(self._average_lengths[field], 1e-9))
