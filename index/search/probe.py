"""The coverage probe: raw hits of both retrievers, by which the gate judges whether the corpus is enough."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from sluice.contracts.document import Chunk
from sluice.index.journal.document_facts import DocumentFacts
from sluice.index.search.candidates import Ranking, is_blocked
from sluice.index.search.chunk_source import ChunkSource
from sluice.index.search.fusion import Candidate
from sluice.index.terms.analysis import analysis_language, detect_language, is_function_word, passage_terms


@dataclass(frozen=True, slots=True)
class RawHit:
    """A candidate with both scores and its text.

    `dense_similarity` is a cosine and known for every hit when a vector was given; `lexical_score` is
    None for what BM25 did not find among its candidates.
    """

    chunk_id: str
    document_id: str
    url: str | None
    title: str | None
    section_path: tuple[str, ...]
    text: str
    language: str
    """Of its analysis (`index.terms.analysis`)."""
    dense_similarity: float | None
    lexical_score: float | None
    fetched_at: datetime
    published_at: datetime | None

    def analyse(self, text: str) -> tuple[str, ...]:
        """The terms of a text, read in the language of this hit."""
        return passage_terms(text, self.language)


@dataclass(frozen=True, slots=True)
class Probe:
    """What one generation has on a question. `generation` is None for a corpus without one."""

    generation: str | None
    journal_offset: int
    chunk_count: int
    hits: tuple[RawHit, ...]
    document_frequency: dict[str, int]
    """For each of the probed terms the number of chunks that have it."""
    language: str | None = None
    """The question's, among those of the corpus, by its function words; None where it has none of them."""
    function_words: frozenset[str] = frozenset()
    """Those of the probed terms that are function words of that language."""


EMPTY_PROBE = Probe(generation=None, journal_offset=0, chunk_count=0, hits=(), document_frequency={})


def find_function_words(
    query_text: str, terms: Sequence[str], languages: Sequence[str]
) -> tuple[str | None, frozenset[str]]:
    """The question's language among those of the corpus, and which of `terms` are its function words."""
    language = detect_language(query_text, languages)
    if language is None:
        return None, frozenset()
    return language, frozenset(term for term in terms if is_function_word(term, language))


def read_hits(
    source: ChunkSource, ranked: Iterable[Candidate], most: int, ranking: Ranking, now: datetime, trust_threshold: float
) -> tuple[RawHit, ...]:
    """The first `most` candidates that an answer may serve: not blocked, and trusted enough."""
    may_serve = (
        _make_raw_hit(candidate, facts, chunk)
        for candidate in ranked
        for facts, chunk in [source.read(candidate.number)]
        if not is_blocked(chunk) and ranking.trusts(facts, chunk, now, trust_threshold)
    )
    return tuple(islice(may_serve, most))


def _make_raw_hit(candidate: Candidate, facts: DocumentFacts, chunk: Chunk) -> RawHit:
    return RawHit(
        chunk_id=chunk.chunk_id,
        document_id=chunk.document_id,
        url=facts.url,
        title=facts.title,
        section_path=chunk.section_path,
        text=chunk.text,
        language=analysis_language(chunk.language or facts.language),
        dense_similarity=candidate.similarity,
        lexical_score=candidate.lexical_score,
        fetched_at=facts.provenance.fetched_at,
        published_at=facts.provenance.published_at,
    )
