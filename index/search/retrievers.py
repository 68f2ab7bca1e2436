"""The two arms of a search: dense and BM25, each under the same filter.

A filter never costs a result: the dense arm looks only at rows that pass, and the lexical arm either
searches only those (when they are few) or looks deeper until it has enough or there is no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from contracts.retrieval import Strategy
from index.generations.ranked import NOTHING_FOUND, Ranked
from index.generations.view import Masks, View
from index.journal.records import Vectors
from index.search.fusion import Candidates, fused_scores, ordered, pooled
from index.settings import QuerySettings
from index.terms.bm25 import USUAL_BOOSTS, Boosts, Hit, best_possible_score

_FEW_CHUNKS = 2_000
"""Up to so many passing chunks are named to the term index one by one: measured cheaper than looking deeper."""


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """What is looked for, and where: the rows of `masks` (None: all) in one view."""

    text: str
    vector: Vectors | None
    strategy: Strategy
    masks: Masks
    is_filtered: bool


def find(view: View, search: Search, depth: int, settings: QuerySettings) -> Candidates:
    """The candidates of both arms, `depth` from each, fused and in order."""
    lexical = dense = NOTHING_FOUND
    if search.strategy is not Strategy.VECTOR:
        lexical = ordered(Ranked.of(lexical_hits(view, search, depth, USUAL_BOOSTS)), view.chunk_id)
    if search.strategy is not Strategy.BM25 and search.vector is not None:
        dense = ordered(view.nearest(search.vector, depth, search.masks), view.chunk_id)
    similarity_of = None if search.vector is None else partial(view.similarities, search.vector)
    is_mixed = search.strategy is Strategy.HYBRID and settings.fusion == "adaptive"
    best_possible = best_possible_score(search.text, view.terms) if is_mixed else None
    pool = pooled(dense, lexical, similarity_of, best_possible)
    return Candidates(pool, fused_scores(pool, search.strategy, settings), view.chunk_id)


def lexical_hits(view: View, search: Search, limit: int, boosts: Boosts) -> list[Hit]:
    """The best `limit` chunks by BM25 among the rows that pass."""
    if not search.is_filtered:
        return view.terms.search(search.text, boosts, limit)
    passing = passing_numbers(view, search.masks)
    if len(passing) <= _FEW_CHUNKS:
        return view.terms.search(search.text, boosts, limit, only=passing.tolist()) if len(passing) else []
    depth = limit * max(2, round(1.5 * view.chunk_count / len(passing)))
    while True:
        hits = view.terms.search(search.text, boosts, depth)
        numbers = np.array([number for number, _ in hits], dtype=np.uint64)
        kept = np.nonzero(np.isin(numbers, passing))[0][:limit].tolist()
        if len(kept) == limit or len(hits) < depth:
            return [hits[position] for position in kept]
        depth *= 4


def passing_numbers(view: View, masks: Masks) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """The numbers of the chunks that pass, ascending."""
    parts = zip(view.parts, masks, strict=True)
    chosen = [part.segment.numbers if mask is None else part.segment.numbers[mask] for part, mask in parts]
    return np.concatenate(chosen) if chosen else np.empty(0, dtype=np.uint64)
