"""BM25 over the few chunks that the term index does not have yet, with the scores that it would give them.

score = boost · idf · tf · (k1 + 1) / (tf + k1 · (1 - b + b · length / average length))
idf   = ln(1 + (N - n + 0.5) / (n + 0.5))

as Tantivy has it (Robertson and Zaragoza, 2009; k1 1.2, b 0.75). N and n count the chunks of both, so a
chunk ranks among the others as it will once it is in the term index itself. What differs: lengths are
exact here and rounded there, and the average length is an estimate from a sample.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from index.segment import Mask
from index.term_search import K1, B, Boosts, Hit, TermEntry, Terms, WeightedTerm, question_terms, rarity
from index.words import analyse

FIELDS = ("text", "title", "headings", "code")


Posting = tuple[int, int, int]
"""A term in one chunk: the row, how often it stands there, and how many terms the field has. A plain tuple, as
there are a hundred to a chunk."""


class RecentPostings:
    """Postings of rows as they come. Only grows: an older view looks at the rows that it knows."""

    def __init__(self) -> None:
        self._postings: defaultdict[tuple[str, str], list[Posting]] = defaultdict(list)
        self._lengths: dict[str, int] = dict.fromkeys(FIELDS, 0)
        self._rows = 0

    def add(self, row: int, entry: TermEntry) -> None:
        """Take in the terms of a chunk."""
        self._rows += 1
        for field, terms in field_terms(entry).items():
            self._lengths[field] += len(terms)
            length = len(terms)
            for term, count in Counter(terms).items():
                self._postings[field, term].append((row, count, length))

    def of(self, field: str, term: str) -> Sequence[Posting]:
        """The postings of a term, in row order."""
        return self._postings.get((field, term), ())

    def average_lengths(self) -> Mapping[str, float]:
        """Terms per chunk in each field."""
        return {field: total / max(self._rows, 1) for field, total in self._lengths.items()}


def field_terms(entry: TermEntry) -> dict[str, list[str]]:
    """The terms of a chunk by field, analysed as the term index does."""
    prose = {"text": entry.text, "title": entry.title, "headings": entry.headings}
    return {**{field: analyse(text) for field, text in prose.items() if text}, "code": entry.code.split()}


class JoinedTerms:
    """The term index and the recent rows, searched as one.

    `replaced` are chunk numbers of the index that are gone; `living` says which of the recent rows are
    alive, the row `i` being the chunk `first_number + i`.
    """

    def __init__(
        self,
        index: Terms,
        replaced: Collection[int],
        postings: RecentPostings,
        first_number: int,
        living: Mask,
        average_lengths: Mapping[str, float],
    ) -> None:
        self._index = index
        self._replaced = replaced
        self._postings = postings
        self._first_number = first_number
        self._living = living
        self._average_lengths = average_lengths
        self._chunk_count = index.chunk_count - len(replaced) + int(np.count_nonzero(living))

    @property
    def chunk_count(self) -> int:
        """Chunks alive."""
        return self._chunk_count

    def frequency(self, field: str, term: str) -> int:
        """As `TermCounts.frequency`."""
        return self._index.frequency(field, term) + len(self._living_postings(field, term))

    def search(self, text: str, boosts: Boosts, limit: int, only: Sequence[int] | None = None) -> list[Hit]:
        """As `Terms.search`."""
        recent = self._recent_hits(question_terms(text, boosts, self), only)
        hits = [*self._indexed_hits(text, boosts, limit, only), *recent.items()]
        return sorted(hits, key=lambda hit: -hit[1])[:limit]

    def _indexed_hits(self, text: str, boosts: Boosts, limit: int, only: Sequence[int] | None) -> list[Hit]:
        """Those that are not replaced: as many may have to be looked at in vain as are."""
        depth = limit
        while True:
            hits = self._index.search(text, boosts, depth, only)
            living = [hit for hit in hits if hit[0] not in self._replaced]
            if len(living) >= limit or len(hits) < depth:
                return living[:limit]
            depth = min(4 * depth, limit + len(self._replaced))

    def _recent_hits(self, wanted: Iterable[WeightedTerm], only: Sequence[int] | None) -> dict[int, float]:
        chosen = None if only is None else set(only)
        scores: defaultdict[int, float] = defaultdict(float)
        for term in wanted:
            postings = self._living_postings(term.field, term.term)
            weight = self._weight(term, len(postings))
            for row, count, length in postings:
                number = self._first_number + row
                if chosen is None or number in chosen:
                    scores[number] += weight * self._saturation(term.field, count, length)
        return scores

    def _living_postings(self, field: str, term: str) -> list[Posting]:
        rows = len(self._living)
        return [one for one in self._postings.of(field, term) if one[0] < rows and self._living[one[0]]]

    def _weight(self, wanted: WeightedTerm, recent_count: int) -> float:
        """Boost and rarity of a term."""
        frequency = self._index.frequency(wanted.field, wanted.term) + recent_count
        return wanted.boost * rarity(self._chunk_count, frequency)

    def _saturation(self, field: str, count: int, length: int) -> float:
        relative_length = length / max(self._average_lengths[field], 1e-9)
        return count * (K1 + 1) / (count + K1 * (1 - B + B * relative_length))
