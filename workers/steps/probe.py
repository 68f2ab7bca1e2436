"""The coverage probe: one look at the corpus, measured into the event that the gate decides on."""

from __future__ import annotations

from datetime import datetime

from contracts.budget import Spend
from contracts.gate import CoverageProbed, GateRequested, ProbeHit
from contracts.known_pages import PageMemory
from gate.probe import content_terms, intent_similarity, session_measures, term_coverage
from gate.profile import Profile
from index.search.probe import RawHit
from workers.wiring.corpora import CorpusReaders
from workers.wiring.embedding import EmbeddingService
from workers.wiring.observers import utc_now

PROBE_HITS = 10
"""Hits that the gate looks at: an answer rarely cites more."""
READ_HITS = 5
"""Hits whose texts are searched for the question's words: what the profiles' weights were fitted on."""


def probe_coverage(
    request: GateRequested,
    corpus: str,
    profile: Profile,
    embedding: EmbeddingService,
    readers: CorpusReaders,
    page_memory: PageMemory,
) -> tuple[CoverageProbed, Spend]:
    """What `corpus` has on the request's question, how the session stands to it; and what embedding them cost."""
    question = embedding.embed([request.query], corpus)
    vector, spend = question.vectors[0], question.spend
    words = content_terms(request.query)
    reader = readers.reader(corpus)
    probe = reader.probe(request.query, vector, PROBE_HITS, words)
    if reader.model_fingerprint not in (None, question.fingerprint):  # the corpus got another model meanwhile
        again, more = probe_coverage(request, corpus, profile, embedding, readers, page_memory)
        return again, spend + more
    terms = term_coverage(
        words, probe.document_frequency, probe.chunk_count, [_text(hit) for hit in probe.hits[:READ_HITS]]
    )
    seen_at = page_memory.seen_at(corpus, [hit.document_id for hit in probe.hits])
    similarity: tuple[float, ...] = ()
    session_coverage = 0.0
    if request.session:
        session = embedding.embed_by(question.fingerprint, [message.content for message in request.session])
        similarity, session_coverage = session_measures(vector, session.vectors, terms, request.session)
        spend += session.spend
    probed = CoverageProbed(
        generation=probe.generation,
        journal_offset=probe.journal_offset,
        chunk_count=probe.chunk_count,
        model_fingerprint=question.fingerprint,
        hits=tuple(_hit(hit, seen_at.get(hit.document_id)) for hit in probe.hits),
        terms=terms,
        intent_similarity=intent_similarity(vector, embedding.prototypes(profile, question.fingerprint)),
        session_similarity=similarity,
        session_term_coverage=session_coverage,
        probed_at=utc_now(),
    )
    return probed, spend


def _text(hit: RawHit) -> str:
    return "\n".join(part for part in (hit.title, *hit.section_path, hit.text) if part)


def _hit(hit: RawHit, seen_at: datetime | None) -> ProbeHit:
    """As the gate sees it: a page that was found unchanged is as fresh as if it had been read then."""
    return ProbeHit(
        chunk_id=hit.chunk_id,
        document_id=hit.document_id,
        url=hit.url,
        dense_similarity=hit.dense_similarity,
        lexical_score=hit.lexical_score,
        fetched_at=max(hit.fetched_at, seen_at or hit.fetched_at),
        published_at=hit.published_at,
    )
