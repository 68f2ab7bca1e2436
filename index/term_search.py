"""What searching for terms means, whoever holds them: which terms of a question count, and how much.

Questions become plain terms, so no character of a user's text is query syntax, and their number is bounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from index.identifiers import identifier_query_terms
from index.words import STOP_WORDS, analyse, content_terms

K1 = 1.2
B = 0.75
"""Tantivy's constants of BM25 (Robertson and Zaragoza, 2009)."""
PROSE_FIELDS = ("text", "title", "headings")
_STOPPED = frozenset(STOP_WORDS)
Hit = tuple[int, float]
"""A chunk number and its BM25 score."""


@dataclass(frozen=True, slots=True)
class Boosts:
    """Weights of the fields, text being 1, and the most terms of a question to search."""

    title: float
    headings: float
    code: float
    max_terms: int


@dataclass(frozen=True, slots=True)
class WeightedTerm:
    """One term of a question in one field, and what its BM25 score is multiplied by."""

    field: str
    term: str
    boost: float


@dataclass(frozen=True, slots=True)
class TermEntry:
    """A chunk as the term index takes it in."""

    number: int
    document_key: int
    title: str
    headings: str
    text: str
    code: str


class TermCounts(Protocol):
    """How frequent terms are."""

    @property
    def chunk_count(self) -> int:
        """Chunks alive."""
        ...

    def frequency(self, field: str, term: str) -> int:
        """In how many chunks an analysed term stands in `field`; replaced chunks may count for a while."""
        ...


class Terms(TermCounts, Protocol):
    """The terms of a corpus, searched by BM25. Safe for threads."""

    def search(self, text: str, boosts: Boosts, limit: int, only: Sequence[int] | None = None) -> list[Hit]:
        """The best `limit` chunks for a question, best first; among the numbers in `only` when given.

        The score is the sum of BM25 over fields and terms, each weighted by its boost.
        """
        ...


def document_frequency(terms: TermCounts, word: str) -> int:
    """In how many chunks `word` stands, by its rarest part, in text, title or headings."""
    return min((max(terms.frequency(field, part) for field in PROSE_FIELDS) for part in analyse(word)), default=0)


def best_possible_score(text: str, counts: TermCounts) -> float:
    """The limit of the BM25 score of a chunk that has every content word of a question, again and again."""
    population = counts.chunk_count
    frequencies = (counts.frequency("text", term) for term in content_terms(text))
    return (K1 + 1) * sum(rarity(population, frequency) for frequency in frequencies)


def rarity(population: int, frequency: int) -> float:
    """The inverse document frequency as Tantivy has it: ln(1 + (N - n + 0.5) / (n + 0.5))."""
    return math.log(1 + max(0.0, population - frequency + 0.5) / (frequency + 0.5))


def question_terms(text: str, boosts: Boosts, counts: TermCounts) -> list[WeightedTerm]:
    """What to search for: the content words of a question in every field, its identifiers in the code field."""
    return [*_prose_terms(text, boosts, counts), *_code_terms(text, boosts)]


def _prose_terms(text: str, boosts: Boosts, counts: TermCounts) -> Iterator[WeightedTerm]:
    terms: Sequence[str] = content_terms(text)
    if len(terms) > boosts.max_terms:
        nowhere = counts.chunk_count + 1  # rarest first, but what nobody wrote last
        terms = sorted(terms, key=lambda term: counts.frequency("text", term) or nowhere)[: boosts.max_terms]
    for field, boost in (("text", 1.0), ("title", boosts.title), ("headings", boosts.headings)):
        if boost > 0:
            yield from (WeightedTerm(field, term, boost) for term in terms)


def _code_terms(text: str, boosts: Boosts) -> Iterator[WeightedTerm]:
    if boosts.code > 0:
        terms = dict.fromkeys(term for term in identifier_query_terms(text) if term not in _STOPPED)
        yield from (WeightedTerm("code", term, boosts.code) for term in list(terms)[: boosts.max_terms])
