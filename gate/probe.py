"""The pure half of probing: computes the gate's measures from a query and its hits.

The query worker looks up vectors, document frequencies and texts; these functions compute the fields of
`CoverageProbed` from them. Every figure they return is rounded to `DECIMALS` places, so that it survives JSON and a
recomputation bit for bit.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.errors import InvalidInput
from sluice.contracts.gate import Message, QueryTerm
from sluice.text.words import FUNCTION_WORDS, UNSPACED, WORD, inverse_document_frequency, stem

IDENTIFIER = re.compile(r"[_.:#+>]")
"""Marks a term as a code identifier, which is looked up unchanged."""

_ASKING = """
    another anybody anyone anything done else ever every explain few find get give go goes going got hello hi know let
    like made make many mine much must myself need one others per rather say show somebody someone something tell thank
    thanks thing things upon use used using via want whatever within without yes yet
    current currently latest newest nowadays recent recently today tonight yesterday
"""
"""Words of requests. The last line: words of time, which the gate weighs elsewhere."""
_TELLING = "d during hadn m mustn now s shall shan t won"
"""Function words that still may be the subject of a question, as `won` or `T`."""
STOP_WORDS = frozenset(FUNCTION_WORDS) - frozenset(_TELLING.split()) | frozenset(_ASKING.split())

_QUESTION_WORDS_FILE = Path(__file__).parent / "lexicons" / "question_words.toml"


@cache
def question_words(language: str | None) -> frozenset[str]:
    """Return a language's (ISO 639-1) question words, such as "wann": a passage can answer without them."""
    return frozenset(tomllib.loads(_QUESTION_WORDS_FILE.read_text("utf-8")).get(language or "", "").split())


DECIMALS = 6

Analyse = Callable[[str], Sequence[str]]
"""Returns the index terms of a text: in one language, stemmed."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A top hit: its title and headings, its text, and the analyser of its language."""

    chunk_id: str
    heading: str
    text: str
    analyse: Analyse


class TermFinder:
    """Finds a question's terms in texts of one language: identifiers literally, words by their stems."""

    def __init__(self, terms: Sequence[str], analyse: Analyse) -> None:
        self._analyse = analyse
        self._identifiers = [term for term in terms if IDENTIFIER.search(term)]
        self._parts = {term: parts for term in terms if term not in self._identifiers and (parts := analyse(term))}

    def find(self, text: str) -> frozenset[str]:
        """Return the terms that occur in `text`."""
        has = frozenset(self._analyse(text))
        words = [term for term, parts in self._parts.items() if has.issuperset(parts)]
        lowered = text.casefold() if self._identifiers else ""
        return frozenset([*words, *(term for term in self._identifiers if term in lowered)])


MAX_TERMS = 64
"""Terms kept of one query: the rest of a page-long query adds time and no information."""
CHARACTERS_THAT_TELL = 2_000
"""Characters of a message that `is_informative` reads; a longer message surely can inform."""
LONGEST_BARE_QUESTION = 300
"""Longest user message, in characters, that counts as a bare question if it ends in a question mark."""

_TOKEN = re.compile(r"\w+(?:(?:\.|::|->)\w+)*(?:\+\+|#)?")
_APOSTROPHE = re.compile(r"['’](?:s|re|ve|ll|d|m|t)?\b")

Vector = NDArray[np.float32]
DocumentFrequency = Callable[[str], int] | Mapping[str, int]


def content_terms(query: str) -> list[str]:
    """Return the query's content words, lower case, in order, each once; at most `MAX_TERMS`. English stop words and
    single letters are left out. Code identifiers (`asyncio.gather`, `__init__`, `C++`) stay whole, for the look-up."""
    return list(islice(dict.fromkeys(_each_term(query)), MAX_TERMS))


def question_terms(query: str, function_words: Collection[str] = ()) -> list[str]:
    """Return the search terms of a question: `content_terms` without `function_words`, those of the question's
    language, unless none remains. In a script without spaces, every two neighbouring characters are a term, as in the
    index."""
    terms = content_terms(query)
    kept = [term for term in terms if term not in function_words] or terms
    pairs = (_pairs(term) if UNSPACED.search(term) else [term] for term in kept)
    return list(islice(dict.fromkeys(chain.from_iterable(pairs)), MAX_TERMS))


def term_coverage(
    terms: Sequence[str], document_frequency: DocumentFrequency, document_count: int, passages: Iterable[Passage]
) -> tuple[QueryTerm, ...]:
    """Return each term with its inverse document frequency, and whether the best of `passages` (the top hits) has it.

    The best passage is the one with the largest share of the terms' idf mass, the first of equals. One passage with all
    terms answers; many with one term each need not: on questions with and without their passage, this separated them
    better than the terms of all passages together.

    `idf = ln(1 + (N - n + 0.5) / (n + 0.5))`, as in BM25 (Robertson and Zaragoza 2009, section 3.1, with the 1 added
    that Lucene adds so that it is never negative).

    Raises:
        InvalidInput: `document_count` or a frequency is negative.
    """
    look_up = document_frequency if callable(document_frequency) else lambda term: document_frequency.get(term, 0)
    idf = {term: _idf(look_up(term), document_count) for term in terms}
    held = [TermFinder(terms, one.analyse).find(f"{one.heading}\n{one.text}") for one in passages]
    best = max(held, key=lambda found: math.fsum(idf[term] for term in found), default=frozenset())
    return tuple(QueryTerm(term=term, idf=idf[term], covered=term in best) for term in idf)


def intent_similarity(query_vector: Vector, prototypes: Mapping[str, Vector]) -> dict[str, float]:
    """Return the cosine of the query to the nearest prototype of each intent.

    Args:
        query_vector: shape (d,).
        prototypes: per intent, shape (n, d), n >= 1. Vectors need not have length 1.

    Raises:
        InvalidInput: a shape does not fit, or a vector holds a number that is not finite.
    """
    intents = sorted(prototypes)
    if not intents:
        return {}
    rows = [_checked(query_vector, prototypes[intent], f"prototypes.{intent}") for intent in intents]
    cosines = iter(_cosines(query_vector, np.concatenate(rows), "prototypes"))
    return {intent: max(islice(cosines, len(prototypes[intent])), default=0.0) for intent in intents}


def session_measures(
    query_vector: Vector, session_vectors: Vector, terms: Sequence[QueryTerm], session: Sequence[Message]
) -> tuple[tuple[float, ...], float]:
    """Return the coverage by the session: `session_similarity`, one cosine per message, in order (`session_vectors` is
    (messages, d)), and `session_term_coverage`, the share of the query's idf mass found in the messages that can hold
    an answer: see `is_informative`."""
    similarity = tuple(_cosines(query_vector, session_vectors, "session")) if len(session) else ()
    question = [entry.term for entry in terms]
    text = "\n".join(one.content for one in session if is_informative(one, question)).casefold()
    stems = {stem(word) for word in WORD.findall(text)}

    def holds(term: str) -> bool:
        return term in text if IDENTIFIER.search(term) or UNSPACED.search(term) else stem(term) in stems

    return similarity, compute_coverage([entry.model_copy(update={"covered": holds(entry.term)}) for entry in terms])


def is_informative(message: Message, question_terms: Sequence[str]) -> bool:
    """Return whether a message can hold an answer: not if it only asks, or adds no word to the question's."""
    bare_question = message.content.rstrip().endswith(("?", "？")) and len(message.content) <= LONGEST_BARE_QUESTION
    if message.role == "user" and bare_question:
        return False
    asked = frozenset(question_terms)
    return any(term not in asked for term in _each_term(message.content[:CHARACTERS_THAT_TELL]))


RARE_WORDS_ENOUGH = 4.0
"""The idf mass of this many words, each found in a single chunk, covers any question: no text repeats every word of a
question of thirty words."""


def compute_coverage(terms: Sequence[QueryTerm], enough: float = math.inf) -> float:
    """Return the share of the idf mass of `terms`, of which `enough` is all, that is covered, from 0 to 1; 0 without
    terms."""
    total = min(enough, math.fsum(entry.idf for entry in terms))
    covered = math.fsum(entry.idf for entry in terms if entry.covered)
    return round(min(1.0, covered / total), DECIMALS) if total > 0 else 0.0


def enough_mass(document_count: int) -> float:
    """Return the idf mass that is enough for any question: see `RARE_WORDS_ENOUGH`."""
    return RARE_WORDS_ENOUGH * _idf(1, max(1, document_count))


def _each_term(text: str) -> Iterator[str]:
    for token in _TOKEN.finditer(_APOSTROPHE.sub(" ", text)):
        term = token[0].casefold()
        if term not in STOP_WORDS and (len(term) > 1 or UNSPACED.match(term)):
            yield term


def _pairs(run: str) -> list[str]:
    return ["".join(pair) for pair in pairwise(run)] or [run]


def _idf(frequency: int, document_count: int) -> float:
    if frequency < 0 or document_count < 0:
        raise InvalidInput("document_frequency", f"{frequency} of {document_count} documents", "counts are 0 or more")
    return round(inverse_document_frequency(document_count, min(frequency, document_count)), DECIMALS)


def _cosines(query_vector: Vector, vectors: Vector, field: str) -> list[float]:
    rows, query = _checked(query_vector, vectors, field), np.asarray(query_vector, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(query)
    cosines = np.divide(rows @ query, lengths, out=np.zeros(len(rows)), where=lengths > 0)
    return [round(float(cosine), DECIMALS) for cosine in np.clip(cosines, -1.0, 1.0)]


def _checked(query: Vector, vectors: Vector, field: str) -> NDArray[np.float64]:
    """Return `vectors` in double precision. Raises `InvalidInput` if they do not fit `query` or are not finite."""
    rows = np.asarray(vectors, dtype=np.float64)
    if query.ndim != 1 or rows.ndim != 2 or rows.shape[1] != query.shape[0]:
        raise InvalidInput(field, f"shapes {query.shape} and {rows.shape}", "give (d,) and (n, d)")
    if not (np.isfinite(query).all() and np.isfinite(rows).all()):
        raise InvalidInput(field, "a vector holds a number that is not finite")
    return rows
