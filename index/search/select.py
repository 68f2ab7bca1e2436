"""From fused candidates to results.

    candidates in fused order, those that merely repeat the question behind all others (`index.search.echoes`)
      -> guard: what is blocked is dropped
      -> trust: what is below the query's threshold is dropped
      -> near-duplicates: the best one stays and names the others
      -> domain cap: a maximum of results for each host
      -> reranker: the best `depth` in its order, where one is configured
      -> diversity: maximal marginal relevance, where the query asks for it
      -> top_k
      -> neighbours: each with the chunks around it in its document
      -> token budget

`index.search.candidates` does the first four. They may leave too few results and ask for a deeper search;
`select_results` does the rest, once. Nothing is read, hashed or compared for a candidate that cannot become a result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.base import construct_unvalidated
from sluice.contracts.document import Chunk
from sluice.contracts.graph.retrieval import GraphUse
from sluice.contracts.retrieval import Query, RetrievalMetadata, RetrievedChunk, Strategy
from sluice.contracts.trust import TrustScore
from sluice.index.journal.records import Vectors
from sluice.index.search.candidates import CandidateSelection, Ranking, SelectedCandidate, is_blocked
from sluice.index.search.chunk_source import ChunkSource
from sluice.index.search.neighbours import make_passage, merge_overlapping, render_passage
from sluice.index.search.rerank.base import NotReranked
from sluice.index.settings import QuerySettings


@dataclass(frozen=True, slots=True)
class Selection:
    """The chunks to return, in order; how many others were dropped, and why; how reranking went."""

    chunks: tuple[RetrievedChunk, ...]
    trust_scores: tuple[TrustScore, ...] = ()
    guard_dropped: int = 0
    trust_dropped: int = 0
    duplicates_dropped: int = 0
    domain_dropped: int = 0
    budget_dropped: int = 0
    reranked: bool = False
    rerank_failure: str | None = None
    rerank_asked: bool = False


NOTHING = Selection(chunks=())
"""The selection of a search without candidates."""

Result = tuple[RetrievedChunk, Sequence[RetrievedChunk]]
"""A result, and the found chunks that it is made of: itself, unless it is a passage."""


@dataclass(frozen=True, slots=True)
class _RerankOutcome:
    """Whether the candidates were reranked; if not, why."""

    reranked: bool = False
    failure: str | None = None
    was_asked: bool = False


def select_results(source: ChunkSource, query: Query, candidates: CandidateSelection, ranking: Ranking) -> Selection:
    """Select the results: rerank, diversify, cut to `top_k`, add neighbours, and keep to the token budget."""
    ordered, outcome = _rerank(query, candidates.candidates, ranking)
    best = _diversify(source, ordered, ranking.diversity(query), query.top_k)
    chunks = [_make_result(one, rank) for rank, one in enumerate(best, start=1)]
    results = (
        _add_neighbours(source, best, chunks, query.neighbours) if query.neighbours else _without_neighbours(chunks)
    )
    fitting, budget_dropped = within_budget(results, query.max_tokens)
    scores = {one.chunk.chunk_id: one.trust for one in best if one.trust}
    return Selection(
        chunks=tuple(_at_rank(chunk, rank) for rank, chunk in enumerate(fitting, start=1)),
        trust_scores=tuple(scores[chunk.chunk_id] for chunk in fitting) if scores else (),
        guard_dropped=candidates.guard_dropped,
        trust_dropped=candidates.trust_dropped,
        duplicates_dropped=candidates.duplicates_dropped,
        domain_dropped=candidates.domain_dropped,
        budget_dropped=budget_dropped,
        reranked=outcome.reranked,
        rerank_failure=outcome.failure,
        rerank_asked=outcome.was_asked,
    )


def make_metadata(
    query: Query,
    settings: QuerySettings,
    duration_seconds: float,
    candidate_count: int,
    selection: Selection,
    graph: GraphUse | None = None,
) -> RetrievalMetadata:
    """Describe how a result came about."""
    return RetrievalMetadata(
        strategy=query.strategy,
        fusion=settings.fusion if query.strategy in (Strategy.HYBRID, Strategy.HYBRID_GRAPH) else "none",
        duration_ms=duration_seconds * 1e3,
        total_candidates=candidate_count,
        trust_scores=selection.trust_scores,
        guard_dropped=selection.guard_dropped,
        trust_dropped=selection.trust_dropped,
        budget_dropped=selection.budget_dropped,
        duplicates_dropped=selection.duplicates_dropped,
        domain_dropped=selection.domain_dropped,
        reranked=selection.reranked,
        rerank_failure=selection.rerank_failure,
        rerank_asked=selection.rerank_asked,
        graph=graph,
    )


def within_budget(results: Sequence[Result], max_tokens: int | None) -> tuple[list[RetrievedChunk], int]:
    """Take the results that fit into `max_tokens` together, best first; returns them and how many did not fit.

    A result that is too long is skipped, and shorter ones may follow. Of a passage that is too long, the found chunks
    are taken.
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


def _rerank(
    query: Query, candidates: Sequence[SelectedCandidate], ranking: Ranking
) -> tuple[Sequence[SelectedCandidate], _RerankOutcome]:
    """Put the best candidates in the reranker's order, before the others; keep the order where it fails."""
    depth = ranking.rerank_depth(query)
    depth = min(depth, sum(not one.is_echo for one in candidates))
    seen, others = candidates[:depth], candidates[depth:]
    if not seen:
        return candidates, _RerankOutcome()
    shown = [_make_result(one, rank) for rank, one in enumerate(seen, start=1)]
    try:
        ordered = ranking.reranker.rerank(query.query, shown)
    except NotReranked as failure:
        return candidates, _RerankOutcome(failure=str(failure), was_asked=failure.was_asked)
    first = [seen[chunk.rank - 1] for chunk in ordered]
    for one, chunk in zip(first, ordered, strict=True):
        one.rerank_score = chunk.rerank_score
    return [*first, *others], _RerankOutcome(reranked=True, was_asked=True)


def _diversify(
    source: ChunkSource, ordered: Sequence[SelectedCandidate], diversity: float, top_k: int
) -> Sequence[SelectedCandidate]:
    if not diversity or not ordered:
        return ordered[:top_k]
    answers = [one for one in ordered if not one.is_echo] or ordered
    vectors = source.vectors([one.candidate.number for one in answers])
    best = [answers[position] for position in diversify(_relevance(answers), vectors, diversity, top_k)]
    return [*best, *ordered[len(answers) :]][:top_k]


def _relevance(ordered: Sequence[SelectedCandidate]) -> list[float]:
    """The reranker's scores, where there are any; candidates that it did not see get the lowest. Else fusion's."""
    reranked = [one.rerank_score for one in ordered if one.rerank_score is not None]
    if not reranked:
        return [one.candidate.fused_score for one in ordered]
    return [min(reranked) if one.rerank_score is None else one.rerank_score for one in ordered]


def _without_neighbours(chunks: Sequence[RetrievedChunk]) -> list[Result]:
    return [(chunk, [chunk]) for chunk in chunks]


def _add_neighbours(
    source: ChunkSource, best: Sequence[SelectedCandidate], chunks: Sequence[RetrievedChunk], width: int
) -> list[Result]:
    passages = [
        make_passage(chunk, _readable(source.around(one.candidate.number, width), one.chunk))
        for one, chunk in zip(best, chunks, strict=True)
    ]
    return [(render_passage(passage), passage.found) for passage in merge_overlapping(passages)]


def _readable(neighbourhood: Sequence[Chunk], found: Chunk) -> list[Chunk]:
    """The neighbourhood of a found chunk up to the nearest chunk that is blocked, on each side."""
    blocked = [chunk.ordinal for chunk in neighbourhood if is_blocked(chunk)]
    first = max((ordinal for ordinal in blocked if ordinal < found.ordinal), default=-1)
    last = min((ordinal for ordinal in blocked if ordinal > found.ordinal), default=math.inf)
    return [chunk for chunk in neighbourhood if first < chunk.ordinal < last]


def _make_result(one: SelectedCandidate, rank: int) -> RetrievedChunk:
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
        "trust": one.trust.score if one.trust else 1.0,
        "rerank_score": one.rerank_score,
        "duplicates": one.duplicates,
        "passage": (),
        "anchor": chunk.anchor,
        "page": chunk.page,
        "inspection": chunk.inspection,
        "inspected_by": facts.inspected_by,
        "confidence": None,
        "graph_score": candidate.graph_score,
        "graph_path": candidate.tell_graph_path() if candidate.tell_graph_path else None,
    }
    return construct_unvalidated(RetrievedChunk, fields, _RESULT_FIELDS)


_RESULT_FIELDS = set(RetrievedChunk.model_fields)


def _at_rank(chunk: RetrievedChunk, rank: int) -> RetrievedChunk:
    return chunk if chunk.rank == rank else chunk.model_copy(update={"rank": rank})


def diversify(scores: Sequence[float], vectors: Vectors, diversity: float, top_k: int) -> list[int]:
    """The positions of `top_k` candidates (or of all there are), in the order of their choice.

    Maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998, equation 1): each place goes to the candidate with
    the highest λ · relevance − (1 − λ) · cosine to the most similar one chosen before, where relevance is the score,
    brought to [0, 1] over these candidates, and λ = 1 − diversity.

    `scores` (n,) in any unit, higher is better; `vectors` (n, d) of length 1; `diversity` in [0, 1]: 0 keeps the order
    of the scores, 1 chooses by difference alone after the first. Equal candidates keep their order.
    """
    relevance = _unit_range(np.asarray(scores, dtype=np.float64))
    likeness = np.full(len(relevance), -np.inf)
    chosen: list[int] = []
    marginal = relevance
    for _ in range(min(top_k, len(relevance))):
        best = int(np.argmax(marginal))
        chosen.append(best)
        likeness = np.maximum(likeness, vectors @ vectors[best])
        marginal = (1.0 - diversity) * relevance - diversity * likeness
        marginal[chosen] = -np.inf
    return chosen


def _unit_range(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scores between 0 (the lowest) and 1 (the highest); all 1 where they do not differ."""
    if len(scores) == 0:
        return scores
    low, high = scores.min(), scores.max()
    return (scores - low) / (high - low) if high > low else np.ones_like(scores)
