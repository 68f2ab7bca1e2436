"""From fused candidates to results.

    candidates in fused order, those that merely repeat the question behind all others (`index.search.echoes`)
      -> guard: blocked candidates are dropped
      -> trust: candidates below the query's threshold are dropped
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
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.base import construct_unvalidated
from sluice.contracts.document import Chunk
from sluice.contracts.retrieval import Query, RetrievedChunk
from sluice.index.journal.records import Vectors
from sluice.index.search.candidates import CandidateSelection, ChunkSource, Ranking, SelectedCandidate, is_blocked
from sluice.index.search.passages import make_passage, merge_overlapping, render_passage
from sluice.index.search.reranker import NotReranked


class Selection(NamedTuple):
    """The chunks to return, in order, and how they were selected: fields of `RetrievalMetadata`, by name."""

    chunks: tuple[RetrievedChunk, ...] = ()
    metadata: Mapping[str, Any] = MappingProxyType({})


NOTHING = Selection()
"""The selection of a search without candidates."""

Result = tuple[RetrievedChunk, Sequence[RetrievedChunk]]
"""A result, and the found chunks in it: itself, unless it is a passage."""


def select_results(source: ChunkSource, query: Query, candidates: CandidateSelection, ranking: Ranking) -> Selection:
    """Select the results: rerank, diversify, cut to `top_k`, add neighbours, and keep to the token budget."""
    ordered, outcome = _rerank(query, candidates.candidates, ranking)
    best = _diversify(source, ordered, ranking.diversity(query), query.top_k)
    chunks = [_make_result(one, rank) for rank, one in enumerate(best, start=1)]
    results = _add_neighbours(source, best, chunks, query.neighbours)
    fitting, budget_dropped = within_budget(results, query.max_tokens)
    scores = {one.chunk.chunk_id: one.trust for one in best if one.trust}
    metadata = {
        "trust_scores": tuple(scores[chunk.chunk_id] for chunk in fitting) if scores else (),
        "budget_dropped": budget_dropped,
        **{f"{reason}_dropped": count for reason, count in candidates.dropped.items()},
        **outcome,
    }
    return Selection(tuple(_at_rank(chunk, rank) for rank, chunk in enumerate(fitting, start=1)), metadata)


def within_budget(results: Sequence[Result], max_tokens: int | None) -> tuple[list[RetrievedChunk], int]:
    """Select the results that fit into `max_tokens` together, best first; return them and the number left out.

    A result that is too long is skipped, and shorter ones may follow. From a passage that is too long, the found chunks
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
) -> tuple[Sequence[SelectedCandidate], dict[str, object]]:
    """Put the best candidates in the reranker's order, before the others; keep the order where it fails.

    Return them with the outcome, as fields of `RetrievalMetadata`. What callers speak against loses a share of the
    largest score, whatever the scale of the scores is.
    """
    depth = min(ranking.rerank_depth(query), sum(not one.is_echo for one in candidates))
    seen, others = candidates[:depth], candidates[depth:]
    if not seen or ranking.reranker is None:
        return candidates, {}
    shown = [_make_result(one, rank) for rank, one in enumerate(seen, start=1)]
    try:
        ordered = ranking.reranker.rerank(query.query, shown)
    except NotReranked as failure:
        return candidates, {"rerank_failure": str(failure), "rerank_asked": failure.was_asked}
    first = [seen[chunk.rank - 1] for chunk in ordered]
    for one, chunk in zip(first, ordered, strict=True):
        one.rerank_score = chunk.rerank_score
    if any(one.doubt for one in first):
        largest = max(abs(one.rerank_score or 0.0) for one in first)
        for one in first:
            one.rerank_score = (one.rerank_score or 0.0) - one.doubt * largest
        first.sort(key=lambda one: -(one.rerank_score or 0.0))
    return [*first, *others], {"reranked": True, "rerank_asked": True}


def _diversify(
    source: ChunkSource, ordered: Sequence[SelectedCandidate], diversity: float, top_k: int
) -> Sequence[SelectedCandidate]:
    if not diversity or not ordered:
        return ordered[:top_k]
    answers = [one for one in ordered if not one.is_echo] or ordered
    vectors = source.vectors_of([one.candidate.number for one in answers])
    best = [answers[position] for position in diversify(_relevance(answers), vectors, diversity, top_k)]
    return [*best, *ordered[len(answers) :]][:top_k]


def _relevance(ordered: Sequence[SelectedCandidate]) -> list[float]:
    """Return the reranker's scores, the lowest for candidates that it did not see; without any, fusion's scores."""
    reranked = [one.rerank_score for one in ordered if one.rerank_score is not None]
    if not reranked:
        return [one.candidate.fused_score for one in ordered]
    return [min(reranked) if one.rerank_score is None else one.rerank_score for one in ordered]


def _add_neighbours(
    source: ChunkSource, best: Sequence[SelectedCandidate], chunks: Sequence[RetrievedChunk], width: int
) -> list[Result]:
    if not width:
        return [(chunk, [chunk]) for chunk in chunks]
    passages = [
        make_passage(chunk, _readable(source.around(one.candidate.number, width), one.chunk))
        for one, chunk in zip(best, chunks, strict=True)
    ]
    return [(render_passage(passage), passage.found) for passage in merge_overlapping(passages)]


def _readable(neighbourhood: Sequence[Chunk], found: Chunk) -> list[Chunk]:
    """Return the neighbourhood of a found chunk up to the nearest blocked chunk on each side."""
    blocked = [chunk.ordinal for chunk in neighbourhood if is_blocked(chunk)]
    first = max((ordinal for ordinal in blocked if ordinal < found.ordinal), default=-1)
    last = min((ordinal for ordinal in blocked if ordinal > found.ordinal), default=math.inf)
    return [chunk for chunk in neighbourhood if first < chunk.ordinal < last]


_OF_CHUNK = (
    *("chunk_id", "document_id", "start_line", "end_line", "section_path", "symbol_path"),
    *("text", "token_estimate", "checksum", "anchor", "page", "inspection"),
)
_OF_FACTS = ("url", "file_path", "title", "metadata", "provenance", "inspected_by")
_OF_CANDIDATE = ("dense_rank", "lexical_score", "lexical_rank", "fused_score", "graph_score")


def _make_result(one: SelectedCandidate, rank: int) -> RetrievedChunk:
    candidate, facts, chunk = one.candidate, one.facts, one.chunk
    similarity = candidate.similarity
    values = {
        **{name: getattr(chunk, name) for name in _OF_CHUNK},
        **{name: getattr(facts, name) for name in _OF_FACTS},
        **{name: getattr(candidate, name) for name in _OF_CANDIDATE},
        "language": chunk.language or facts.language,
        "dense_distance": None if similarity is None else min(2.0, max(0.0, 1.0 - similarity)),
        "rank": rank,
        "trust": one.trust.score if one.trust else 1.0,
        "rerank_score": one.rerank_score,
        "duplicates": one.duplicates,
        "passage": (),
        "confidence": None,
        "corpus": None,
        "graph_path": candidate.tell_graph_path() if candidate.tell_graph_path else None,
    }
    fields = {name: values[name] for name in RetrievedChunk.model_fields}  # as they stand in JSON
    return construct_unvalidated(RetrievedChunk, fields, set(fields))


def _at_rank(chunk: RetrievedChunk, rank: int) -> RetrievedChunk:
    return chunk if chunk.rank == rank else chunk.model_copy(update={"rank": rank})


def diversify(scores: Sequence[float], vectors: Vectors, diversity: float, top_k: int) -> list[int]:
    """Return the positions of `top_k` candidates (or all, if fewer), in the order of their choice.

    Maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998, equation 1): each place goes to the candidate with
    the highest λ · relevance − (1 − λ) · cosine to the most similar candidate chosen before, where relevance is the
    score scaled to [0, 1] over these candidates, and λ = 1 − diversity.

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
    """Return the scores between 0 (the lowest) and 1 (the highest); all 1 where they do not differ."""
    if len(scores) == 0:
        return scores
    low, high = scores.min(), scores.max()
    return (scores - low) / (high - low) if high > low else np.ones_like(scores)
