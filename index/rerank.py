"""The reranker hook: a second look at the best candidates, by whatever reads question and text together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from contracts.retrieval import RetrievedChunk


class Reranker(Protocol):
    """Gives the candidates in a better order. It may drop some; it may not add any."""

    depth: int
    """How many of the best candidates it wants to see; 0 for none."""

    def rerank(self, query: str, chunks: Sequence[RetrievedChunk]) -> Sequence[RetrievedChunk]:
        """The chunks, best first."""
        ...


class KeepOrder:
    """The default: fusion has the last word."""

    depth = 0

    def rerank(self, query: str, chunks: Sequence[RetrievedChunk]) -> Sequence[RetrievedChunk]:
        """The chunks as they came."""
        return chunks
