"""Terms of chunks and of questions: those of a chunk by field, as the term index and the memory segment store them.

Most words are frequent, so a word is analysed once and its terms are cached. A text is split into words where both
analyses (`analyse` and `split_identifiers` of `index.terms.analysis`) split it: at white space and at ASCII characters
other than letters, digits and underscores. The terms of a text are therefore those of its words, in order.

Questions become plain terms, so no character of a user's text is query syntax, and their number is bounded. A question
is analysed in every language that the corpus has, so its own language need not be known; a term of one language is
never a term of another (`index.terms.analysis`). Their weights in BM25 are the same for all term indexes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from sluice.contracts.document import Chunk, embedding_text
from sluice.index.journal.records import Upsert, document_key
from sluice.index.segments.segment_file import SegmentDocument
from sluice.index.terms.analysis import (
    ENGLISH,
    LANGUAGES,
    STOP_WORDS,
    analyse,
    analyse_question,
    analysis_language,
    extract_query_identifiers,
    split_identifiers,
)
from sluice.text.words import inverse_document_frequency

PROSE_FIELDS = ("text", "title", "headings")
"""Title and headings have fields of their own in chunks indexed by version 0.3 or before (`Boosts`)."""
LANGUAGE_FIELD = "language"
"""The field with the language of a chunk's analysis, where it is not English."""
_STOPPED = frozenset(STOP_WORDS)
Hit = tuple[int, float]
"""A chunk number and its BM25 score."""


@dataclass(frozen=True, slots=True)
class Boosts:
    """Weights of the fields (text has 1), and the largest number of a question's terms to search."""

    title: float = 0.5
    """Weight of a term in the field of titles, which only chunks indexed by version 0.3 or before have; later ones have
    title and headings in their text."""
    headings: float = 0.5
    """Weight of a term in the section path, likewise."""
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


class Terms(ABC):
    """The terms of a corpus, searched by BM25. Safe for threads."""

    @property
    @abstractmethod
    def chunk_count(self) -> int:
        """Number of live chunks."""

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """The languages of the chunks' analyses, by the terms of `LANGUAGE_FIELD`; English is always first."""
        return (ENGLISH, *[language for language in LANGUAGES if self.frequency(LANGUAGE_FIELD, language)])

    @abstractmethod
    def frequency(self, field: str, term: str) -> int:
        """Return the number of chunks that have an analysed term in `field`. Replaced chunks may count for a while."""

    @abstractmethod
    def search(self, text: str, boosts: Boosts, limit: int, only: Sequence[int] | None = None) -> list[Hit]:
        """Return the best `limit` chunks for a question, best first; restricted to the numbers in `only` when given.

        The score is the sum of BM25 over fields and terms, each weighted by its boost.
        """

    @abstractmethod
    def score(self, text: str, boosts: Boosts, numbers: Sequence[int]) -> list[float]:
        """Return the BM25 scores of these chunks in their order; 0 for one without a word of the question.

        Unlike in `search`, function words count too. In a search they would take most of the time and find nothing, but
        they help to rank the chunks found. Costs little for some hundred chunks.
        """


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


FIELDS = (*PROSE_FIELDS, "code", LANGUAGE_FIELD)
ChunkTerms = Mapping[str, str]
"""The terms by field, separated by blanks; no term contains white space."""

_NOT_ASCII = 0x80
_BLANKED = bytes(
    byte if byte >= _NOT_ASCII or chr(byte).isalnum() or chr(byte) == "_" else ord(" ") for byte in range(256)
)
"""A translation of UTF-8 bytes: a blank for bytes between words, else the byte itself."""
MOST_WORDS = 100_000
"""Words cached, the latest ones: some 20 MB."""
_LONGEST_WORD = 64
"""Characters of a cached word. Longer ones are data, or a script without blanks, and rarely repeat."""


_PARTS, _PARTS_END = "\x00", "\x01"
"""Marks around the parts of an identifier, which follow its prose terms; no term has these characters."""


@lru_cache(maxsize=MOST_WORDS)
def analyse_word(word: str, language: str) -> str:
    """Return the prose terms of a word, followed by its parts if it is an identifier."""
    terms = " ".join(analyse(word, language))
    if not _is_plain(word) and (parts := " ".join(split_identifiers(word))):
        terms = f"{terms}{_PARTS}{parts}{_PARTS_END}"
    return terms


def extract_chunk_terms(title: str | None, language: str | None, chunk: Chunk) -> ChunkTerms:
    """Extract the terms of a chunk in `language` (None: unknown), from the text that is embedded: below its title and
    headings. A word that stands in the title and below it is one term, found twice, as BM25 expects.
    """
    known = analysis_language(language)
    text, code = extract_terms(embedding_text(title, chunk), known)
    return {"text": text, "code": code, LANGUAGE_FIELD: "" if known == ENGLISH else known}


def extract_terms(text: str, language: str = ENGLISH) -> tuple[str, str]:
    """Return the terms of `analyse` and those of `split_identifiers` (`index.terms.analysis`), separated by blanks."""
    uncached = analyse_word.__wrapped__
    # Split at characters that are part of no term.
    words = text.encode().translate(_BLANKED).decode().split()
    analysed = [(analyse_word if len(word) <= _LONGEST_WORD else uncached)(word, language) for word in words]
    first, *others = " ".join(analysed).split(_PARTS)
    pairs = [other.split(_PARTS_END) for other in others]
    return first + "".join([prose for _, prose in pairs]), " ".join([parts for parts, _ in pairs])


def _is_plain(word: str) -> bool:
    """Return whether the word is letters, lower case from the second on: then it is no compound identifier."""
    return word.isalpha() and word[1:].islower()


def prepare_document(
    journal_offset: int, version: Upsert, first_number: int
) -> tuple[SegmentDocument, list[ChunkTerms]]:
    """Make the document's entry, with chunks numbered from `first_number`, and the terms of each chunk.

    A chunk id that occurs twice in a document is kept once.
    """
    document, records, vectors = version.document, version.records, version.vectors
    first_rows = find_first_rows(document.chunks)
    rows = list(first_rows.values())
    chunks = [document.chunks[row] for row in rows]
    languages = [chunk.language or document.language or "" for chunk in chunks]
    entry = SegmentDocument(
        key=document_key(document.document_id),
        journal_offset=journal_offset,
        record=records.facts,
        numbers=range(first_number, first_number + len(rows)),
        chunk_ids=list(first_rows),
        languages=languages,
        chunk_records=[records.chunks[row] for row in rows],
        vectors=vectors if len(rows) == len(vectors) else vectors[rows],
    )
    terms = [
        extract_chunk_terms(document.title, language, chunk) for language, chunk in zip(languages, chunks, strict=True)
    ]
    return entry, terms


def find_first_rows(chunks: Sequence[Chunk]) -> dict[str, int]:
    """Find the first row of each distinct chunk id, in order."""
    rows: dict[str, int] = {}
    for row, chunk in enumerate(chunks):
        rows.setdefault(chunk.chunk_id, row)
    return rows
