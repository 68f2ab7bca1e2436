"""BM25: the terms of a question to search, and their weights. Shared by all term indexes.

Questions become plain terms, so no character of a user's text is query syntax, and their number is bounded. A question
is analysed in every language that the corpus has, so its own language need not be known; a term of one language is
never a term of another (`index.terms.analysis`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from sluice.index.terms.analysis import (
    ENGLISH,
    LANGUAGES,
    STOP_WORDS,
    analyse,
    analyse_question,
    extract_query_identifiers,
)
from sluice.text.words import inverse_document_frequency

PROSE_FIELDS = ("text", "title", "headings")
LANGUAGE_FIELD = "language"
"""The field with the language of a chunk's analysis, where it is not English."""
_STOPPED = frozenset(STOP_WORDS)
Hit = tuple[int, float]
"""A chunk number and its BM25 score."""


@dataclass(frozen=True, slots=True)
class Boosts:
    """Weights of the fields (text has 1), and the largest number of a question's terms to search."""

    title: float = 0.5
    """Half did best on SciFact's training questions: nDCG@10 0.699, against 0.689 without titles and 0.642 at twice
    the text's weight."""
    headings: float = 0.5
    """Weight of a term found in the chunk's section path."""
    code: float = 0.25
    """Weight of a part of an identifier (camelCase, snake_case); low, as plain words match in the text too."""
    max_terms: int = 64
    """Terms of a question that are searched, the rarest first: a bound on the cost of a pasted page."""


USUAL_BOOSTS = Boosts()


class WeightedTerm(NamedTuple):
    """One term of a question in one field, and the factor of its BM25 score."""

    field: str
    term: str
    boost: float


class Terms(Protocol):
    """The terms of a corpus, searched by BM25. Safe for threads."""

    @property
    def chunk_count(self) -> int:
        """Number of live chunks."""

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of the chunks' analyses, by `list_languages`."""

    def frequency(self, field: str, term: str) -> int:
        """Return the number of chunks that have an analysed term in `field`. Replaced chunks may count for a while."""

    def search(self, text: str, boosts: Boosts, limit: int, only: Sequence[int] | None = None) -> list[Hit]:
        """Return the best `limit` chunks for a question, best first; restricted to the numbers in `only` when given.

        The score is the sum of BM25 over fields and terms, each weighted by its boost.
        """

    def score(self, text: str, boosts: Boosts, numbers: Sequence[int]) -> list[float]:
        """Return the BM25 scores of these chunks in their order; 0 for one without a word of the question.

        Unlike in `search`, function words count too. In a search they would take most of the time and find nothing, but
        they help to rank the chunks found. Costs little for some hundred chunks.
        """


def list_languages(counts: Terms) -> tuple[str, ...]:
    """List the languages of the chunks' analyses, by the terms of `LANGUAGE_FIELD`; English is always first."""
    return (ENGLISH, *[language for language in LANGUAGES if counts.frequency(LANGUAGE_FIELD, language)])


def count_chunks_with(terms: Terms, word: str) -> int:
    """Count the chunks that have `word` in text, title or headings; of a word with several parts the rarest counts."""
    analysed = [analyse(word, language) for language in terms.languages]
    return sum(
        min((max(terms.frequency(field, part) for field in PROSE_FIELDS) for part in parts), default=0)
        for parts in analysed
    )


def weigh_question_terms(text: str, boosts: Boosts, counts: Terms) -> list[WeightedTerm]:
    """Return the terms to search, with weights: content words in every prose field, identifiers in the code field."""
    content, _, occurrences = analyse_question(text, counts.languages)
    words = _choose_rarest(content, "text", boosts.max_terms, counts)
    return [*_weigh_words(words, occurrences, boosts, counts), *_code_terms(text, boosts, counts)]


def weigh_function_words(text: str, boosts: Boosts, counts: Terms) -> list[WeightedTerm]:
    """Return the terms for scoring found chunks that a search leaves out: function words in every prose field."""
    _, words, occurrences = analyse_question(text, counts.languages)
    return list(_weigh_words(words, occurrences, boosts, counts))


def _weigh_words(
    words: Iterable[Sequence[str]], occurrences: Mapping[str, int], boosts: Boosts, counts: Terms
) -> Iterator[WeightedTerm]:
    for field, boost in (("text", 1.0), ("title", boosts.title), ("headings", boosts.headings)):
        if boost > 0:
            for terms in words:
                for term, share in _as_one(field, terms, counts):
                    yield WeightedTerm(field, term, boost * share * weigh_repeats(occurrences[term]))


def weigh_repeats(occurrences: int) -> float:
    """Return the weight of a term by its occurrences in the question: a long question repeats its subject."""
    return math.sqrt(occurrences)


def _as_one(field: str, terms: Sequence[str], counts: Terms) -> Sequence[tuple[str, float]]:
    """Return the terms of a word in several languages, each with the weight that it has when they count as one term.
    Otherwise a single page of an English corpus, wrongly detected as Danish, would rank first for every question, since
    even the most common English words are rare in Danish.
    """
    if len(terms) == 1:
        return [(terms[0], 1.0)]
    population, together = counts.chunk_count, _frequency(counts, field, terms)
    rarity = inverse_document_frequency(population, together)
    frequencies = [(term, _frequency(counts, field, (term,))) for term in terms]
    return [
        (term, rarity / inverse_document_frequency(population, frequency))
        for term, frequency in frequencies
        if frequency
    ]


def _frequency(counts: Terms, field: str, terms: Sequence[str]) -> int:
    """Count the chunks that have one of a word's terms. Each chunk has one language, so the counts add up."""
    return min(counts.chunk_count, sum([counts.frequency(field, term) for term in terms]))


def _code_terms(text: str, boosts: Boosts, counts: Terms) -> Iterator[WeightedTerm]:
    if boosts.code > 0:
        names = dict.fromkeys((term,) for term in extract_query_identifiers(text) if term not in _STOPPED)
        for (term,) in _choose_rarest(tuple(names), "code", boosts.max_terms, counts):
            yield WeightedTerm("code", term, boosts.code)


def _choose_rarest(words: Sequence[tuple[str, ...]], field: str, most: int, counts: Terms) -> Sequence[tuple[str, ...]]:
    """Return the rarest `most` of a long question's words, words that no chunk has last; all words of a shorter one."""
    if len(words) <= most:
        return words
    nowhere = counts.chunk_count + 1
    return sorted(words, key=lambda terms: _frequency(counts, field, terms) or nowhere)[:most]
