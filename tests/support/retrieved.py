"""Retrieved chunks and retrievals made by hand."""

from __future__ import annotations

from datetime import UTC, datetime

from sluice.contracts.document import Provenance, sha256_text
from sluice.contracts.retrieval import Retrieval, RetrievalMetadata, RetrievedChunk, Strategy
from sluice.contracts.trust import TrustFactors, TrustScore

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def retrieved(chunk_id: str, text: str = "some text", **changes: object) -> RetrievedChunk:
    """A chunk of a crawled page, as a search finds it."""
    values: dict[str, object] = {
        "chunk_id": chunk_id,
        "document_id": f"document of {chunk_id}",
        "url": f"https://example.org/{chunk_id}",
        "file_path": None,
        "start_line": 1,
        "end_line": 1,
        "language": "en",
        "section_path": (),
        "symbol_path": None,
        "title": None,
        "text": text,
        "token_estimate": len(text.split()),
        "checksum": sha256_text(text),
        "metadata": {},
        "provenance": Provenance(source="crawl", fetched_at=NOW),
        "dense_distance": 0.2,
        "dense_rank": 1,
        "lexical_score": 1.0,
        "lexical_rank": 1,
        "fused_score": 1.0,
        "rank": 1,
        "trust": 0.8,
    }
    return RetrievedChunk.model_validate(values | changes)


def retrieval_of(*chunks: RetrievedChunk) -> Retrieval:
    """What a search of one generation gives: the chunks in their order, each with its trust score."""
    ranked = tuple(chunk.model_copy(update={"rank": rank}) for rank, chunk in enumerate(chunks, start=1))
    scores = tuple(
        TrustScore(chunk_id=one.chunk_id, score=one.trust, factors=TrustFactors(), origin=one.provenance.origin)
        for one in ranked
    )
    metadata = RetrievalMetadata(
        strategy=Strategy.HYBRID, fusion="weighted", duration_ms=1.0, total_candidates=len(chunks), trust_scores=scores
    )
    return Retrieval(generation="g1", journal_offset=1, chunks=ranked, metadata=metadata)
