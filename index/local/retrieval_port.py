"""RetrievalPort version 1 over a corpus on this machine's disk.

port = LocalRetrieval(IndexReader(root, "default", QuerySettings()), "default")
one = port.retrieve(Query(query="how are leases renewed"), vector)
many = port.batch_retrieve(queries, vectors)              # all from one generation
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from sluice.contracts.errors import Conflict, InvalidInput
from sluice.contracts.retrieval import Query, Retrieval, RetrievalStats, Strategy
from sluice.index.journal.records import Vectors
from sluice.index.local.reader import IndexReader


class LocalRetrieval:
    """A reader as a RetrievalPort. The reader's owner closes it."""

    version: Literal[1] = 1

    def __init__(self, reader: IndexReader, corpus: str) -> None:
        self._reader = reader
        self._corpus = corpus

    def retrieve(self, query: Query, vector: Vectors | None = None) -> Retrieval:
        """As `RetrievalPort.retrieve`."""
        check_corpus(query, self._corpus)
        return self._reader.search(query, vector)

    def batch_retrieve(self, queries: Sequence[Query], vectors: Vectors | None = None) -> tuple[Retrieval, ...]:
        """As `RetrievalPort.batch_retrieve`."""
        pairs = pair_with_vectors(queries, vectors)
        for query, vector in pairs:
            check_corpus(query, self._corpus)
            check_vector(query, vector)
        pinned = self._reader.pin(max((query.minimum_journal_offset for query in queries), default=0))
        return tuple(pinned.search(query, vector) for query, vector in pairs)

    def stats(self) -> RetrievalStats:
        """The figures of the generation that is served now."""
        pinned = self._reader.pin()
        return RetrievalStats(
            engine="local",
            corpus=self._corpus,
            generation=pinned.generation,
            journal_offset=pinned.journal_offset,
            document_count=pinned.document_count,
            chunk_count=pinned.chunk_count,
            model_fingerprint=pinned.model_fingerprint,
        )


def check_corpus(query: Query, corpus: str) -> None:
    """Raise `InvalidInput` when the query is for another corpus than the engine's."""
    if query.corpus != corpus:
        raise InvalidInput("corpus", f"this engine serves {corpus}, not {query.corpus}", "ask that corpus's engine")


def check_vector(query: Query, vector: Vectors | None) -> None:
    """Raise `InvalidInput` when the strategy needs a vector and there is none."""
    if vector is None and query.strategy is not Strategy.BM25:
        raise InvalidInput("query_vector", f"strategy {query.strategy} needs the question's vector")


def pair_with_vectors(queries: Sequence[Query], vectors: Vectors | None) -> list[tuple[Query, Vectors | None]]:
    """Each query with its row of `vectors` (queries, d). Raises `Conflict` when their numbers differ."""
    if vectors is None:
        return [(query, None) for query in queries]
    if vectors.ndim != 2 or len(vectors) != len(queries):
        raise Conflict(f"vectors of shape {vectors.shape} for {len(queries)} queries: give one row for each")
    return list(zip(queries, vectors, strict=True))
