"""The two arms of a search: exact dense and BM25, each under the same filter.

A filter never costs a result: the dense arm looks only at rows that pass, and the lexical arm either
searches only those (when they are few) or looks deeper until it has enough or there is no more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from contracts.retrieval import Strategy
from index.fuse import Candidate, Scored, candidates, in_order, reciprocal_ranks, weighted_sum
from index.generation import Masks, OpenGeneration
from index.records import Vectors
from index.settings import QuerySettings
from index.terms import Boosts

_FEW_CHUNKS = 2_000
"""Up to so many passing chunks are named to the term index one by one: measured cheaper than looking deeper."""


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """What is looked for, and where: the rows of `masks` (None: all) in one generation."""

    text: str
    vector: Vectors | None
    strategy: Strategy
    masks: Masks
    is_filtered: bool


def find(generation: OpenGeneration, search: Search, depth: int, settings: QuerySettings) -> list[Candidate]:
    """The candidates of both arms, `depth` from each, fused and in order."""
    name_of = generation.chunk_id
    lexical: list[Scored] = []
    dense: list[Scored] = []
    if search.strategy is not Strategy.VECTOR:
        lexical = in_order(lexical_hits(generation, search, depth, boosts_of(settings)), name_of)
    if search.strategy is not Strategy.BM25 and search.vector is not None:
        dense = in_order(generation.nearest(search.vector, depth, search.masks), name_of)
    similarities = dict(dense)
    if search.vector is not None:
        missing = [number for number, _ in lexical if number not in similarities]
        similarities.update(zip(missing, generation.similarity(search.vector, missing), strict=True))
    fused = _fuse(search.strategy, dense, lexical, similarities, settings)
    return candidates(fused, dense, lexical, similarities, name_of)


def lexical_hits(generation: OpenGeneration, search: Search, limit: int, boosts: Boosts) -> list[Scored]:
    """The best `limit` chunks by BM25 among the rows that pass."""
    if not search.is_filtered:
        return generation.terms.search(search.text, boosts, limit)
    passing = passing_numbers(generation, search.masks)
    if len(passing) <= _FEW_CHUNKS:
        return generation.terms.search(search.text, boosts, limit, only=passing.tolist()) if len(passing) else []
    depth = limit * max(2, round(1.5 * generation.chunk_count / len(passing)))
    while True:
        hits = generation.terms.search(search.text, boosts, depth)
        numbers = np.array([number for number, _ in hits], dtype=np.uint64)
        kept = np.nonzero(np.isin(numbers, passing))[0][:limit].tolist()
        if len(kept) == limit or len(hits) < depth:
            return [hits[position] for position in kept]
        depth *= 4


def passing_numbers(generation: OpenGeneration, masks: Masks) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """The numbers of the chunks that pass, ascending."""
    parts = zip(generation.parts, masks, strict=True)
    chosen = [part.segment.numbers if mask is None else part.segment.numbers[mask] for part, mask in parts]
    return np.concatenate(chosen) if chosen else np.empty(0, dtype=np.uint64)


def boosts_of(settings: QuerySettings) -> Boosts:
    """The weights of the fields as the term index takes them."""
    return Boosts(settings.title_boost, settings.heading_boost, settings.code_boost, settings.max_query_terms)


def _fuse(
    strategy: Strategy,
    dense: list[Scored],
    lexical: list[Scored],
    similarities: dict[int, float],
    settings: QuerySettings,
) -> dict[int, float]:
    match strategy:
        case Strategy.BM25:
            return dict(lexical)
        case Strategy.VECTOR:
            return dict(dense)
        case Strategy.HYBRID if settings.fusion == "weighted":
            return weighted_sum(similarities, lexical, settings.alpha, settings.beta)
        case Strategy.HYBRID:
            return reciprocal_ranks(dense, lexical, settings.rrf_k)
