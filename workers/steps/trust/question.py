"""A question as one corpus sees it: its words, and how rare they are there. Passages are judged by them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from sluice.contracts.errors import InvalidInput
from sluice.contracts.retrieval import Query, Retrieval, RetrievalStats, Strategy
from sluice.gate.probe import question_terms
from sluice.index.search.filters import has_conditions
from sluice.index.terms.analysis import ENGLISH, LANGUAGES, analysis_language, is_function_word, passage_terms
from sluice.index.terms.bm25 import inverse_document_frequency
from sluice.ingest.url import site_of
from sluice.trust.confidence import Asked

CountChunks = Callable[[Sequence[str]], Mapping[str, int]]
LAST_LATIN_LETTER = "\u024f"
_WORD = re.compile(r"\w+")


def describe_question(query: Query, found: Retrieval, stats: RetrievalStats, count_chunks_with: CountChunks) -> Asked:
    """The question of a query as its corpus sees it, for what was `found` there.

    `count_chunks_with` gives for each of some words how many chunks have it. Of a filtered search it is not known how
    many chunks pass; the candidates found are the least.
    """
    words = question_terms(query.query)
    count = max(1, stats.chunk_count)
    frequencies = count_chunks_with(words)
    has_vector = found.metadata.strategy is not Strategy.BM25
    return Asked(
        words={word: inverse_document_frequency(count, frequencies[word]) for word in words},
        rarest=inverse_document_frequency(count, 1),
        chunk_count=found.metadata.total_candidates if has_conditions(query.filters) else count,
        analyse=lambda text, language: passage_terms(text, analysis_language(language)),
        model_fingerprint=stats.model_fingerprint if has_vector else None,
        is_english=may_be_english(query.query),
        may_be_english=may_be_english,
        site_of=find_site,
    )


def find_site(url: str) -> str | None:
    """The registered domain of a URL; None for what is none, as a search result may bring."""
    try:
        return site_of(url) or None
    except InvalidInput:
        return None


def may_be_english(text: str) -> bool:
    """Whether a question may be English. Keywords and names, which are of no language, may be.

    It is not where most of its letters are not Latin, or where another language has more function words in it, at least
    two. Without any English one, a letter that English does not have counts as one more, and of four words one is
    enough.
    """
    letters = [letter for letter in text if letter.isalpha()]
    if 2 * sum(letter > LAST_LATIN_LETTER for letter in letters) > len(letters):
        return False
    words = {word for word in _WORD.findall(text.lower()) if len(word) > 1}
    counts = Counter(language for word in words for language in _languages_of(word))
    english = counts.pop(ENGLISH, 0)
    others = max(counts.values(), default=0)
    if english:
        return others <= english or others < 2
    foreign = others + any(not letter.isascii() for letter in letters)
    return foreign < (1 if len(words) >= 4 else 2)


@lru_cache(maxsize=10_000)
def _languages_of(word: str) -> tuple[str, ...]:
    """The languages in which a word is a function word."""
    return tuple(language for language in (ENGLISH, *LANGUAGES) if is_function_word(word, language))
