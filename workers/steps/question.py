"""A question as one corpus sees it: its words, and how rare they are there. Passages are judged by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contracts.retrieval import Query, Retrieval, Strategy
from gate.probe import question_terms
from index.search.filters import has_conditions
from index.terms.analysis import ENGLISH, LANGUAGES, analyse, analysis_language, detect_language, is_function_word
from index.terms.bm25 import inverse_document_frequency
from ingest.url import site_of
from trust.confidence.judge import Asked

if TYPE_CHECKING:
    from workers.wiring.corpora import Reader

LAST_LATIN_LETTER = "\u024f"
FUNCTION_WORDS_THAT_TELL = 2
"""Function words of another language by which a question is taken to be in it: one may be a name (`die`, `es`)."""


def describe_question(query: Query, found: Retrieval, reader: Reader) -> Asked:
    """The question of a query as the corpus of `reader` sees it, for what was `found` there.

    Of a filtered search it is not known how many chunks pass; the candidates found are the least.
    """
    words = question_terms(query.query)
    count = max(1, reader.chunk_count)
    frequencies = reader.document_frequency(words)
    has_vector = found.metadata.strategy is not Strategy.BM25
    return Asked(
        words={word: inverse_document_frequency(count, frequencies[word]) for word in words},
        rarest=inverse_document_frequency(count, 1),
        chunk_count=found.metadata.total_candidates if has_conditions(query.filters) else count,
        analyse=lambda text, language: analyse(text, analysis_language(language)),
        model_fingerprint=reader.model_fingerprint if has_vector else None,
        is_english=may_be_english(query.query),
        site_of=site_of,
    )


def may_be_english(text: str) -> bool:
    """Whether a question may be English: it is in Latin letters, and no other language has more function words in it.

    A question without function words, such as a list of names, may be.
    """
    letters = [letter for letter in text if letter.isalpha()]
    if 2 * sum(letter > LAST_LATIN_LETTER for letter in letters) > len(letters):
        return False
    language = detect_language(text, (ENGLISH, *LANGUAGES))
    if language is None or language == ENGLISH:
        return True
    return sum(is_function_word(word, language) for word in text.lower().split()) < FUNCTION_WORDS_THAT_TELL
