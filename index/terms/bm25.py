"""What searching for terms means, whoever holds them: which terms of a question count, and how much.

Questions become plain terms, so no character of a user's text is query syntax, and their number is bounded.
A question is analysed in every language that the corpus has: in which one it is asked need not be known, and a term
of one language is never one of another (`index.terms.analysis`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from index.terms.analysis import ENGLISH, LANGUAGES, STOP_WORDS, analyse, content_words
from index.terms.identifiers import identifier_query_terms

K1 = 1.2
B = 0.75
"""Tantivy's constants of BM25 (Robertson and Zaragoza, 2009)."""
PROSE_FIELDS = ("text", "title", "headings")
LANGUAGE_FIELD = "language"
"""Holds the language that a chunk was analysed as, where it is not English."""
_STOPPED = frozenset(STOP_WORDS)
Hit = tuple[int, float]
"""A chunk number and its BM25 score."""


@dataclass(frozen=True, slots=True)
class Boosts:
    """Weights of the fields, text being 1, and the most terms of a question to search."""

    title: float = 0.5
    """Half did best on SciFact's training questions: nDCG@10 0.699, against 0.689 without titles and 0.642 at twice
    the text's weight."""
    headings: float = 0.5
    """Of a term found in the chunk's section path."""
    code: float = 0.25
    """Of a part of an identifier (camelCase, snake_case); low, as plain words match in the text too."""
    max_terms: int = 64
    """Terms of a question that are searched, the rarest first: a bound on the cost of a pasted page."""


USUAL_BOOSTS = Boosts()


class WeightedTerm(NamedTuple):
    """One term of a question in one field, and what its BM25 score is multiplied by."""

    field: str
    term: str
    boost: float


class TermCounts(Protocol):
    """How frequent terms are."""

    @property
    def chunk_count(self) -> int:
        """Chunks alive."""
        ...

    @property
    def languages(self) -> tuple[str, ...]:
        """What chunks were analysed as, English always among it: `languages_in` of this."""
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


def languages_in(counts: TermCounts) -> tuple[str, ...]:
    """The languages that chunks were analysed as, by the terms of the field that tells; English always."""
    return (ENGLISH, *[language for language in LANGUAGES if counts.frequency(LANGUAGE_FIELD, language)])


def document_frequency(terms: TermCounts, word: str) -> int:
    """In how many chunks `word` stands, by its rarest part, in text, title or headings."""
    analysed = [analyse(word, language) for language in terms.languages]
    return sum(
        min((max(terms.frequency(field, part) for field in PROSE_FIELDS) for part in parts), default=0)
        for parts in analysed
    )


def best_possible_score(text: str, counts: TermCounts) -> float:
    """The limit of the BM25 score of a chunk that has every content word of a question, again and again."""
    population = counts.chunk_count
    frequencies = (_frequency(counts, "text", terms) for terms in content_words(text, counts.languages))
    return (K1 + 1) * sum(rarity(population, frequency) for frequency in frequencies)


def rarity(population: int, frequency: int) -> float:
    """The inverse document frequency as Tantivy has it: ln(1 + (N - n + 0.5) / (n + 0.5))."""
    return math.log(1 + max(0.0, population - frequency + 0.5) / (frequency + 0.5))


def question_terms(text: str, boosts: Boosts, counts: TermCounts) -> list[WeightedTerm]:
    """What to search for: the content words of a question in every field, its identifiers in the code field."""
    return [*_prose_terms(text, boosts, counts), *_code_terms(text, boosts)]


def _prose_terms(text: str, boosts: Boosts, counts: TermCounts) -> Iterator[WeightedTerm]:
    words: Sequence[tuple[str, ...]] = content_words(text, counts.languages)
    if len(words) > boosts.max_terms:
        nowhere = counts.chunk_count + 1  # rarest first, but what nobody wrote last
        words = sorted(words, key=lambda terms: _frequency(counts, "text", terms) or nowhere)[: boosts.max_terms]
    for field, boost in (("text", 1.0), ("title", boosts.title), ("headings", boosts.headings)):
        if boost > 0:
            for terms in words:
                yield from _as_one(field, terms, boost, counts)


def _as_one(field: str, terms: Sequence[str], boost: float, counts: TermCounts) -> Iterator[WeightedTerm]:
    """The terms that a word has in several languages, all as rare as they are together.

    Else the one page of an English corpus that was taken for Danish would be the best for every question, as nothing is
    as rare there as what any English page is full of.
    """
    if len(terms) == 1:
        yield WeightedTerm(field, terms[0], boost)
        return
    population, together = counts.chunk_count, _frequency(counts, field, terms)
    for term in terms:
        if frequency := _frequency(counts, field, (term,)):
            yield WeightedTerm(field, term, boost * rarity(population, together) / rarity(population, frequency))


def _frequency(counts: TermCounts, field: str, terms: Sequence[str]) -> int:
    """In how many chunks one of a word's terms stands, each chunk having one language; what was replaced left aside."""
    return min(counts.chunk_count, sum([counts.frequency(field, term) for term in terms]))


def _code_terms(text: str, boosts: Boosts) -> Iterator[WeightedTerm]:
    if boosts.code > 0:
        terms = dict.fromkeys(term for term in identifier_query_terms(text) if term not in _STOPPED)
        yield from (WeightedTerm("code", term, boosts.code) for term in list(terms)[: boosts.max_terms])
