"""From fused candidates to results.

    candidates in fused order
      -> trust: what is below the query's threshold is dropped
      -> near-duplicates: the best one stays and names the others
      -> domain cap: at most so many of one host
      -> reranker: its `depth` best in its order, where one is configured
      -> diversity: maximal marginal relevance, where it is asked for
      -> top_k
      -> neighbours: each with what stands around it in its document
      -> token budget

`index.search.candidates` does the first three, which may leave too few and then want more candidates; `choose` does
the rest, once.
Nothing is read, hashed or compared for a candidate that no longer matters to the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from contracts.retrieval import Query, RetrievalMetadata, RetrievedChunk, Strategy
from index.search.candidates import Gathered, Kept, gather_candidates
from index.search.chunk_source import ChunkSource, as_written
from index.search.fusion import Candidate
from index.search.mmr import diversified
from index.search.neighbours import merged, passage, stretch_of
from index.search.ranking_options import Ranking
from index.search.rerank.base import NotReranked
from index.settings import QuerySettings


@dataclass(frozen=True, slots=True)
class Selection:
    """The chunks that are returned, in order, how many others were dropped and why, and how reranking went."""

    chunks: tuple[RetrievedChunk, ...]
    trust_dropped: int = 0
    duplicates_dropped: int = 0
    domain_dropped: int = 0
    budget_dropped: int = 0
    reranked: bool = False
    rerank_failure: str | None = None
    rerank_asked: bool = False


NOTHING = Selection(chunks=())
"""What is selected from nothing."""

Result = tuple[RetrievedChunk, Sequence[RetrievedChunk]]
"""A result as it would be given, and the found chunks it is made of: itself, unless it is a passage."""


@dataclass(frozen=True, slots=True)
class _Look:
    """How the reranker's look at the candidates went."""

    reranked: bool = False
    failure: str | None = None
    was_asked: bool = False


def select(
    source: ChunkSource, query: Query, ranked: Sequence[Candidate], ranking: Ranking, now: datetime
) -> Selection:
    """The results among these candidates, with ranks from 1."""
    return choose(source, query, gather_candidates(source, query, ranked, ranking, now), ranking)


def choose(source: ChunkSource, query: Query, gathered: Gathered, ranking: Ranking) -> Selection:
    """The results among the gathered: reranked, diversified, cut to `top_k`, with neighbours, within the budget."""
    ordered, look = _reranked(query, gathered.kept, ranking)
    best = _diversified(source, ordered, ranking.diversity(query), query.top_k)
    chunks = [_retrieved(one, rank) for rank, one in enumerate(best, start=1)]
    results = _with_neighbours(source, best, chunks, query.neighbours) if query.neighbours else _alone(chunks)
    fitting, budget_dropped = within_budget(results, query.max_tokens)
    return Selection(
        chunks=tuple(_at_rank(chunk, rank) for rank, chunk in enumerate(fitting, start=1)),
        trust_dropped=gathered.trust_dropped,
        duplicates_dropped=gathered.duplicates_dropped,
        domain_dropped=gathered.domain_dropped,
        budget_dropped=budget_dropped,
        reranked=look.reranked,
        rerank_failure=look.failure,
        rerank_asked=look.was_asked,
    )


def metadata_of(
    query: Query, settings: QuerySettings, duration_seconds: float, candidate_count: int, selection: Selection
) -> RetrievalMetadata:
    """How a result came about, whichever engine it came from."""
    return RetrievalMetadata(
        strategy=query.strategy,
        fusion=settings.fusion if query.strategy is Strategy.HYBRID else "none",
        duration_ms=duration_seconds * 1e3,
        total_candidates=candidate_count,
        trust_dropped=selection.trust_dropped,
        budget_dropped=selection.budget_dropped,
        duplicates_dropped=selection.duplicates_dropped,
        domain_dropped=selection.domain_dropped,
        reranked=selection.reranked,
        rerank_failure=selection.rerank_failure,
        rerank_asked=selection.rerank_asked,
    )


def within_budget(results: Sequence[Result], max_tokens: int | None) -> tuple[list[RetrievedChunk], int]:
    """What fits together, best first, and how many results do not.

    One that is too long is skipped, shorter ones may follow. Of a passage that is too long what was found remains.
    """
    if max_tokens is None:
        return [whole for whole, _ in results], 0
    fitting: list[RetrievedChunk] = []
    left = max_tokens
    dropped = 0
    for whole, found in results:
        took = len(fitting)
        for chunk in [whole] if whole.token_estimate <= left else found:
            if chunk.token_estimate <= left:
                fitting.append(chunk)
                left -= chunk.token_estimate
        dropped += len(fitting) == took
    return fitting, dropped


def _reranked(query: Query, kept: Sequence[Kept], ranking: Ranking) -> tuple[Sequence[Kept], _Look]:
    """The candidates with the reranker's in its order before the others; as they were where it cannot."""
    seen, others = kept[: ranking.rerank_depth(query)], kept[ranking.rerank_depth(query) :]
    if not seen:
        return kept, _Look()
    shown = [_retrieved(one, rank) for rank, one in enumerate(seen, start=1)]
    try:
        ordered = ranking.reranker.rerank(query.query, shown)
    except NotReranked as failure:
        return kept, _Look(failure=str(failure), was_asked=failure.was_asked)
    first = [seen[chunk.rank - 1] for chunk in ordered]
    for one, chunk in zip(first, ordered, strict=True):
        one.rerank_score = chunk.rerank_score
    return [*first, *others], _Look(reranked=True, was_asked=True)


def _diversified(source: ChunkSource, ordered: Sequence[Kept], diversity: float, top_k: int) -> Sequence[Kept]:
    if not diversity or not ordered:
        return ordered[:top_k]
    vectors = source.vectors([one.candidate.number for one in ordered])
    return [ordered[position] for position in diversified(_relevance(ordered), vectors, diversity, top_k)]


def _relevance(ordered: Sequence[Kept]) -> list[float]:
    """The reranker's scores, where it gave some: what it did not see counts as its lowest. Else those of fusion."""
    reranked = [one.rerank_score for one in ordered if one.rerank_score is not None]
    if not reranked:
        return [one.candidate.fused_score for one in ordered]
    return [min(reranked) if one.rerank_score is None else one.rerank_score for one in ordered]


def _alone(chunks: Sequence[RetrievedChunk]) -> list[Result]:
    return [(chunk, [chunk]) for chunk in chunks]


def _with_neighbours(
    source: ChunkSource, best: Sequence[Kept], chunks: Sequence[RetrievedChunk], width: int
) -> list[Result]:
    stretches = [
        stretch_of(chunk, source.around(one.candidate.number, width)) for one, chunk in zip(best, chunks, strict=True)
    ]
    return [(passage(stretch), stretch.found) for stretch in merged(stretches)]


def _retrieved(one: Kept, rank: int) -> RetrievedChunk:
    candidate, facts, chunk = one.candidate, one.facts, one.chunk
    similarity = candidate.similarity
    fields = {
        "chunk_id": chunk.chunk_id,
        "document_id": chunk.document_id,
        "url": facts.url,
        "file_path": facts.file_path,
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "language": chunk.language or facts.language,
        "section_path": chunk.section_path,
        "symbol_path": chunk.symbol_path,
        "title": facts.title,
        "text": chunk.text,
        "token_estimate": chunk.token_estimate,
        "checksum": chunk.checksum,
        "metadata": facts.metadata,
        "provenance": facts.provenance,
        "dense_distance": None if similarity is None else min(2.0, max(0.0, 1.0 - similarity)),
        "dense_rank": candidate.dense_rank,
        "lexical_score": candidate.lexical_score,
        "lexical_rank": candidate.lexical_rank,
        "fused_score": candidate.fused_score,
        "rank": rank,
        "trust": one.trust,
        "rerank_score": one.rerank_score,
        "duplicates": one.duplicates,
        "passage": (),
    }
    return as_written(RetrievedChunk, fields, _RESULT_FIELDS)


_RESULT_FIELDS = set(RetrievedChunk.model_fields)


def _at_rank(chunk: RetrievedChunk, rank: int) -> RetrievedChunk:
    return chunk if chunk.rank == rank else chunk.model_copy(update={"rank": rank})
