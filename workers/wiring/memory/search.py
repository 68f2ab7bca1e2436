"""Searches of what agents remember, as the index answers them: one feature's collection is a corpus of its own."""

from __future__ import annotations

from collections.abc import Callable

from sluice.contracts.errors import NotFound
from sluice.contracts.retrieval import MAX_QUERY_CHARACTERS, Query, Retrieval, RetrievedChunk, Strategy
from sluice.memory.ports import Hit, Hits

MOST_FOUND = 200


class IndexSearch:
    """A `SearchIndex` of memory over whatever answers queries of the index."""

    def __init__(self, ask: Callable[[Query], Retrieval]) -> None:
        """`ask` raises what a direct query raises."""
        self._ask = ask

    def search(self, collection: str, query: str, top_k: int) -> Hits:
        """The best of one collection; empty where nothing was indexed yet.

        Raises:
            Unavailable: the engine is away, or does not answer in time.
        """
        asked = Query(
            query=query[:MAX_QUERY_CHARACTERS],
            corpus=collection,
            top_k=min(top_k, MOST_FOUND),
            max_per_domain=0,
            duplicate_threshold=0.0,
            diversity=0.0,
            rerank=False,
        )
        try:
            return hits_of(self._ask(asked))
        except NotFound:
            return Hits((), "hybrid")


def hits_of(found: Retrieval) -> Hits:
    """What was found, with relevances in [0, 1] in the order of fusion: the best one's is the best cosine.

    A fused score has no upper end, as BM25 has none; so each counts as a share of the best. Where there are no vectors
    the best one's relevance is 1.
    """
    best = max((chunk.fused_score for chunk in found.chunks), default=0.0)
    cosines = [1.0 - chunk.dense_distance for chunk in found.chunks if chunk.dense_distance is not None]
    top = min(1.0, max(0.0, max(cosines))) if cosines else 1.0
    hits = tuple(Hit(chunk.document_id, round(top * _share(chunk, best), 6)) for chunk in found.chunks)
    return Hits(hits, "bm25" if found.metadata.strategy is Strategy.BM25 else "hybrid")


def _share(chunk: RetrievedChunk, best: float) -> float:
    return min(1.0, max(0.0, chunk.fused_score / best)) if best > 0 else 0.0
