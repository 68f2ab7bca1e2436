"""BM25 as sparse vectors: the weights of a chunk's terms, and those of a question's terms.

A dimension is a term in a field: the first 32 bits of a hash of both, the same on every machine. Two terms with the
same dimension cannot be told apart; of a million terms one in 4,000 shares its dimension.

The document side holds the part of BM25 that needs no other document,

    tf · (k1 + 1) / (tf + k1 · (1 - b + b · length / average length))      (Robertson and Zaragoza, 2009)

with k1 1.2 and b 0.75. The question's side holds the weight of the field, and the engine multiplies it by the inverse
document frequency: Qdrant's `idf` modifier, ln(1 + (N - n + 0.5) / (n + 0.5)), counted over the collection.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence

from sluice.contracts.document import Chunk
from sluice.index.terms.analysis import (
    ENGLISH,
    STOP_WORDS,
    analyse,
    analyse_question,
    detect_language,
    extract_query_identifiers,
)
from sluice.index.terms.bm25 import PROSE_FIELDS, USUAL_BOOSTS, weigh_repeats
from sluice.index.terms.chunk_terms import extract_chunk_terms
from sluice.text.words import saturation

_AVERAGE_TERMS = {"title": 8.0, "headings": 8.0, "code": 40.0}
"""Average number of terms in the short fields."""
AVERAGE_TEXT_TERMS = 120.0
"""Average terms of a chunk's text for BM25. Fixed, since a chunk's weights are stored when it arrives."""
_STOPPED = frozenset(STOP_WORDS)
MOST_TERMS = 256
"""Most content words, and most identifiers, sent of a question: more than `Boosts.max_terms`, as rarity is unknown."""

Weights = dict[int, float]
"""A sparse vector: the weight of each dimension."""


def weigh_chunk(
    title: str | None, chunk: Chunk, average_terms: float = AVERAGE_TEXT_TERMS, language: str = ENGLISH
) -> Weights:
    """Weigh the terms of a chunk analysed as `language`, by the document side of BM25; empty where it has no terms."""
    terms = extract_chunk_terms(title, language, chunk)
    weights: Weights = {}
    for field, average in {"text": average_terms, **_AVERAGE_TERMS}.items():
        for term, weight in saturate(terms[field].split(), average).items():
            place = hash_dimension(field, term)
            weights[place] = weights.get(place, 0.0) + weight
    return weights


def weigh_question(text: str, languages: Sequence[str] = (ENGLISH,), *, with_function_words: bool = False) -> Weights:
    """Weigh the terms of a question, analysed as each of `languages`, by field; empty where it has no terms.

    Only the first `MOST_TERMS` words count. Where the question's function words show its language, only that language
    is searched, since the frequency of a term in all languages together is not known before the search.
    """
    language = detect_language(text, languages)
    content, function, occurrences = analyse_question(text, (language,) if language else tuple(languages))
    words = content[:MOST_TERMS] + (function if with_function_words else ())
    terms = {term: weigh_repeats(occurrences[term]) for one in words for term in one}
    names = list(dict.fromkeys(term for term in extract_query_identifiers(text) if term not in _STOPPED))
    fields = (("text", 1.0), ("title", USUAL_BOOSTS.title), ("headings", USUAL_BOOSTS.headings))
    weights = {hash_dimension(field, term): boost * weight for field, boost in fields for term, weight in terms.items()}
    return weights | {hash_dimension("code", name): USUAL_BOOSTS.code for name in names[:MOST_TERMS]}


def saturate(terms: Sequence[str], average_terms: float) -> Mapping[str, float]:
    """Return the formula above for each distinct term of one field."""
    return {term: saturation(count, len(terms) / average_terms) for term, count in Counter(terms).items()}


def solve_frequency(score: float, weight: float, population: int) -> int:
    """Compute the number of chunks among `population` with a term, from the score of one of them for that term alone.

    The score is the chunk's `weight` times the inverse document frequency, which is solved for the frequency.
    """
    if weight <= 0:
        return 0
    found = (population + 1) / math.exp(score / weight) - 0.5
    return min(population, max(1, round(found)))


def list_dimensions(term: str, language: str = ENGLISH) -> list[list[int]]:
    """List, for each part of a term analysed as `language`, its dimensions in text, title and headings."""
    return [[hash_dimension(field, part) for field in PROSE_FIELDS] for part in analyse(term, language)]


def hash_dimension(field: str, term: str) -> int:
    """Hash a term in a field to its dimension: an unsigned number of 32 bits."""
    name = f"{field}\0{term}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(name, digest_size=4).digest(), "big")
