"""From candidates to results: read them, judge their trust, rerank, cut to `top_k` and to the token budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from contracts.retrieval import Query, RetrievedChunk
from index.fuse import Candidate
from index.generation import OpenGeneration
from index.rerank import Reranker
from index.trust import SourceTrust


@dataclass(frozen=True, slots=True)
class Selection:
    """The chunks that are returned, in order, and how many others were dropped and why."""

    chunks: tuple[RetrievedChunk, ...]
    trust_dropped: int
    budget_dropped: int


def select(
    generation: OpenGeneration,
    query: Query,
    ranked: Sequence[Candidate],
    trust: SourceTrust,
    reranker: Reranker,
    now: datetime,
) -> Selection:
    """The best `top_k` that are trusted enough, and of those what fits `max_tokens`, ranked from 1."""
    wanted = max(query.top_k, reranker.depth)
    trusted: list[RetrievedChunk] = []
    trust_dropped = 0
    for candidate in ranked:
        if len(trusted) == wanted:
            break
        chunk = _retrieved(generation, candidate, trust, now)
        if chunk.trust >= query.trust_threshold:
            trusted.append(chunk)
        else:
            trust_dropped += 1
    best = list(reranker.rerank(query.query, trusted))[: query.top_k]
    fitting = within_budget(best, query.max_tokens)
    chunks = tuple(_at_rank(chunk, rank) for rank, chunk in enumerate(fitting, start=1))
    return Selection(chunks, trust_dropped, len(best) - len(fitting))


def within_budget(chunks: Sequence[RetrievedChunk], max_tokens: int | None) -> list[RetrievedChunk]:
    """The chunks that fit together, best first: one that is too long is skipped, shorter ones may follow."""
    if max_tokens is None:
        return list(chunks)
    fitting = []
    left = max_tokens
    for chunk in chunks:
        if chunk.token_estimate <= left:
            fitting.append(chunk)
            left -= chunk.token_estimate
    return fitting


def _retrieved(generation: OpenGeneration, candidate: Candidate, trust: SourceTrust, now: datetime) -> RetrievedChunk:
    facts, chunk = generation.read(candidate.number)
    return RetrievedChunk(
        chunk_id=chunk.chunk_id,
        document_id=chunk.document_id,
        url=facts.url,
        file_path=facts.file_path,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        language=chunk.language or facts.language,
        section_path=chunk.section_path,
        symbol_path=chunk.symbol_path,
        title=facts.title,
        text=chunk.text,
        token_estimate=chunk.token_estimate,
        checksum=chunk.checksum,
        metadata=facts.metadata,
        provenance=facts.provenance,
        dense_distance=None if candidate.similarity is None else min(2.0, max(0.0, 1.0 - candidate.similarity)),
        dense_rank=candidate.dense_rank,
        lexical_score=candidate.lexical_score,
        lexical_rank=candidate.lexical_rank,
        fused_score=candidate.fused_score,
        rank=1,
        trust=trust.score(facts.url, facts.provenance, chunk, now).score,
    )


def _at_rank(chunk: RetrievedChunk, rank: int) -> RetrievedChunk:
    return chunk if chunk.rank == rank else chunk.model_copy(update={"rank": rank})
