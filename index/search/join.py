"""One order of the results of several corpora."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.contracts.retrieval import CorpusSearched, JoinedRetrieval, Retrieval, RetrievedChunk


def join(found: Mapping[str, Retrieval], top_k: int, max_tokens: int | None) -> JoinedRetrieval:
    """Return the best `top_k` chunks of all corpora, within `max_tokens`; of copies the first stays.

    Fused scores are comparable in one corpus alone. So the order is by confidence where every passage has one, as it is
    a calibrated probability, and else by the ranks in each corpus, of equal ranks by the cosine to the question. What
    is marked as a flood comes last.
    """
    parts = [chunk.model_copy(update={"corpus": corpus}) for corpus, one in found.items() for chunk in one.chunks]
    by_confidence = all(chunk.confidence is not None for chunk in parts)

    def place(chunk: RetrievedChunk) -> tuple[bool, float, float]:
        nearness = chunk.dense_distance if chunk.dense_distance is not None else 2.0
        return chunk.is_flood, -(chunk.confidence or 0.0) if by_confidence else float(chunk.rank), nearness

    kept: dict[str, RetrievedChunk] = {}
    tokens = 0
    for chunk in sorted(parts, key=place):
        tokens += 0 if chunk.checksum in kept else chunk.token_estimate
        if len(kept) == top_k or (max_tokens is not None and tokens > max_tokens):
            break
        kept.setdefault(chunk.checksum, chunk.model_copy(update={"rank": len(kept) + 1}))
    searched = (
        CorpusSearched(
            corpus=corpus, generation=one.generation, journal_offset=one.journal_offset, metadata=one.metadata
        )
        for corpus, one in found.items()
    )
    return JoinedRetrieval(corpora=tuple(searched), chunks=tuple(kept.values()))
