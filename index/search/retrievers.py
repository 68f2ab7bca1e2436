"""The two retrievers of a search, dense and BM25, each under the same filter.

A filter costs no results: the dense retriever scans only rows that pass, and BM25 either searches only those (when
they are few) or searches deeper until it has enough or there is no more.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from sluice.contracts.retrieval import Strategy
from sluice.index.generations.view import NOTHING_FOUND, Masks, Ranked, View
from sluice.index.journal.records import Vectors
from sluice.index.search.fusion import RankedCandidates, break_ties, combine_results, fuse_scores, list_candidates
from sluice.index.settings import QuerySettings
from sluice.index.terms.bm25 import USUAL_BOOSTS, Boosts, Hit

_FEW_CHUNKS = 2_000
"""Up to this many passing chunks are listed to the term index, which is cheaper than searching deeper."""
_MOST_KEPT = 16
"""Searches whose candidates are kept: an equal one comes within milliseconds, or never."""


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """A question, and the rows of one view to search: those in `masks` (None: all)."""

    text: str
    vector: Vectors | None
    strategy: Strategy
    masks: Masks
    is_filtered: bool


def retrieve_candidates(view: View, search: Search, depth: int, settings: QuerySettings) -> RankedCandidates:
    """Retrieve `depth` candidates by each retriever, fuse them, and return them best first."""
    lexical = dense = NOTHING_FOUND
    if search.strategy is not Strategy.VECTOR:
        lexical = break_ties(Ranked.of(retrieve_by_terms(view, search, depth, USUAL_BOOSTS)), view.chunk_id)
    if search.strategy is not Strategy.BM25 and search.vector is not None:
        dense = break_ties(view.nearest(search.vector, depth, search.masks), view.chunk_id)
    numbers = list_candidates(dense, lexical)
    by_words_alone = numbers[len(dense.numbers) :]
    cosines = [math.nan] * len(by_words_alone)
    if search.vector is not None:
        cosines = view.similarities(search.vector, by_words_alone)
    is_mixed = search.strategy in (Strategy.HYBRID, Strategy.HYBRID_GRAPH)
    scores = view.terms.score(search.text, USUAL_BOOSTS, numbers) if is_mixed else None
    results = combine_results(dense, lexical, cosines, scores)
    return RankedCandidates(results, fuse_scores(results, search.strategy, settings), view.chunk_id)


class LatestCandidates:
    """The candidates of a reader's latest searches: the gate's probe and the answer ask the same. Safe for threads.

    A search gets them only where it would retrieve the very same: by the same text, vector, strategy and depth, without
    a filter, from the same view. They are given once; what nobody fetches goes with the next searches.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[object, ...], tuple[View, RankedCandidates]] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, view: View, search: Search, depth: int, candidates: RankedCandidates) -> None:
        """Keep what an unfiltered search retrieved from `view`."""
        if search.is_filtered:
            return
        with self._lock:
            self._kept[_asked(search, depth)] = view, candidates
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)

    def take(self, view: View, search: Search, depth: int) -> RankedCandidates | None:
        """What was retrieved for an equal search; None where nothing is kept for it."""
        with self._lock:
            kept = None if search.is_filtered else self._kept.pop(_asked(search, depth), None)
        return kept[1] if kept and kept[0] is view else None

    def clear(self) -> None:
        """Let go of everything, and with it of the views."""
        with self._lock:
            self._kept.clear()


def _asked(search: Search, depth: int) -> tuple[object, ...]:
    return search.text, search.strategy, depth, None if search.vector is None else search.vector.tobytes()


def retrieve_by_terms(view: View, search: Search, limit: int, boosts: Boosts) -> list[Hit]:
    """Retrieve the best `limit` chunks by BM25 among the rows that pass."""
    if not search.is_filtered:
        return view.terms.search(search.text, boosts, limit)
    passing = list_passing_numbers(view, search.masks)
    if len(passing) <= _FEW_CHUNKS:
        return view.terms.search(search.text, boosts, limit, only=passing.tolist()) if len(passing) else []
    depth = limit * max(2, round(1.5 * view.chunk_count / len(passing)))
    while True:
        hits = view.terms.search(search.text, boosts, depth)
        numbers = np.array([number for number, _ in hits], dtype=np.uint64)
        passed = np.nonzero(np.isin(numbers, passing))[0][:limit].tolist()
        if len(passed) == limit or len(hits) < depth:
            return [hits[position] for position in passed]
        depth *= 4


def list_passing_numbers(view: View, masks: Masks) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """The numbers of the chunks that pass, ascending."""
    parts = zip(view.parts, masks, strict=True)
    chosen = [part.segment.numbers if mask is None else part.segment.numbers[mask] for part, mask in parts]
    return np.concatenate(chosen) if chosen else np.empty(0, dtype=np.uint64)
