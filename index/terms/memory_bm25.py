"""BM25 over the chunks of the memory segment, with the scores that the term index would give them.

score = boost · idf · tf · (k1 + 1) / (tf + k1 · (1 - b + b · length / average length))
idf   = ln(1 + (N - n + 0.5) / (n + 0.5))

as Tantivy has it (Robertson and Zaragoza, 2009; k1 1.2, b 0.75). N and n count the chunks of both, so a
chunk ranks as it will once it is in the term index. Differences: lengths are exact here and rounded there, and the
average length is estimated from a sample.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from sluice.index.segments.segment import Mask
from sluice.index.terms.bm25 import (
    Boosts,
    Hit,
    Terms,
    WeightedTerm,
    list_languages,
    weigh_function_words,
    weigh_question_terms,
)
from sluice.index.terms.chunk_terms import FIELDS, ChunkTerms
from sluice.text.bm25 import inverse_document_frequency, saturation

Posting = tuple[int, int, int]
"""A term in one chunk: the row, the number of occurrences, and the number of terms of the field."""


class MemoryPostings:
    """Postings of rows in the order of their arrival. Only grows: an older view ignores later rows.

    A term lists a row once for each occurrence; occurrences are counted when the term is searched, as few of the
    terms of a chunk ever are.
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
        """The postings of a term in the live rows, in row order."""
        counts, lengths = self._counted(field, term, live), self._lengths[field]
        return [(row, count, lengths[row]) for row, count in counts.items()]

    def frequency(self, field: str, term: str, live: Mask) -> int:
        """The number of live rows that have the term."""
        return len(self._counted(field, term, live)) if term in self._rows[field] else 0

    def within(self, field: str, term: str, rows: Iterable[int]) -> Iterator[Posting]:
        """The postings of a term in these rows: a look-up for each, however many other rows have the term."""
        found = self._rows[field].get(term, [])
        for row in rows if found else ():
            first = bisect_left(found, row)
            if first < len(found) and found[first] == row:
                yield row, bisect_right(found, row, first) - first, self._lengths[field][row]

    def frequency_so_far(self, field: str, term: str) -> int:
        """The number of rows that have the term, those that were replaced included; what was counted stays counted."""
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
        """Terms per chunk in each field."""
        return {field: sum(lengths) / max(self._row_count, 1) for field, lengths in self._lengths.items()}

    def _counted(self, field: str, term: str, live: Mask) -> Counter[int]:
        rows, count = self._rows[field].get(term, ()), len(live)
        return Counter([row for row in rows if row < count and live[row]])


class JoinedTerms:
    """The term index and the memory segment's postings, searched as one.

    `replaced` are the chunk numbers of the index that are dead; `live`, bool (rows,), says which rows of the memory
    segment are live. Its row `i` is the chunk `first_number + i`.
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
        """Chunks alive."""
        return self._chunk_count

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """As `TermCounts.languages`."""
        return list_languages(self)

    def frequency(self, field: str, term: str) -> int:
        """As `TermCounts.frequency`."""
        return self._index.frequency(field, term) + self._postings.frequency(field, term, self._live)

    def search(self, text: str, boosts: Boosts, limit: int, only: Sequence[int] | None = None) -> list[Hit]:
        """As `Terms.search`."""
        in_memory = self._memory_hits(weigh_question_terms(text, boosts, self), only)
        hits = [*self._indexed_hits(text, boosts, limit, only), *in_memory.items()]
        return sorted(hits, key=lambda hit: -hit[1])[:limit]

    def score(self, text: str, boosts: Boosts, numbers: Sequence[int]) -> list[float]:
        """As `Terms.score`."""
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
        """The hits that are not replaced. Searches deeper while replaced ones leave too few."""
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
        """The boost times the inverse document frequency of a term."""
        frequency = self._index.frequency(wanted.field, wanted.term) + memory_count
        return wanted.boost * inverse_document_frequency(self._chunk_count, frequency)

    def _saturation(self, field: str, count: int, length: int) -> float:
        return saturation(count, length / max(self._average_lengths[field], 1e-9))
